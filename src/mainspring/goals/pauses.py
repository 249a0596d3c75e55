"""What a goal waits for between two turns: what the agent named, what it left running, a pause, a provider.

A wait that is open on record goes on first, whatever would be waited for now. Each is bounded by the goal's
own time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from mainspring.errors import UsageError
from mainspring.events import Condition, OnPid, OnProcess, OnSlurm, OnTime, WaitEnded, WaitStarted
from mainspring.goals import protocol
from mainspring.goals.decide import over_at_us, rest_s
from mainspring.goals.fold import Goal
from mainspring.goals.profiles import Profile
from mainspring.secrets.redaction import expanded
from mainspring.turns.runtime import Runtime
from mainspring.waits.hold import hold
from mainspring.waits.namespaces import number_here


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
        if not conditions:
            if (rest := rest_s(rules, said.wait_s)) <= 0:
                return None
            pause = OnTime(at_us=self._now_us() + int(rest * 1e6))
            return await self.until((pause,), reason="a pause was asked for")
        limit_us = self._now_us() + int(rules.max_wait_s * 1e6) if rules.max_wait_s else None
        try:
            return await self.until(conditions, limit_us=limit_us, needs="all", reason="work is running")
        except UsageError as error:
            self.problems = (error.message,)
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
            named += [OnProcess(handle=item.handle) for item in running if not item.started.is_staying]
        return tuple(named)

    async def _meant(self, named: Sequence[int]) -> list[int]:
        """The processes that an agent means by numbers. In a namespace of its own it knows only what it
        started, which has another number here, and what the goal names; the rest has ended already."""
        if not named or not (await self._runtime.sandbox()).has_own_pids:
            return list(named)
        here = {pid: number_here(pid, self._goal.left_running) for pid in named}
        goal = self._goal.now.text
        return [here[pid] or pid for pid in named if here[pid] or re.search(rf"\b{pid}\b", goal)]

    def _now_us(self) -> int:
        return self._runtime.workbench.reach.clock()
