"""Sleeps through one wait, on record: its beginning, and exactly one wake that says what happened.

Whoever finds the wait open in the journal calls the same function: deadline and identities are the journal's,
and what happened meanwhile is found by looking. Nothing is asked of a model here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack

import msgspec

from mainspring.errors import UsageError
from mainspring.events import (
    Condition,
    ConditionMet,
    Event,
    OnAnswer,
    OnCallback,
    OnChild,
    OnCommand,
    OnFile,
    OnJob,
    OnPid,
    OnProcess,
    OnQuota,
    OnSession,
    OnSlurm,
    OnTime,
    StatusDelta,
    WaitEnded,
    WaitStarted,
)
from mainspring.folds.processes import end_of, status_of
from mainspring.folds.waits import OpenWait
from mainspring.system import boot_clock
from mainspring.waits.callback import CallbackWatch
from mainspring.waits.commands import watch_elsewhere
from mainspring.waits.decide import Decision, Observation, decide, late_s, sleep_s
from mainspring.waits.describe import duration, joined
from mainspring.waits.files import FileWatch
from mainspring.waits.processes import PidWatch, ProcessWatch, Progress
from mainspring.waits.reach import WaitContext
from mainspring.waits.sessions import SessionWatch
from mainspring.waits.watch import ConditionWatch, RecordWatch, TimeWatch

_MAX_CONDITIONS = 64
_FIRST_LOOKS_S = 5.0
_SOON_S = 0.02
_SUMMARY = 8000


async def hold(waiting: WaitContext, started: WaitStarted) -> WaitEnded:
    """Waits, and gives what was recorded about the end. A wait that has ended is not waited for again; one
    that is open on record goes on. `UsageError` says why something cannot be waited for: nothing is recorded
    then."""
    waits = waiting.state.waits
    if ended := waits.ended(started.wait):
        return ended
    known = waits.get(started.wait)
    boot, up_s = boot_clock()
    if known:
        asked = _going_on(known.started, started)
        # Of an earlier boot nobody knows how long it has lasted: it begins anew, at its own length.
        began_up_s = asked.began_up_s if asked.boot and asked.boot == boot else up_s
    else:
        began_us, began_up_s = waiting.reach.clock(), up_s
        asked = msgspec.structs.replace(started, began_us=began_us, boot=boot, began_up_s=up_s)
    began_us = asked.began_us or (known.since_us if known else 0)
    waiting = msgspec.structs.replace(waiting, reach=waiting.reach.since(began_us, began_up_s))
    if not 1 <= len(asked.conditions) <= _MAX_CONDITIONS:
        raise UsageError(f"A wait is for 1 to {_MAX_CONDITIONS} conditions, not {len(asked.conditions)}.")
    async with AsyncExitStack() as stack:
        watches: list[ConditionWatch] = []
        try:
            for condition in asked.conditions:
                watches.append(await _watch(condition, waiting))
                stack.push_async_callback(watches[-1].close)
        except UsageError as error:
            if known is None:
                raise
            return await _give_up(waiting, asked, f"{error.message} {error.remedy}".strip())
        asked = msgspec.structs.replace(asked, conditions=tuple(watch.condition for watch in watches))
        try:
            if known is None or _has_moved(known.started, asked):
                await waiting.record(asked)
        except asyncio.CancelledError:
            await _cancel(waiting, asked)
            raise
        return await _Holding(waiting, asked, watches, is_resumed=known is not None).run()


class _Holding:
    """One wait while it is held by this process."""

    def __init__(
        self,
        waiting: WaitContext,
        started: WaitStarted,
        watches: Sequence[ConditionWatch],
        *,
        is_resumed: bool,
    ) -> None:
        self._waiting = waiting
        self._started = started
        self._watches = watches
        self._pace = waiting.reach.pace
        self._clock = waiting.reach.clock
        known, now_us = self._open, self._clock()
        self._since_us = known.since_us if known else now_us
        self._began_us = now_us if is_resumed else self._since_us
        met = known.met if known else {}
        self._seen = {place: Observation(item.detail, item.at_us) for place, item in met.items()}
        self._looked = set(self._seen)
        self._progress = Progress()
        self._moved_at = time.monotonic()
        self._told_at = time.monotonic()

    @property
    def _open(self) -> OpenWait | None:
        return self._waiting.state.waits.get(self._started.wait)

    async def run(self) -> WaitEnded:
        try:
            async with asyncio.TaskGroup() as group:
                places = [place for place in range(len(self._watches)) if place not in self._seen]
                tasks = {group.create_task(self._until_seen(place)) for place in places}
                try:
                    decision = await self._decided(tasks)
                except asyncio.CancelledError:
                    await _cancel(self._waiting, self._started)
                    raise
                for task in tasks:
                    task.cancel()
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from errors
        return await self._end(decision)

    async def _until_seen(self, place: int) -> None:
        watch = self._watches[place]
        while (seen := await watch.look()) is None:
            self._looked.add(place)
            await watch.rest()
        self._looked.add(place)
        at_us = None if seen.at_us is None else max(seen.at_us, self._since_us)
        self._seen[place] = msgspec.structs.replace(seen, at_us=at_us)
        if self._started.needs == "all" and not seen.is_lost and len(self._seen) < len(self._watches):
            met = ConditionMet(wait=self._started.wait, condition=place, detail=seen.text, at_us=at_us)
            await self._waiting.record(met)
            await watch.settle()

    async def _decided(self, tasks: set[asyncio.Task[None]]) -> Decision:
        """Looks at everything before it decides for the first time, so that what happened while nobody was
        here is told together; a slow look does not hold up the others for long."""
        began, left = time.monotonic(), set(tasks)
        while True:
            stirring = self._waiting.state.waits.stirring()
            await self._look_at_times()
            is_settled = len(self._looked) == len(self._watches) or time.monotonic() - began > _FIRST_LOOKS_S
            known = self._open
            decision = decide(
                self._started,
                self._seen,
                now_us=self._clock(),
                is_interrupted=known is None or known.is_interrupted,
                is_stalled=self._is_stalled(),
            )
            if decision and (is_settled or decision.cause == "cancelled"):
                return decision
            self._tell()
            wait_s = self._sleep_s() if is_settled else _SOON_S
            done, _ = await asyncio.wait(
                {*left, stirring}, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED
            )
            left -= done

    async def _look_at_times(self) -> None:
        """A clock that jumps over a time and the deadline behind it has met the time first."""
        if self._started.deadline_us is None or self._clock() < self._started.deadline_us:
            return
        for place, watch in enumerate(self._watches):
            if place not in self._seen and isinstance(watch, TimeWatch) and (seen := await watch.look()):
                self._seen[place] = msgspec.structs.replace(seen, at_us=max(seen.at_us or 0, self._since_us))

    def _sleep_s(self) -> float:
        wait_s = sleep_s(self._started, now_us=self._clock(), slice_s=self._pace.slice_s)
        wait_s = min(wait_s, self._told_at + self._pace.status_s - time.monotonic())
        if self._started.stall_s is not None:
            wait_s = min(wait_s, self._pace.stall_s, self._started.stall_s / 4)
        return max(wait_s, 0.0) + 0.001

    def _is_stalled(self) -> bool:
        if self._started.stall_s is None:
            return False
        roots = {
            root
            for place, watch in enumerate(self._watches)
            if place not in self._seen
            for root in watch.roots()
        }
        if not roots or self._progress.has_moved(roots):
            self._moved_at = time.monotonic()
        return time.monotonic() - self._moved_at >= self._started.stall_s

    def _tell(self) -> None:
        now = time.monotonic()
        if now < self._told_at + self._pace.status_s:
            return
        self._told_at, now_us = now, self._clock()
        so_far = duration((now_us - self._since_us) / 1e6)
        left = "no limit"
        if self._started.deadline_us is not None:
            left = f"{duration((self._started.deadline_us - now_us) / 1e6)} left"
        known = self._open  # as it stands on record: without secrets
        text = f"waiting for {joined(known.started if known else self._started)}: {so_far} so far, {left}"
        self._waiting.show(StatusDelta(text=text, wait=self._started.wait))

    async def _end(self, decision: Decision) -> WaitEnded:
        now_us = self._clock()
        ended = WaitEnded(
            wait=self._started.wait,
            cause=decision.cause,
            summary=self._summary(decision, now_us),
            met=decision.met,
            late_s=late_s(decision, now_us=now_us, began_us=self._began_us),
        )
        async with self._waiting.handles.changing:
            await self._waiting.record(*self._ended_processes(decision), ended)
        for watch in self._watches:
            await watch.settle()
        return ended

    def _ended_processes(self, decision: Decision) -> list[Event]:
        """The ends of processes that the result of this call tells of, so that no note does it again."""
        ends: list[Event] = []
        for place in decision.met if self._started.call else ():
            condition = self._watches[place].condition
            handle = condition.handle if isinstance(condition, OnProcess) else ""
            process = self._waiting.handles.processes.get(handle)
            if process and process.ended is None:
                end = end_of(process, status_of(process), call=self._started.call)
                ends += [end] if end else []
        return ends

    def _summary(self, decision: Decision, now_us: int) -> str:
        took = duration((now_us - self._since_us) / 1e6)
        seen = [self._seen[place].text for place in sorted(self._seen)]
        so_far = [watch.so_far() for place, watch in enumerate(self._watches) if place not in self._seen]
        match decision.cause:
            case "met":
                lines = [*seen, f"(after {took})"]
            case "deadline":
                lines = [f"The time was over after {took}.", *seen, *so_far]
            case "stalled":
                stall = duration(self._started.stall_s or 0)
                lines = [f"Nothing used the processor for {stall}; woken after {took}.", *seen, *so_far]
            case "unknown":
                lines = [*seen, f"(given up after {took})"]
            case "cancelled":
                lines = [f"The user said something new after {took}.", *seen]
        return "\n".join(lines)[:_SUMMARY]


async def _watch(condition: Condition, waiting: WaitContext) -> ConditionWatch:
    match condition:
        case OnProcess():
            return ProcessWatch(condition, waiting)
        case OnPid():
            return PidWatch(condition, waiting)
        case OnTime() | OnQuota():
            return TimeWatch(condition, waiting)
        case OnFile():
            return FileWatch(condition, waiting)
        case OnSlurm() | OnJob() | OnCommand():
            return watch_elsewhere(condition, waiting)
        case OnCallback():
            return await CallbackWatch.opened(condition, waiting)
        case OnAnswer() | OnChild():
            return RecordWatch(condition, waiting)
        case OnSession():
            return await SessionWatch.begin(condition, waiting)


async def _give_up(waiting: WaitContext, started: WaitStarted, why: str) -> WaitEnded:
    """Ends a wait on record that cannot be gone on with: what it was for is not there any more."""
    ended = WaitEnded(wait=started.wait, cause="unknown", summary=why)
    await waiting.record(ended)
    return ended


async def _cancel(waiting: WaitContext, started: WaitStarted) -> None:
    """Records at once that the wait was broken off, before anything that takes time."""
    if waiting.state.waits.get(started.wait):
        cancelled = WaitEnded(wait=started.wait, cause="cancelled", summary="Stopped by request.")
        await waiting.record(cancelled)


def _going_on(known: WaitStarted, asked: WaitStarted) -> WaitStarted:
    """The wait on record. Texts are taken as they are asked for now: on record they have no secrets."""
    conditions = list(known.conditions)
    for place, (old, new) in enumerate(zip(known.conditions, asked.conditions, strict=False)):
        match old, new:
            case (OnCommand(), OnCommand()) | (OnSlurm(), OnSlurm()) | (OnSession(), OnSession()):
                conditions[place] = new
            case OnFile(), OnFile():
                conditions[place] = msgspec.structs.replace(old, path=new.path, pattern=new.pattern)
            case OnCallback(), OnCallback():
                conditions[place] = msgspec.structs.replace(old, file=new.file)
            case _:
                pass
    return msgspec.structs.replace(known, conditions=tuple(conditions))


def _has_moved(known: WaitStarted, now: WaitStarted) -> bool:
    """Whether an address of the wait is not the one on record."""
    return _addresses(known) != _addresses(now)


def _addresses(started: WaitStarted) -> list[str]:
    return [item.url for item in started.conditions if isinstance(item, OnCallback)]
