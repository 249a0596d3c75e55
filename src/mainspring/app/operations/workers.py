"""Work for other machines: put a session into a queue, be a worker, see and steer the fleet."""

from __future__ import annotations

import os
import re
import secrets
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from mainspring import __version__
from mainspring.app.operations.approve import record_answers
from mainspring.app.stores import (
    check_dispatch,
    dispatched_queue,
    folders_seen,
    sessions_of,
    shared_files,
    temporal_schedules,
    work_queue,
)
from mainspring.catalog import DEFAULT_QUEUE, QueuedSession, SessionRow, WorkerRow
from mainspring.daemon.scheduled import QueuedGoals
from mainspring.daemon.worker import Worker
from mainspring.errors import UsageError
from mainspring.events import ApprovalGiven, Media
from mainspring.events.counts import rounded_usd
from mainspring.session.left_turn import leave_turn
from mainspring.session.session import Session
from mainspring.settings import Config
from mainspring.system import host_name

__all__ = ["DEFAULT_QUEUE", "QueuedSession", "WorkerRow", "check_dispatch"]

_WORD = re.compile(r"[\w.-]*[^\W_][\w.-]*")


async def run_worker(
    config: Config,
    say: Callable[[str], None],
    *,
    queue: str,
    labels: Sequence[str],
    capacity: int,
    is_once: bool = False,
    is_temporal: bool | None = None,
) -> None:
    """Is a worker until a signal ends it, or an order to drain. Temporal says what to work on when the
    settings name one, unless `is_temporal` is false, or it is only for once."""
    is_named = bool(config.settings.temporal.address)
    if is_temporal and not is_named:
        raise UsageError(
            "No address of Temporal is set.",
            remedy="Name it: mainspring config set temporal.address localhost:7233",
        )
    if is_temporal and is_once:
        raise UsageError(
            "--once cannot be combined with --temporal: it takes from the store itself.",
            remedy="Leave one of them out.",
        )
    is_dispatched = is_named and is_temporal is not False and not is_once
    pid = os.getpid()
    me = WorkerRow(
        id=f"{host_name()}-{pid}-{secrets.token_hex(2)}",
        queue=queue,
        labels=tuple(labels),
        capacity=capacity,
        host=host_name(),
        pid=pid,
        version=__version__,
    )
    sessions, files = sessions_of(config), shared_files(config)
    async with dispatched_queue(config, say) if is_dispatched else work_queue(config) as store:
        scheduled = QueuedGoals(config, sessions, files, me, say, store)
        keep = temporal_schedules(config, store, scheduled) if is_dispatched else scheduled.keep
        await Worker(config, store, sessions, me, say, None if is_once else keep).run(is_once=is_once)


class QueuePlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where a session shall wait for a worker that has all `labels`. `options` are added to its `resume`:
    what a person chose that the journal does not keep."""

    queue: str = DEFAULT_QUEUE
    labels: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


async def enqueue(config: Config, session: str, place: QueuePlace) -> None:
    """Leaves a session to a worker."""
    item = QueuedSession(
        session=await sessions_of(config).find(session),
        queue=place.queue,
        labels=place.labels,
        person=config.origin.user,
        options=place.options,
    )
    async with dispatched_queue(config) as store:
        await store.put(item)


async def leave_to_worker(
    config: Config, session: Session, text: str, media: Sequence[Media], place: QueuePlace
) -> None:
    """Says something to an open session, and leaves the turn to a worker."""
    await leave_turn(session, text, media, schema=session.output.schema if session.output else None)
    await enqueue(config, session.id, place)


async def answer_queued(config: Config, session: str, answers: Sequence[ApprovalGiven]) -> str:
    """Records answers to a session that is left to workers, one of which goes on with it; gives its queue, or
    nothing when it is in none."""
    if not config.store_url:
        return ""
    async with dispatched_queue(config) as store:
        if (item := await store.look(session)) is None:
            return ""
        await record_answers(config, session, answers)
        await store.poke(session, "approve")
        return item.queue


async def poke_workers(config: Config, session: str, why: str) -> None:
    """Makes workers look at a session at once, if it is left to them."""
    if config.store_url:
        async with dispatched_queue(config) as store:
            await store.poke(session, why)


async def queued_sessions(config: Config) -> frozenset[str]:
    """The sessions that are left to workers."""
    async with work_queue(config) as store:
        return frozenset(item.session for item in await store.items())


FleetPlace = Literal["at work", "waiting", "asleep", "set aside"]


class FleetRow(msgspec.Struct, frozen=True, kw_only=True):
    """A session in the fleet: where it stands, who works on it, and how long it has waited for a worker."""

    session: str
    queue: str
    labels: tuple[str, ...]
    person: str
    worker: str
    state: str
    title: str
    cost_usd: float
    waits_s: float
    crashes: int
    wake_us: int | None
    is_set_aside: bool
    detail: str
    place: FleetPlace


class QueueRow(msgspec.Struct, frozen=True, kw_only=True):
    """A queue: what its living workers could do at once, where its sessions stand, what they cost so far, and
    how long the one waits that waits longest for a worker (`lag_s`)."""

    queue: str
    workers: int
    capacity: int
    at_work: int
    waiting: int
    asleep: int
    set_aside: int
    crashes: int
    cost_usd: float
    lag_s: float


class WorkerFleet(msgspec.Struct, frozen=True, kw_only=True):
    """All workers and what is in queues."""

    workers: tuple[WorkerRow, ...]
    sessions: tuple[FleetRow, ...]
    queues: tuple[QueueRow, ...]


def parse_labels(given: str) -> tuple[str, ...]:
    """Labels as they are given: words with commas between them."""
    labels = tuple(dict.fromkeys(word.strip() for word in given.split(",") if word.strip()))
    for label in labels:
        if not _WORD.fullmatch(label):
            raise UsageError(
                f"The label {label!r} is not a word.",
                remedy="Labels are words with commas between: gpu,slurm.",
            )
    return labels


def parse_queue(given: str) -> str:
    """The name of a queue as it is given: one word."""
    if not _WORD.fullmatch(given):
        raise UsageError(
            f"{given!r} is no name of a queue.",
            remedy="It is one word, of letters, digits, `-`, `_` and `.`.",
        )
    return given


async def fleet(config: Config) -> WorkerFleet:
    """All workers, and the sessions that are in queues or at work, as far as whoever asks may see them."""
    async with work_queue(config) as store:
        items, workers = await store.items(), await store.workers()
        rows = {row.id: row for row in await store.standing([item.session for item in items])}
    now_us, is_seen = time.time_ns() // 1000, await folders_seen(config)
    sessions = tuple(
        _fleet_row(item, row, now_us)
        for item in items
        if (row := rows.get(item.session)) is not None and is_seen(row.folder)
    )
    names = dict.fromkeys([*(each.queue for each in workers), *(each.queue for each in sessions)])
    queues = tuple(_queue_row(name, workers, sessions) for name in sorted(names))
    return WorkerFleet(workers=tuple(workers), sessions=sessions, queues=queues)


async def drain_worker(config: Config, worker: str) -> None:
    """Tells a worker to give back what it does, and to end."""
    async with work_queue(config) as store:
        found = [each.id for each in await store.workers() if each.id.startswith(worker)]
        if len(found) != 1:
            many = f"{len(found)} workers begin" if found else "No worker begins"
            raise UsageError(
                f"{many} with {worker}.", remedy="`mainspring fleet` lists the workers with their names."
            )
        await store.drain(found[0])


async def retry_session(config: Config, session: str) -> str:
    """Gives a session that was set aside, or waits to be tried again, to workers at once; gives its id."""
    name = await sessions_of(config).find(session)
    async with dispatched_queue(config) as store:
        if not await store.retry(name):
            raise _not_queued(name)
    return name


async def move_session(config: Config, session: str, *, queue: str, labels: Sequence[str] | None) -> str:
    """Puts a session into another queue, or asks for other labels; gives its id. Who works on it goes on."""
    name = await sessions_of(config).find(session)
    async with dispatched_queue(config) as store:
        item = await store.look(name)
        if item is None:
            raise _not_queued(name)
        wanted = item.labels if labels is None else tuple(labels)
        place = parse_queue(queue) if queue else item.queue
        await store.put(msgspec.structs.replace(item, queue=place, labels=wanted))
    return name


def _not_queued(session: str) -> UsageError:
    return UsageError(
        f"Session {session} is in no queue.", remedy="`mainspring fleet` lists the sessions of all queues."
    )


def _queue_row(name: str, workers: Sequence[WorkerRow], sessions: Sequence[FleetRow]) -> QueueRow:
    working = [each for each in workers if each.queue == name and each.state == "working"]
    here = [each for each in sessions if each.queue == name]
    places = Counter(each.place for each in here)
    return QueueRow(
        queue=name,
        workers=len(working),
        capacity=sum(each.capacity for each in working),
        at_work=places["at work"],
        waiting=places["waiting"],
        asleep=places["asleep"],
        set_aside=places["set aside"],
        crashes=sum(each.crashes for each in here),
        cost_usd=rounded_usd(sum(each.cost_usd for each in here)),
        lag_s=max((each.waits_s for each in here), default=0.0),
    )


def _fleet_row(item: QueuedSession, row: SessionRow, now_us: int) -> FleetRow:
    place = _place(item)
    state = (row.goal_state if row.goal else row.state) if item.worker else place
    return FleetRow(
        session=item.session,
        queue=item.queue,
        labels=item.labels,
        person=item.person,
        worker=item.worker,
        state="waits for a worker" if place == "waiting" else state,
        title=row.title,
        cost_usd=row.cost_usd,
        waits_s=round((now_us - max(item.added_us, row.updated_us)) / 1e6, 1) if place == "waiting" else 0.0,
        crashes=item.crashes,
        wake_us=item.wake_us,
        is_set_aside=item.is_set_aside,
        detail=item.detail,
        place=place,
    )


def _place(item: QueuedSession) -> FleetPlace:
    if item.worker:
        return "at work"
    if item.is_set_aside:
        return "set aside"
    return "asleep" if item.wake_us else "waiting"
