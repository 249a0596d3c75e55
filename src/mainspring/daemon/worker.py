"""A worker: takes sessions from a queue that machines share, and starts a process for each.

It decides as the daemon does (`decide.py`); only what it decides about comes from the store, and what it
remembers of crashes is kept there. A hint makes it look at once; without one it looks every two seconds, and
when a wait or a lease runs out. A goal that only waits for a time gives its process up until then.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from mainspring.catalog import (
    ClaimChoice,
    Claimed,
    QueuedSession,
    Release,
    SessionRow,
    Sessions,
    WorkerRow,
    WorkQueue,
    reading,
)
from mainspring.daemon.answers import is_answered
from mainspring.daemon.decide import after_run, is_wanted, plan
from mainspring.daemon.files import DaemonRecord, DaemonRun, Trouble
from mainspring.daemon.processes import LOG, RunProcesses, last_line
from mainspring.errors import JournalError, JournalForeign
from mainspring.events import OnQuota, OnTime, TurnEnded, WaitStarted, WorkspaceKept, WorkspaceMoved
from mainspring.settings import Config, DaemonSettings
from mainspring.system import stop_signals

_LOOK_S = 2.0
_JUST_AFTER_S = 0.01
_HELLOS = 4
"""How often it says hello within its lease."""
_OFFERS = 16
"""How many more sessions it looks at than it has room for: some cannot be taken here."""
_ASK_AGAIN_US = 60_000_000
"""After how long a turn goes on whose provider did not say when it answers again."""
_FOR_EVER_DAYS = 36_500.0


class Worker:
    """`me` says which queue it serves, with which labels, and how many sessions at once; `schedules` begins
    what is scheduled for that queue, until it is cancelled."""

    def __init__(
        self,
        config: Config,
        queue: WorkQueue,
        sessions: Sessions,
        me: WorkerRow,
        say: Callable[[str], None],
        schedules: Callable[[], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        self._schedules = schedules
        self._config, self._queue, self._sessions, self._me, self._say = config, queue, sessions, me, say
        self._settings: DaemonSettings = msgspec.structs.replace(
            config.settings.daemon,
            max_running=me.capacity,
            sessions=True,
            resume_within_days=_FOR_EVER_DAYS,
        )
        self._lease_s = config.settings.store.lease_s
        self._poke = asyncio.Event()
        self._processes = RunProcesses(self._poke.set)
        self._items: dict[str, QueuedSession] = {}
        self._ended: dict[str, tuple[DaemonRun, int | None]] = {}
        self._parked: dict[str, int] = {}
        self._waits: dict[str, int] = {}
        self._asleep = 0
        self._others: Sequence[WorkerRow] = ()
        self._is_stopping = False
        self._problem = ""

    async def run(self, *, is_once: bool = False) -> None:
        """Until a signal or an order to drain ends it; with `is_once`, until there is nothing to take."""
        loop = asyncio.get_running_loop()
        for number in stop_signals():
            loop.add_signal_handler(number, self._stop)
        await self._queue.hello(self._me, self._lease_s)
        labels = f" ({', '.join(self._me.labels)})" if self._me.labels else ""
        self._say(f"worker {self._me.id}: queue {self._me.queue}{labels}, {self._me.capacity} at once")
        async with asyncio.TaskGroup() as group:
            kept = [self._schedules()] if self._schedules else []
            beside = [group.create_task(each) for each in (self._greet(), self._hear(), *kept)]
            while not self._is_stopping:
                self._poke.clear()
                taken = await self._tried(self._pass())
                if is_once and not taken and not self._processes.sessions and not self._ended:
                    break
                if not self._poke.is_set():
                    await self._sleep()
            await self._leave()
            for task in beside:
                task.cancel()
        await self._tried(self._queue.goodbye(self._me.id))
        self._say("stopped")

    async def _hear(self) -> None:
        await self._queue.hear(self._poke.set, self._me, lambda: self._me.capacity + self._asleep)

    async def _greet(self) -> None:
        """Says that it lives, and hears whether it shall drain; also while it drains."""
        while True:
            await asyncio.sleep(self._lease_s / _HELLOS)
            if (
                await self._tried(self._queue.hello(self._me, self._lease_s)) is False
                and not self._is_stopping
            ):
                self._say("told to drain")
                self._stop()

    async def _tried(self, asked: Coroutine[Any, Any, Any]) -> Any:
        """What the store gives. One that cannot be reached is told once, and asked again with the next look:
        the processes that work on sessions go on meanwhile."""
        try:
            given = await asked
        except JournalError as error:
            if self._problem != error.message:
                self._say(f"problem: {error.message}")
            self._problem = error.message
            if isinstance(error, JournalForeign):
                self._stop()  # the store was upgraded: newer workers go on with its sessions
            return None
        self._problem = ""
        return given

    async def _pass(self) -> int:
        await self._close()
        await self._park()
        free = self._me.capacity - (len(self._items) - self._asleep)
        if free <= 0 or self._is_stopping:
            return 0
        workers = await self._queue.workers()
        self._others = [each for each in workers if each.state == "working" and each.id != self._me.id]
        rows: dict[str, SessionRow] = {}
        left = free
        while left > 0:
            limit, offered = left + _OFFERS, len(rows)

            async def choose(claimed: Claimed) -> ClaimChoice:
                rows.update((row.id, row) for _, row in claimed.offered)
                return await self._choose(claimed)

            # What cannot be taken here must not hide what can.
            taken = await self._queue.claim(self._me, list(self._items), limit, choose, without=tuple(rows))
            for item in taken:
                await self._start(item, rows[item.session])
            left -= len(taken)
            if len(rows) - offered < limit:
                break
        return free - left

    async def _choose(self, claimed: Claimed) -> ClaimChoice:
        """What to do about what is offered: the daemon's plan, for sessions that can be worked on here."""
        offered = [(item, row) for item, row in claimed.offered if await self._is_mine(item, row)]
        now_us, record = _now_us(), DaemonRecord()
        answered = {row.id for item, row in offered if await self._is_due(item, row, now_us)}
        for row in claimed.mine:
            record.runs[row.id] = DaemonRun(session=row.id, pid=0, started_us=0)
        for item, row in offered:
            if (trouble := self._trouble(item, row, now_us)) is not None:
                record.troubles[row.id] = trouble
            if item.is_drained:
                record.interrupted.append(row.id)
        order = {row.id: number for number, (_, row) in enumerate(offered)}
        found = plan(
            [*claimed.mine, *(row for _, row in offered)],
            record,
            self._settings,
            answered=answered,
            now_us=now_us,
            order=lambda row: order[row.id],
        )
        for session, why in found.left_alone.items():
            self._say(f"{session}: set aside, {why}")
        idle = [row for _, row in offered if not is_wanted(row, self._settings, answered, record.interrupted)]
        return ClaimChoice(
            taken=[row.id for row in found.resume],
            idle={row.id: now_us + _ASK_AGAIN_US if row.state == "waiting" else None for row in idle},
            set_aside=dict(found.left_alone),
            crashes={session: (each.crashes, each.detail) for session, each in record.troubles.items()},
        )

    def _trouble(self, item: QueuedSession, row: SessionRow, now_us: int) -> Trouble | None:
        """What is known of crashes, with that of a worker which was at work on it and is gone. Nobody waits
        any longer for that one: its lease has run out."""
        before = (
            Trouble(crashes=item.crashes, at_us=0, retry_us=0, detail=item.detail) if item.crashes else None
        )
        if item.worker in ("", self._me.id):
            return before
        run = DaemonRun(
            session=row.id, pid=0, started_us=0, iterations=item.iterations, is_goal=bool(row.goal)
        )
        detail = f"worker {item.worker} was not heard of again"
        after = after_run(run, row, before, self._settings, code=None, now_us=now_us, detail=detail)
        return msgspec.structs.replace(after, retry_us=0) if after else None

    async def _is_mine(self, item: QueuedSession, row: SessionRow) -> bool:
        """Whether it can be worked on here: its folder is here, or can be made and is on no machine that has
        a worker for it."""
        if await asyncio.to_thread(Path(row.workspace).is_dir):
            return True
        async with reading(self._sessions, row.id) as reader:
            newest = await reader.last("WorkspaceKept", "WorkspaceMoved")
        if newest is None or not isinstance(newest.event, WorkspaceKept | WorkspaceMoved):
            return False
        return not any(
            each.host == newest.event.host and each.queue == item.queue and {*item.labels} <= {*each.labels}
            for each in self._others
        )

    async def _is_due(self, item: QueuedSession, row: SessionRow, now_us: int) -> bool:
        if "blocked" in (row.state, row.goal_state):
            return await is_answered(self._sessions, row)
        return item.wake_us is not None and item.wake_us <= now_us

    async def _start(self, item: QueuedSession, row: SessionRow) -> None:
        await self._sessions.find(row.id)  # makes its folder on this machine
        log = self._sessions.directory(row.id) / LOG
        environment = self._config.environment
        run = self._processes.start(row, log, environment, started_us=_now_us(), options=item.options)
        self._items[row.id] = item
        self._say(f"{row.id}: resumed by process {run.pid}")
        if not self._processes.watch(run):
            self._ended[row.id] = (run, None)
            self._poke.set()

    async def _close(self) -> None:
        """Gives back what has ended; what the store cannot be told now is told with the next look."""
        self._ended |= self._processes.reap()
        for session, (run, code) in list(self._ended.items()):
            found = await self._queue.standing([session])
            if found:
                await self._queue.release(session, self._me.id, await self._result(found[0], run, code))
            del self._ended[session]
            self._items.pop(session, None)
            self._parked.pop(session, None)
            self._waits.pop(session, None)

    async def _result(self, row: SessionRow, run: DaemonRun, code: int | None) -> Release:
        state = row.goal_state if run.is_goal else row.state
        self._say(f"{row.id}: {state}" + (f", exit code {code}" if code is not None else ""))
        item = self._items[row.id]
        if self._is_stopping:
            return Release(crashes=item.crashes, detail=item.detail, is_drained=True)
        if row.id in self._parked:
            if not row.is_waiting:
                return Release()
            return Release(idle_seq=row.events, wake_us=self._parked[row.id])
        detail = last_line(self._sessions.directory(row.id) / LOG) or f"exit code {code}"
        before = Trouble(crashes=item.crashes, at_us=0, retry_us=0) if item.crashes else None
        trouble = after_run(
            run, row, before, self._settings, code=code, now_us=_now_us(), detail=f"{self._me.host}: {detail}"
        )
        if trouble is None:
            if await self._is_due(item, row, _now_us()):
                return Release()  # it was answered when its process had ended
            return Release(idle_seq=row.events, wake_us=await self._resumes_us(row))
        is_last = trouble.crashes >= self._settings.max_crashes
        retry_us = None if is_last else trouble.retry_us
        return Release(crashes=trouble.crashes, detail=trouble.detail, retry_us=retry_us)

    async def _resumes_us(self, row: SessionRow) -> int | None:
        """When a turn goes on whose provider could not answer."""
        if row.goal or row.state != "waiting":
            return None
        async with reading(self._sessions, row.id) as reader:
            ended = await reader.last("TurnEnded")
        at_us = ended.event.resume_at_us if ended and isinstance(ended.event, TurnEnded) else None
        return at_us or _now_us() + _ASK_AGAIN_US

    async def _park(self) -> None:
        """Ends the processes of goals that sleep until a time which is far enough away."""
        rows = await self._queue.standing(list(self._items)) if self._items else ()
        asleep = [row for row in rows if row.is_waiting]
        self._asleep = len(asleep)
        least_us = _now_us() + int(self._config.settings.store.park_s * 1e6)
        for row in asleep:
            if not row.goal or row.id in self._parked or self._waits.get(row.id) == row.events:
                continue
            self._waits[row.id] = row.events
            wake_us = await self._wakes_us(row)
            if wake_us is not None and wake_us > least_us and row.id in self._processes.sessions:
                self._parked[row.id] = wake_us
                self._say(f"{row.id}: sleeps, its process is ended until it wakes")
                self._processes.kill(row.id)

    async def _wakes_us(self, row: SessionRow) -> int | None:
        """When a goal's wait between two turns ends by itself; None when something else may end it."""
        async with reading(self._sessions, row.id) as reader:
            found = await reader.last("WaitStarted")
        if found is None or not isinstance(found.event, WaitStarted) or found.event.call:
            return None
        times = [_at_us(condition) for condition in found.event.conditions]
        known = [at_us for at_us in times if at_us is not None]
        if len(known) != len(times):
            return None
        wake_us = max(known) if found.event.needs == "all" else min(known)
        return min(wake_us, found.event.deadline_us or wake_us)

    async def _sleep(self) -> None:
        next_s = await self._tried(self._queue.next_s(self._me))
        with suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_S if next_s is None else min(_LOOK_S, next_s + _JUST_AFTER_S)):
                await self._poke.wait()

    async def _leave(self) -> None:
        """Interrupts what it runs, in order; the next worker goes on with it."""
        running: Sequence[str] = [*self._processes.sessions]
        # Before, so that nobody takes a turn that was interrupted for one that a person stopped.
        await self._tried(self._queue.draining(running))
        await self._processes.end_all(self._poke, self._say)
        await self._tried(self._close())

    def _stop(self) -> None:
        self._is_stopping = True
        self._poke.set()


def _at_us(condition: object) -> int | None:
    return condition.at_us if isinstance(condition, OnTime | OnQuota) else None


def _now_us() -> int:
    return time.time_ns() // 1000
