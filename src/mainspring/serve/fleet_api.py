"""The workers of all machines over HTTP: what they do, what waits, and to steer them."""

from __future__ import annotations

import msgspec

from mainspring.app.operations.workers import (
    DEFAULT_QUEUE,
    WorkerFleet,
    drain_worker,
    fleet,
    move_session,
    parse_labels,
    retry_session,
)
from mainspring.serve.routes import ApiCall, Route, get_route, post_route
from mainspring.serve.values import Nothing, Started, Taken


class SharedFleet(msgspec.Struct, frozen=True, kw_only=True):
    """None where sessions are kept in files of this machine, so that there can be no workers elsewhere."""

    fleet: WorkerFleet | None


class WorkerNamed(Taken, frozen=True, kw_only=True):
    worker: str


class QueuedNamed(Taken, frozen=True, kw_only=True):
    session: str


class MoveQueued(Taken, frozen=True, kw_only=True):
    """To a queue, for workers that have all of these labels, with commas between them."""

    session: str
    queue: str = DEFAULT_QUEUE
    labels: str = ""


async def _fleet(asked: ApiCall) -> SharedFleet:
    return SharedFleet(fleet=await fleet(asked.config) if asked.config.store_url else None)


async def _drain(asked: ApiCall) -> Nothing:
    await drain_worker(asked.config, asked.taken.worker)
    return Nothing()


async def _retry(asked: ApiCall) -> Started:
    return Started(session=await retry_session(asked.config, asked.taken.session))


async def _move(asked: ApiCall) -> Started:
    given: MoveQueued = asked.taken
    labels = parse_labels(given.labels)
    return Started(session=await move_session(asked.config, given.session, queue=given.queue, labels=labels))


ROUTES: tuple[Route, ...] = (
    get_route("/fleet", "Workers of all machines, and queues.", _fleet, SharedFleet, operation="fleet"),
    post_route("/fleet/drain", "fleet drain", "Let a worker end.", _drain, Nothing, WorkerNamed),
    post_route("/fleet/retry", "fleet retry", "Give it to workers again.", _retry, Started, QueuedNamed),
    post_route("/fleet/move", "fleet move", "Put it into another queue.", _move, Started, MoveQueued),
)
