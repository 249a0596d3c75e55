"""Works towards a goal until it is done, or a rule in code says stop.

Where it stands is folded from the journal before every move, so going on after a crash is running the same
function again: an iteration that began is finished, a wait that began goes on, and nothing is counted twice.
The loop knows no engine: an iteration is a turn of the session, whoever takes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from mainspring.context.facts import FRESH
from mainspring.errors import (
    AuthFailed,
    ModelTimeout,
    ModelUnknown,
    NetworkFailed,
    NoCredit,
    Overloaded,
    PromptRefused,
    RateLimited,
)
from mainspring.events import (
    CapUnit,
    Compacted,
    Condition,
    Event,
    GoalEnded,
    GoalEnding,
    GoalPaused,
    GoalSet,
    IterationEnded,
    IterationStarted,
    OnQuota,
    OnTime,
    Origin,
    Recorded,
    TurnEnded,
)
from mainspring.goals import protocol
from mainspring.goals.decide import Stop, longest_wait_s, outage_wait_s, stop_rule, time_left_s
from mainspring.goals.findings import Findings
from mainspring.goals.fold import Goal, Iteration
from mainspring.goals.judge import Judge, digest
from mainspring.goals.left_running import end_processes, still_running
from mainspring.goals.pauses import Pauses
from mainspring.goals.profiles import Profile
from mainspring.goals.prompt import iteration_prompt
from mainspring.session.session import Session, runtime_of

_OUTAGES = {kind.__name__ for kind in (RateLimited, Overloaded, NetworkFailed, ModelTimeout)}
_NEEDS_A_PERSON = {kind.__name__ for kind in (AuthFailed, NoCredit, ModelUnknown)}

_ENDINGS: dict[CapUnit, GoalEnding] = {
    "usd": "cost",
    "tokens": "tokens",
    "steps": "steps",
    "calls": "steps",
    "time_s": "time",
}
"""How a goal ends by a cap that is not only its turn's."""

_AGAIN = "This turn was interrupted: see what is done already, and go on."

Wanted = Literal["pause", "stop", "interrupt"]


class Attempting(Protocol):
    """Several attempts at an iteration, judged by the checks of the goal."""

    async def opening(self, session: Session, goal: GoalSet, /) -> Sequence[Event]:
        """What is recorded with the prompt of an iteration; nothing when it has one attempt."""
        ...

    async def are_open(self, session: Session, /) -> bool: ...

    def go_on(self, session: Session, iteration: int, /) -> AsyncGenerator[Recorded]:
        """Makes the attempts that are under way at an iteration, until one is kept or a person is needed."""
        ...


class Pursuit:
    """One process at work on one goal. `prepare` is done first. `wanted` says what a cancellation means,
    `wanted_by` who asked for it when that was not whoever runs this process."""

    def __init__(
        self,
        session: Session,
        profile: Profile,
        *,
        cache: Path,
        prepare: Callable[[], Awaitable[None]] | None = None,
        attempting: Attempting | None = None,
    ) -> None:
        self.session = session
        self._prepare = prepare
        self._attempting = attempting
        self.profile = profile
        self._runtime = runtime = runtime_of(session)
        self.goal = Goal(vault=runtime.recorder.vault)
        self.wanted: Wanted = "interrupt"
        self.wanted_by: Origin | None = None
        self._judge = Judge(runtime, profile, Findings(runtime, profile, cache))
        self._resting = Pauses(runtime, profile, self.goal)

    async def run(self) -> GoalEnded | GoalPaused:
        """Until the goal has ended. Cancelled, it leaves the goal paused or stopped, on record."""
        try:
            return await self._work()
        except asyncio.CancelledError:
            await self.session.stop()
            return await self._leave()

    async def _work(self) -> GoalEnded:
        if self._prepare is not None:
            await self._prepare()
        while True:
            await self.goal.catch_up(self.session.journal)
            if self.goal.ended is not None:
                return self.goal.ended
            current = self.goal.current
            if current is None:
                await self._next_iteration()
            elif current.ending is None:
                await self._take_turn(current.number)
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
        reason = "Paused by request." if by == "user" else "Interrupted."
        paused = GoalPaused(reason=reason, by=by, origin=self.wanted_by)
        await self._runtime.record(paused)
        return paused

    async def _next_iteration(self) -> None:
        goal, stop = self.goal, self._stop_rule()
        is_last = stop is not None and stop.ending == "iterations"
        is_rested = goal.last is None or (goal.woke is not None and goal.woke.cause != "cancelled")
        if goal.last is not None and not is_rested and (stop is None or is_last):
            too_long = await self._rest(goal.last, is_last=is_last)
            await goal.catch_up(self.session.journal)
            stop = too_long or self._stop_rule()
        if stop is not None:
            if stop.ending == "iterations":
                await self._judge.look_again(goal)
            await self._finish(stop)
            return
        number = goal.iterations + 1
        started = IterationStarted(
            iteration=number,
            goal_sha256=digest(self._set.text),
            max_iterations=self._set.rules.max_iterations,
        )
        await self._say(number, started, news=self._resting.problems)

    async def _say(self, number: int, *before: Event, news: Sequence[str] = ()) -> None:
        """Tells the agent what an iteration needs, and lets it work."""
        prompt = iteration_prompt(await self._judge.brief(self.goal, number, news))
        events = list(before)
        if self.profile.history == "fresh":
            keep_from = await self.session.journal.last_seq() + 1
            events.append(Compacted(summary="", keep_from_seq=keep_from, reason=FRESH))
        if self._attempting is not None:
            events += await self._attempting.opening(self.session, self._set)
        try:
            await self.session.say(prompt, after=events)
        except PromptRefused as error:
            await self._finish(Stop("blocked", error.message))
            return
        await self._take_turn(number)

    async def _rest(self, last: IterationEnded, *, is_last: bool) -> Stop | None:
        """Waits for what the iteration left running, or for a while unless it is the last; a stop when that
        took too long."""
        rules = self._set.rules
        said = await self._judge.said(self.goal.last_seq)
        if is_last:
            said = msgspec.structs.replace(said, wait_s=0.0)
        if last.outcome == "refused" and not (said.pids or said.jobs):
            said = protocol.AgentSignals(wait_s=0.0)
        ended = await self._resting.between(said)
        if ended is None or ended.cause != "deadline":
            return None
        await self._judge.note(self.goal, "still-running", f"Still running: {ended.summary}")
        if rules.at_max_wait == "stop" and not self._stop_rule():
            longest_s = longest_wait_s(rules) or 0.0
            return Stop("max_wait", f"Still running after {longest_s:g} s: {ended.summary}")
        return None

    async def _take_turn(self, number: int) -> None:
        """Lets the open turn be taken to its end. Where there is nothing to go on with, because the agent had
        said something before it was interrupted, it is told everything again."""
        left_s = time_left_s(self.goal, self._set.rules, self._now_us())
        is_taken = False
        try:
            async with asyncio.timeout(left_s):
                async with aclosing(await self._turns(number)) as events:
                    async for _ in events:
                        is_taken = True
        except TimeoutError:
            await self.session.stop()
            reason = f"The time limit of {self._set.rules.max_time_s:g} s is reached."
            await self._finish(Stop("time", reason))
            return
        if not is_taken:
            await self._say(number, news=(_AGAIN,))

    async def _turns(self, number: int) -> AsyncGenerator[Recorded]:
        """The open turn, or all attempts at the iteration."""
        if self._attempting is not None and await self._has_attempts():
            return self._attempting.go_on(self.session, number)
        return self.session.watch()

    async def _has_attempts(self) -> bool:
        return self._attempting is not None and await self._attempting.are_open(self.session)

    async def _after_turn(self, current: Iteration, ending: TurnEnded) -> None:
        """Ends the iteration, or goes on with it after a wait; what needs a person ends the goal for now."""
        why = f"{ending.detail} {ending.remedy}".strip()
        is_reopened = self.goal.set_seq > current.ended_seq
        match ending.ending:
            case "interrupted" if current.ended_seq <= self.session.opened_seq:
                await self._take_turn(current.number)
            case "interrupted":
                # Our own stop does not come here: somebody answered a question with it.
                await self._finish(Stop("blocked", why))
            case "blocked" | "budget" | "limit" | "waiting" if is_reopened and ending.scope != "turn":
                await self._take_turn(current.number)
            case "waiting" if ending.resume_at_us is not None:
                await self._sit_out(current, OnQuota(model="the provider", at_us=ending.resume_at_us))
            case "failed" if _failed_by(current, _OUTAGES):
                wait_s = outage_wait_s(self._set.rules, current.turns - 1)
                await self._sit_out(current, OnTime(at_us=self._now_us() + int(wait_s * 1e6)))
            case "blocked" | "waiting" | "failed" if _needs_a_person(current, ending):
                await self._finish(Stop("blocked", why))
            case "budget" if ending.scope != "turn":
                await self._finish(Stop(_ENDINGS[ending.unit or "usd"], why))
            case "limit" if ending.scope not in ("turn", None):
                await self._finish(Stop(_ENDINGS[ending.unit or "time_s"], why))
            case _:
                await self._end_iteration(current, ending)

    async def _end_iteration(self, current: Iteration, ending: TurnEnded) -> None:
        if await self._has_attempts():
            await self._take_turn(current.number)  # a process ended between two of them
            return
        ended, stop = await self._judge.end(self.goal, current, ending)
        if stop is None:
            await self._runtime.record(ended)
        else:
            await self._finish(stop, ended)

    async def _sit_out(self, current: Iteration, condition: Condition) -> None:
        """Waits for a provider, then goes on with the same turn. A time that it named itself is waited for;
        else not longer than the goal may wait since it last answered."""
        rules, limit_us = self._set.rules, None
        if rules.max_wait_s and isinstance(condition, OnTime):
            limit_us = min(current.down_since_us, self._now_us()) + int(rules.max_wait_s * 1e6)
        if limit_us is not None and self._now_us() >= limit_us:
            detail = current.ending.detail if current.ending else ""
            await self._finish(Stop("failed", f"No model answered for too long. {detail}".strip()))
            return
        await self._resting.until((condition,), limit_us=limit_us, reason="no model answers")
        await self._take_turn(current.number)

    def _now_us(self) -> int:
        return self._runtime.workbench.reach.clock()

    async def _finish(self, stop: Stop, *before: Event) -> None:
        """Ends the goal in one commit; what still runs goes on when the goal may be resumed."""
        await self.goal.catch_up(self.session.journal)
        left = still_running(self.goal.left)
        if stop.ending in ("done", "stopped") and left:
            await (await self._runtime.sandbox()).end_left()
            # What an earlier process of ours had in custody is not in that of our sandbox.
            await asyncio.to_thread(end_processes, self.goal.left)
        ended = msgspec.structs.replace(self._end(stop), left_running=left)
        await self._runtime.record(*before, ended)

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
        if stop.ending == "failed" and self.profile.passes_exit_code and last is not None and last.exit_code:
            code = last.exit_code
        return GoalEnded(
            ending=stop.ending,
            reason=stop.reason,
            exit_code=code,
            is_verified=stop.grade == "verified",
            grade=stop.grade,
            origin=self.wanted_by if stop.ending == "stopped" else None,
        )


def _needs_a_person(current: Iteration, ending: TurnEnded) -> bool:
    return ending.ending != "failed" or _failed_by(current, _NEEDS_A_PERSON)


def _failed_by(current: Iteration, errors: set[str]) -> bool:
    return current.failure is not None and current.failure.error in errors
