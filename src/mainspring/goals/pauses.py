"""What a goal waits for between two turns: what the agent named, what it left running, a pause, a provider.

A wait that is open on record goes on first, whatever would be waited for now. Each is bounded by the goal's
own time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from mainspring.errors import SandboxError, UsageError
from mainspring.events import (
    Condition,
    OnJob,
    OnPid,
    OnProcess,
    OnSlurm,
    OnTime,
    StatusDelta,
    WaitEnded,
    WaitStarted,
)
from mainspring.folds.processes import Process
from mainspring.goals import protocol
from mainspring.goals.decide import longest_wait_s, over_at_us, rest_s
from mainspring.goals.fold import Goal
from mainspring.goals.profiles import Profile
from mainspring.secrets.redaction import expanded
from mainspring.turns.runtime import Runtime
from mainspring.waits.hold import hold
from mainspring.waits.namespaces import number_here
from mainspring.waits.processes import is_running
from mainspring.waits.services import listening_port

_GONE = (
    "Process {} was named and does not run: it has finished, or was not found. Check that it is the number"
    " of the work itself and not of a wrapper that started it."
)

_SERVICE = (
    "{0} listens on port {1} and was taken for a service, so its end was not waited for. If it is work, wait"
    " for {0} with the tool wait; if not, start it with service=true."
)


class Pauses:
    def __init__(self, runtime: Runtime, profile: Profile, goal: Goal) -> None:
        self._runtime = runtime
        self._recorder = runtime.recorder
        self._profile = profile
        self._goal = goal
        self.problems: tuple[str, ...] = ()
        """Why what was asked for last could not be waited for."""

    async def go_on(self) -> WaitEnded | None:
        """Goes on with a wait that nobody saw the end of; None when there is none."""
        for known in self._runtime.state.waits.open:
            if not known.started.call:
                return await hold(self._runtime.waiting, expanded(known.started, self._recorder.vault))
        return None

    async def between(self, said: protocol.AgentSignals) -> WaitEnded | None:
        """Waits for what the last iteration left running or asked for; None when that is nothing."""
        self.problems = ()
        if ended := await self.go_on():
            return ended
        rules = self._goal.now.rules
        conditions = await self._wanted(said)
        for problem in self.problems:
            self._runtime.show(StatusDelta(text=problem))
        if not conditions:
            if (rest := rest_s(rules, said.wait_s)) <= 0:
                return None
            pause = OnTime(at_us=self._now_us() + int(rest * 1e6))
            return await self.until((pause,), reason="a pause was asked for")
        longest_s = longest_wait_s(rules)
        limit_us = None if longest_s is None else self._now_us() + int(longest_s * 1e6)
        try:
            return await self.until(conditions, limit_us=limit_us, needs="all", reason="work is running")
        except UsageError as error:
            self.problems = (*self.problems, error.message)
            return None

    async def until(
        self,
        conditions: Sequence[Condition],
        *,
        limit_us: int | None = None,
        needs: Literal["any", "all"] = "any",
        reason: str,
    ) -> WaitEnded:
        if ended := await self.go_on():
            return ended
        over_us = over_at_us(self._goal, self._goal.now.rules, self._now_us())
        limits = [at_us for at_us in (limit_us, over_us) if at_us is not None]
        started = WaitStarted(
            wait=f"goal-{self._goal.waits + 1}",
            conditions=tuple(conditions),
            needs=needs,
            deadline_us=min(limits, default=None),
            stall_s=self._goal.now.rules.stall_s,
            reason=reason,
        )
        return await hold(self._runtime.waiting, started)

    async def _wanted(self, said: protocol.AgentSignals) -> tuple[Condition, ...]:
        if self._profile.waits == "time":
            return ()
        named: list[Condition] = [OnPid(pid=pid) for pid in await self._meant(said.pids)]
        named += [OnSlurm(job=job) for job in said.jobs]
        if self._profile.waits == "processes":
            running = self._runtime.state.processes.open
            named += [OnProcess(handle=item.handle) for item in running if self._is_work(item)]
            jobs = self._runtime.state.jobs.open if self._runtime.waiting.reach.look_at_job else ()
            named += [OnJob(job=each.planned.job) for each in jobs if not each.planned.is_staying]
        return tuple(named)

    def _is_work(self, process: Process) -> bool:
        """Whether the end of a background process is worth waiting for: not that of a service. What was
        started with an end of its own, or waited for before, is work also when it listens on a port."""
        started = process.started
        if started.is_staying or started.is_service:
            return False
        if started.timeout_s or process.handle in self._goal.awaited:
            return True
        try:
            port = listening_port(process.background.keeper)
        except SandboxError:
            return True
        if port is not None:
            self.problems += (_SERVICE.format(process.handle, port),)
        return port is None

    async def _meant(self, named: Sequence[int]) -> list[int]:
        """The processes that an agent means by numbers. In a namespace of its own it knows only what it
        started, which has another number here, and what the goal names. What does not run is a problem that
        it is told of: perhaps it named a wrapper that started the work and ended."""
        if not named:
            return []
        here: dict[int, int | None] = dict(zip(named, named, strict=True))
        if (await self._runtime.sandbox()).has_own_pids:
            goal = self._goal.now.text
            here = {
                pid: number_here(pid, self._goal.left) or (pid if re.search(rf"\b{pid}\b", goal) else None)
                for pid in named
            }
        gone = [pid for pid, number in here.items() if number is None or not is_running(number)]
        self.problems += tuple(_GONE.format(pid) for pid in gone)
        return [number for pid, number in here.items() if number is not None and pid not in gone]

    def _now_us(self) -> int:
        return self._runtime.workbench.reach.clock()
