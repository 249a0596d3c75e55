"""Works towards a goal until it is done, or a rule in code says stop.

Where it stands is folded from the journal before every move, so going on after a crash is running the same
function again: an iteration that began is finished, a wait that began goes on, and nothing is counted twice.
The loop knows no engine: an iteration is a turn of the session, whoever takes it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Literal

from mainspring.context.facts import FRESH
from mainspring.errors import (
    AuthFailed,
    ModelTimeout,
    ModelUnknown,
    NetworkFailed,
    NoCredit,
    Overloaded,
    RateLimited,
    UsageError,
)
from mainspring.events import (
    Compacted,
    Condition,
    Event,
    GoalEnded,
    GoalPaused,
    GoalSet,
    IterationEnded,
    IterationStarted,
    OnPid,
    OnProcess,
    OnQuota,
    OnSlurm,
    OnTime,
    TurnEnded,
    WaitEnded,
    WaitStarted,
)
from mainspring.goals import protocol
from mainspring.goals.decide import Stop, outage_wait_s, over_at_us, rest_s, stop_rule, time_left_s
from mainspring.goals.findings import Findings
from mainspring.goals.fold import Goal, Iteration, last_message
from mainspring.goals.judge import Judge, digest
from mainspring.goals.profiles import Profile
from mainspring.goals.prompt import iteration_prompt
from mainspring.session import Session
from mainspring.waits.hold import hold
from mainspring.waits.namespaces import number_here

_OUTAGES = {kind.__name__ for kind in (RateLimited, Overloaded, NetworkFailed, ModelTimeout)}
_NEEDS_A_PERSON = {kind.__name__ for kind in (AuthFailed, NoCredit, ModelUnknown)}

Wanted = Literal["pause", "stop", "interrupt"]


class Pursuit:
    """One process at work on one goal. `wanted` says what a cancellation means."""

    def __init__(self, session: Session, profile: Profile, *, cache: Path) -> None:
        self.session = session
        self.profile = profile
        self.goal = Goal()
        self.wanted: Wanted = "interrupt"
        self._judge = Judge(session, profile, Findings(session, profile, cache))

    async def run(self) -> GoalEnded | GoalPaused:
        """Until the goal has ended. Cancelled, it leaves the goal paused or stopped, on record."""
        try:
            return await self._work()
        except asyncio.CancelledError:
            await self.session.stop()
            return await self._leave()

    async def _work(self) -> GoalEnded:
        while True:
            await self.goal.catch_up(self.session.journal)
            if self.goal.ended is not None:
                return self.goal.ended
            current = self.goal.current
            if current is None:
                await self._next_iteration()
            elif current.ending is None:
                await self._take_turn()
            else:
                await self._after_turn(current, current.ending)

    async def _leave(self) -> GoalEnded | GoalPaused:
        await self.goal.catch_up(self.session.journal)
        if self.goal.ended is not None:
            return self.goal.ended
        if self.wanted == "stop":
            await self._finish(stopped := Stop("stopped", "Stopped by request."))
            return self._end(stopped)
        by = "user" if self.wanted == "pause" else "signal"
        paused = GoalPaused(reason="Paused by request." if by == "user" else "Interrupted.", by=by)
        await self.session.emit(paused)
        return paused

    async def _next_iteration(self) -> None:
        goal = self.goal
        if goal.last is not None and (goal.woke is None or goal.woke.cause == "cancelled"):
            if stop := self._stop_rule():
                await self._finish(stop)
                return
            if await self._rest(goal.last):
                return
            await goal.catch_up(self.session.journal)
        if stop := self._stop_rule():
            await self._finish(stop)
            return
        number = goal.iterations + 1
        await self._ask(number, IterationStarted(iteration=number, goal_sha256=digest(self._set.text)))
        await self._take_turn()

    async def _ask(self, number: int, *before: Event) -> None:
        """Says what an iteration is told, with events that are recorded before it."""
        events = list(before)
        prompt = iteration_prompt(await self._judge.brief(self.goal, number))
        if self.profile.history == "fresh":
            keep_from = await self.session.journal.last_seq() + 1
            events.append(Compacted(summary="", keep_from_seq=keep_from, reason=FRESH))
        await self.session.say(prompt, after=events)

    async def _take_turn(self) -> None:
        """Goes on with the turn. One that broke off after its answer, but before its end, is asked again:
        nobody knows whether it was done."""
        if self.goal.current is not None and not await self.session.proceed():
            await self._ask(self.goal.current.number)
        left_s = time_left_s(self.goal, self._set.rules, self._now_us())
        try:
            async with asyncio.timeout(left_s):
                async with aclosing(self.session.watch()) as events:
                    async for _ in events:
                        pass
        except TimeoutError:
            await self.session.stop()
            await self._finish(
                Stop("time", f"The time limit of {self._set.rules.max_time_s:g} s is reached.")
            )

    async def _after_turn(self, current: Iteration, ending: TurnEnded) -> None:
        """Ends the iteration, or goes on with it after a wait; what needs a person ends the goal for now."""
        why = f"{ending.detail} {ending.remedy}".strip()
        is_reopened = self.goal.set_seq > current.ended_seq
        match ending.ending:
            case "interrupted":
                await self._take_turn()
            case "blocked" | "budget" | "limit" | "waiting" if is_reopened and ending.scope != "turn":
                await self._take_turn()
            case "waiting" if ending.resume_at_us is not None:
                await self._sit_out(current, OnQuota(model="the provider", at_us=ending.resume_at_us))
            case "failed" if _failed_by(current, _OUTAGES):
                wait_s = outage_wait_s(self._set.rules, current.turns - 1)
                await self._sit_out(current, OnTime(at_us=self._now_us() + int(wait_s * 1e6)))
            case "blocked" | "waiting":
                await self._finish(Stop("blocked", why))
            case "failed" if _failed_by(current, _NEEDS_A_PERSON):
                await self._finish(Stop("blocked", why))
            case "budget" if ending.scope != "turn":
                await self._finish(Stop("tokens" if "token" in ending.detail else "cost", why))
            case "limit" if ending.scope not in ("turn", None):
                await self._finish(Stop("time", why))
            case _:
                ended, stop = await self._judge.end(self.goal, current, ending)
                if stop is None:
                    await self.session.emit(ended)
                else:
                    await self._finish(stop, ended)

    async def _sit_out(self, current: Iteration, condition: Condition) -> None:
        """Waits for a provider, within the time that the goal may wait, then goes on with the same turn."""
        rules = self._set.rules
        limit_us = current.started_us + int(rules.max_wait_s * 1e6) if rules.max_wait_s else None
        if limit_us is not None and self._now_us() >= limit_us:
            detail = current.ending.detail if current.ending else ""
            await self._finish(Stop("failed", f"No model answered for too long. {detail}".strip()))
            return
        await self._hold((condition,), deadline_us=self._earlier(limit_us), reason="no model answers")
        await self._take_turn()

    async def _rest(self, last: IterationEnded) -> bool:
        """Waits for what the iteration left running, or for a while; True when that ended the goal."""
        rules = self._set.rules
        said = protocol.read(await last_message(self.session.journal, 0), done=self.profile.done)
        conditions = await self._wanted_conditions(said)
        if not conditions:
            if (rest := rest_s(rules, said.wait_s)) > 0 and last.outcome != "refused":
                pause = OnTime(at_us=self._now_us() + int(rest * 1e6))
                await self._hold((pause,), deadline_us=self._earlier(None), reason="a pause was asked for")
            return False
        deadline = self._earlier(self._now_us() + int(rules.max_wait_s * 1e6) if rules.max_wait_s else None)
        try:
            ended = await self._hold(conditions, deadline_us=deadline, needs="all", reason="work is running")
        except UsageError as error:
            await self.session.emit(WaitEnded(wait="", cause="unknown", summary=error.message))
            return False
        if ended.cause == "deadline":
            await self._judge.note(self.goal, "still-running", f"Still running: {ended.summary}")
        if ended.cause == "deadline" and rules.at_max_wait == "stop" and not self._stop_rule():
            await self._finish(
                Stop("max_wait", f"Still running after {rules.max_wait_s:g} s: {ended.summary}")
            )
            return True
        return False

    async def _wanted_conditions(self, said: protocol.Said) -> tuple[Condition, ...]:
        if self.profile.waits == "time":
            return ()
        named: list[Condition] = [OnPid(pid=pid) for pid in await self._meant(said.pids)]
        named += [OnSlurm(job=job) for job in said.jobs]
        if self.profile.waits == "processes":
            running = self.session.state.processes.open
            named += [OnProcess(handle=item.handle) for item in running if not item.started.is_staying]
        return tuple(named)

    async def _meant(self, named: Sequence[int]) -> list[int]:
        """The processes that an agent means by numbers. In a namespace of its own it knows only what it
        started, which has another number here, and what the goal names; the rest has ended already."""
        if not named or not (await self.session.sandbox()).has_own_pids:
            return list(named)
        here = {pid: number_here(pid, self.goal.left_running) for pid in named}
        goal = self._set.text
        return [here[pid] or pid for pid in named if here[pid] or re.search(rf"\b{pid}\b", goal)]

    async def _hold(
        self,
        conditions: Sequence[Condition],
        *,
        deadline_us: int | None = None,
        needs: Literal["any", "all"] = "any",
        reason: str,
    ) -> WaitEnded:
        for open_wait in self.session.state.waits.open:
            if not open_wait.started.call:
                return await hold(self.session, open_wait.started)
        started = WaitStarted(
            wait=f"goal-{self.goal.waits + 1}",
            conditions=tuple(conditions),
            needs=needs,
            deadline_us=deadline_us,
            stall_s=self._set.rules.stall_s,
            reason=reason,
        )
        return await hold(self.session, started)

    def _earlier(self, limit_us: int | None) -> int | None:
        """The limit of a wait, or the end of the goal's own time when that comes first."""
        over_us = over_at_us(self.goal, self._set.rules)
        return min((at_us for at_us in (limit_us, over_us) if at_us is not None), default=None)

    def _now_us(self) -> int:
        return self.session.reach.clock()

    async def _finish(self, stop: Stop, *before: Event) -> None:
        """Ends the goal in one commit; what still runs goes on when the goal may be resumed."""
        if stop.ending in ("done", "stopped") and self.goal.left_running:
            await (await self.session.sandbox()).end_left()
        await self.session.emit(*before, self._end(stop))

    def _stop_rule(self) -> Stop | None:
        spent = self.session.state.ledger.tally("goal")
        return stop_rule(
            self.goal, self._set.rules, now_us=self._now_us(), spent_usd=spent.usd, spent_tokens=spent.tokens
        )

    @property
    def _set(self) -> GoalSet:
        return self.goal.now

    def _end(self, stop: Stop) -> GoalEnded:
        code = self.profile.exit_code(stop.ending)
        last = self.goal.last
        if stop.ending == "failed" and last is not None and last.exit_code:
            code = last.exit_code
        return GoalEnded(ending=stop.ending, reason=stop.reason, exit_code=code, is_verified=stop.is_verified)


def _failed_by(current: Iteration, errors: set[str]) -> bool:
    return current.failure is not None and current.failure.error in errors
