"""Work that machines share, given out by Temporal: a workflow for each session in a queue.

Temporal only says which session a worker shall look at, and when. Whether there is something to do, who may
do it and what became of it is in the store, as without Temporal; so a session that is given out twice is
worked on once, and one that Temporal has lost is given out again by the next worker that looks.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AsyncExitStack, suppress
from datetime import timedelta
from itertools import combinations
from typing import Any

import msgspec
from temporalio import activity
from temporalio import worker as workers
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.client import Client, ScheduleAlreadyRunningError
from temporalio.common import Priority
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.service import RPCError, RPCStatusCode
from temporalio.workflow import NondeterminismError

from mainspring.catalog import ClaimChoice, Claimed, QueuedSession, Release, WorkerRow, WorkQueue
from mainspring.daemon.temporal_workflow import NAME, STATE, WORK, SessionWorkflow
from mainspring.errors import JournalError, MainspringError, UsageError
from mainspring.settings import Config

API_KEY = "TEMPORAL_API_KEY"
"""The variable in which Temporal's own programs look for a key too."""
_MOST_LABELS = 4
"""A worker asks for every set of its labels, each by a connection that waits."""
_AGAIN_S = _BEAT_S = 2.0
_LOOK_S = 10.0
_FORGET_AFTER_S = 600.0
_OFFERS = 200
_WITHIN = timedelta(seconds=5)
_UNDONE = ("running", "interrupted", "crashed")
_WAITING = ("asleep", "blocked", "waiting", "paused", "set aside")
"""What a session may stand at for which there is more to do one day."""


class TemporalUnavailable(MainspringError):
    """Its server cannot be reached, or does not let us in."""


class _Answer(msgspec.Struct, frozen=True):
    """What became of a session that Temporal gave to this worker; with `again_s` some worker looks again."""

    state: str
    wake_us: int | None = None
    again_s: float | None = None


class TemporalServer:
    """The server and namespace that the settings name; connected to when it is needed."""

    def __init__(self, config: Config, say: Callable[[str], None]) -> None:
        self._say, self._problem = say, ""
        self._settings, self._api_key = config.settings.temporal, config.variable(API_KEY)
        self._client: Client | None = None

    async def client(self) -> Client:
        if self._client is None:
            try:
                self._client = await Client.connect(
                    self._settings.address,
                    namespace=self._settings.namespace,
                    tls=self._settings.tls or None,
                    api_key=self._api_key or None,
                    connect_timeout=_WITHIN,
                )
            except (RuntimeError, ValueError) as error:  # all that its connection raises
                raise self._unavailable("cannot be reached") from error
        return self._client

    async def is_ready(self) -> bool:
        """Whether its page can show our states; raises when it lets nobody in."""
        asked = ListSearchAttributesRequest(namespace=self._settings.namespace)
        try:
            service = (await self.client()).operator_service
            known = await service.list_search_attributes(asked, timeout=_WITHIN)
        except RPCError as error:
            raise self._unavailable(f"does not let us in: {error.message}") from error
        return STATE.name in known.custom_attributes

    async def prepare(self) -> None:
        """Adds what that takes."""
        if await self.is_ready():
            return
        kinds = {STATE.name: IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD}
        asked = AddSearchAttributesRequest(namespace=self._settings.namespace, search_attributes=kinds)
        try:
            await (await self.client()).operator_service.add_search_attributes(asked, timeout=_WITHIN)
        except RPCError as error:
            raise self._unavailable(f"has no {STATE.name}: {error.message}") from error

    async def tried(self, do: Callable[[Client], Awaitable[object]]) -> bool:
        """Whether it was done. What Temporal does not hear of now, it hears of from a worker that looks."""
        try:
            await do(await self.client())
        except ScheduleAlreadyRunningError:  # made by another worker
            pass
        except (RPCError, TemporalUnavailable) as error:
            if isinstance(error, RPCError) and error.status == RPCStatusCode.NOT_FOUND:
                return True
            if self._problem != error.message:
                self._say(f"Temporal: {error.message.removesuffix('.')}; workers see to it later")
            self._problem = error.message
            return False
        self._problem = ""
        return True

    def _unavailable(self, why: str) -> TemporalUnavailable:
        return TemporalUnavailable(
            f"Temporal at {self._settings.address}, namespace {self._settings.namespace}, {why}.",
            remedy="Look at [temporal] in config.toml and at that server, which must have the search"
            f" attribute {STATE.name} (Keyword).",
        )


class TemporalQueue:
    """A queue of a store whose sessions Temporal gives out, at this `server`."""

    def __init__(self, queue: WorkQueue, server: TemporalServer) -> None:
        self._queue, self.server = queue, server
        self._asked: dict[str, asyncio.Future[_Answer]] = {}
        self._changed = asyncio.Event()
        self._hint: Callable[[], None] = self._changed.set
        self._is_prepared = False

    async def put(self, item: QueuedSession) -> None:
        before = await self._queue.look(item.session)
        await self._queue.put(item)
        if before is not None and _task_queue(before) != _task_queue(item):
            why = f"moved to {_task_queue(item)}"
            await self.server.tried(
                lambda client: client.get_workflow_handle(item.session).terminate(reason=why)
            )
        await self._wake(item, "say")

    async def retry(self, session: str) -> bool:
        is_found = await self._queue.retry(session)
        await self.poke(session)
        return is_found

    async def poke(self, session: str, why: str = "poke") -> None:
        await self._queue.poke(session, why)
        if (item := await self._queue.look(session)) is not None:
            await self._wake(item, why)

    async def hello(self, worker: WorkerRow, lease_s: float) -> bool:
        if not self._is_prepared:
            _task_queues(worker)
            await self.server.prepare()
            self._is_prepared = True
        return await self._queue.hello(worker, lease_s)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)  # all that Temporal has no part in

    async def claim(
        self,
        worker: WorkerRow,
        mine: Sequence[str],
        limit: int,
        choose: Callable[[Claimed], Awaitable[ClaimChoice]],
        only: Collection[str] | None = None,
        without: Collection[str] = (),
    ) -> list[QueuedSession]:
        """Of the sessions that Temporal gave to this worker. It hears at once of those that are not taken."""
        asked = [each for each in self._asked if each not in mine and each not in without]
        wanted = [each for each in asked if only is None or each in only]
        if not wanted:
            return []
        taken = await self._queue.claim(worker, mine, limit, choose, wanted)
        for session in set(wanted) - {item.session for item in taken}:
            self._answer(session, await self._standing(session))
        return taken

    async def release(self, session: str, worker: str, given: Release) -> None:
        await self._queue.release(session, worker, given)
        if given.idle_seq is not None:
            return self._answer(session, await self._standing(session))
        wait_s = (given.retry_us - _now_us()) / 1e6 if given.retry_us else 0.0
        state = f"crashed, the {given.crashes}. time" if given.crashes else "given back"
        return self._answer(session, _Answer(state, again_s=max(wait_s, 0.1)))

    async def hear(self, on_hint: Callable[[], None], worker: WorkerRow, room: Callable[[], int]) -> None:
        """Takes what Temporal has for this worker, until it is cancelled."""
        self._hint = on_hint
        client = await self.server.client()
        async with AsyncExitStack() as takers:
            for name in _task_queues(worker):
                await takers.enter_async_context(self._taker(client, name, worker.id, room))
            try:
                await self._find_lost(worker)
            finally:
                for session in list(self._asked):
                    self._answer(session, _Answer("given back", again_s=_AGAIN_S))

    def _taker(self, client: Client, name: str, identity: str, room: Callable[[], int]) -> workers.Worker:
        fixed = workers.FixedSizeSlotSupplier(16)
        return workers.Worker(
            client,
            task_queue=name,
            identity=identity,
            workflows=[SessionWorkflow],
            activities=[self.work],
            tuner=workers.WorkerTuner.create_composite(
                workflow_supplier=fixed,
                activity_supplier=_Room(room, self._asked, self._changed),
                local_activity_supplier=fixed,
                nexus_supplier=fixed,
            ),
            workflow_task_poller_behavior=workers.PollerBehaviorSimpleMaximum(2),
            activity_task_poller_behavior=workers.PollerBehaviorSimpleMaximum(1),
            # Another worker takes over soon when this one is killed.
            sticky_queue_schedule_to_start_timeout=timedelta(seconds=2),
            graceful_shutdown_timeout=timedelta(seconds=10),
            disable_eager_activity_execution=True,
            # A workflow that another version of this program began ends, and is begun anew.
            workflow_failure_exception_types=[NondeterminismError],
        )

    @activity.defn(name=WORK)
    async def work(self, session: str) -> tuple[str, int | None, bool]:
        """Works on a session until it waits or ends; gives its state, when it wakes, and if that is all."""
        answer = await self._answered(session)
        if answer.again_s is not None:
            raise look_again(answer.state, answer.again_s)
        return answer.state, answer.wake_us, answer.state not in _WAITING

    async def _answered(self, session: str) -> _Answer:
        """What becomes of a session that this worker shall look at. One that it works on already it goes on
        with, also when Temporal, which did not hear of it, has ended this activity meanwhile."""
        while True:
            activity.heartbeat()
            if session not in self._asked:
                self._asked[session] = asyncio.get_running_loop().create_future()
                self._hint()
            asked = self._asked[session]
            await asyncio.wait([asked], timeout=_BEAT_S)
            if asked.done():
                return asked.result()

    def _answer(self, session: str, answer: _Answer) -> None:
        if (asked := self._asked.pop(session, None)) is not None:
            asked.set_result(answer)
        self._changed.set()

    async def _standing(self, session: str) -> _Answer:
        """How a session stands that nobody works on here."""
        item, rows = await self._queue.look(session), await self._queue.standing([session])
        if item is None or not rows:
            return _Answer("gone")
        row, now_us = rows[0], _now_us()
        state = row.goal_state if row.goal else row.state
        if item.is_set_aside and state in _UNDONE:
            return _Answer("set aside")
        if item.retry_us and item.retry_us > now_us:
            return _Answer("crashed", again_s=(item.retry_us - now_us) / 1e6)
        is_due = item.wake_us is not None and item.wake_us <= now_us
        if item.worker or item.idle_seq != row.events or is_due:
            return _Answer("not for this worker now", again_s=_AGAIN_S)
        is_asleep = item.wake_us is not None and state in (*_UNDONE, "waiting")
        return _Answer("asleep", item.wake_us) if is_asleep else _Answer(state)

    async def _find_lost(self, worker: WorkerRow) -> None:
        """Wakes the workflows of sessions that are ready and were not given out: whoever made them so did not
        reach Temporal, or it lost them. Each is told once for what its journal says, and again much later."""
        told: dict[str, tuple[int, float]] = {}
        lost: list[QueuedSession] = []

        async def note(claimed: Claimed) -> ClaimChoice:
            for item, row in claimed.offered:
                events, until_s = told.get(item.session, (-1, 0.0))
                if item.session not in self._asked and (events != row.events or until_s < time.monotonic()):
                    told[item.session] = row.events, time.monotonic() + _FORGET_AFTER_S
                    lost.append(item)
            return ClaimChoice()

        while True:
            with suppress(JournalError):  # the worker, which looks more often, says so
                await self._queue.claim(worker, list(self._asked), _OFFERS, note)
            while lost:
                item = lost.pop()
                if not await self._wake(item, "poke"):
                    del told[item.session]
            await asyncio.sleep(_LOOK_S)

    async def _wake(self, item: QueuedSession, why: str) -> bool:
        """Begins the workflow of a session, or tells the one that there is to look."""

        return await self.server.tried(
            lambda client: client.start_workflow(
                NAME,
                item.session,
                id=item.session,
                task_queue=_task_queue(item),
                start_signal=why,
                priority=Priority(fairness_key=item.person[:64] or None),
                rpc_timeout=_WITHIN,
            )
        )


def look_again(why: str, after_s: float = _AGAIN_S) -> ApplicationError:
    """What makes Temporal give it to some worker again."""
    delay, category = timedelta(seconds=after_s), ApplicationErrorCategory.BENIGN
    return ApplicationError(why, next_retry_delay=delay, category=category)


class _Room(workers.CustomSlotSupplier):
    """Lets a worker ask for more while it has room: sessions that sleep take none."""

    def __init__(self, room: Callable[[], int], asked: Collection[str], changed: asyncio.Event) -> None:
        self._room, self._asked, self._changed = room, asked, changed
        self._given: set[workers.SlotPermit] = set()
        self._loop = asyncio.get_running_loop()

    async def reserve_slot(self, ctx: workers.SlotReserveContext) -> workers.SlotPermit:  # noqa: ARG002
        while max(len(self._given), len(self._asked)) >= self._room():
            self._changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(_BEAT_S):
                    await self._changed.wait()
        permit = workers.SlotPermit()
        self._given.add(permit)
        return permit

    def try_reserve_slot(self, ctx: workers.SlotReserveContext) -> workers.SlotPermit | None:  # noqa: ARG002
        return None

    def mark_slot_used(self, ctx: workers.SlotMarkUsedContext) -> None:
        pass

    def release_slot(self, ctx: workers.SlotReleaseContext) -> None:
        self._given.discard(ctx.permit)
        with suppress(RuntimeError):  # the loop may have ended with the worker
            self._loop.call_soon_threadsafe(self._changed.set)


def _task_queue(item: QueuedSession) -> str:
    """The task queue of Temporal for a place in a queue: `night`, `night:gpu,slurm`."""
    return ":".join(filter(None, (item.queue, ",".join(sorted(item.labels)))))


def _task_queues(worker: WorkerRow) -> list[str]:
    """Those from which a worker takes: its queue with every set of its labels."""
    labels = sorted(set(worker.labels))
    if len(labels) > _MOST_LABELS:
        raise UsageError(
            f"With Temporal a worker has at most {_MOST_LABELS} labels; these are {len(labels)}.",
            remedy="Leave out those that no session asks for.",
        )
    sets = (each for size in range(len(labels) + 1) for each in combinations(labels, size))
    return [_task_queue(QueuedSession(session="", queue=worker.queue, labels=each)) for each in sets]


def _now_us() -> int:
    return time.time_ns() // 1000
