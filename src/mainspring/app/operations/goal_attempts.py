"""Several attempts at the iterations of a goal, with the one operation that makes them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

from mainspring.app.operations.attempt_sizes import used
from mainspring.app.operations.attempts import are_attempts_open, continue_attempts
from mainspring.app.operations.usual_attempts import known_checks
from mainspring.events import AttemptsStarted, AttemptStarted, Event, GoalSet, Recorded
from mainspring.folds.caps import cap_of
from mainspring.session.session import Session, runtime_of


class GoalAttempts:
    """The commands of a goal that must exit with 0 decide, else the test command of the project."""

    async def opening(self, session: Session, goal: GoalSet, /) -> Sequence[Event]:
        if goal.rules.attempts <= 1:
            return ()
        runtime = runtime_of(session)
        checks = goal.checks.commands or await asyncio.to_thread(
            known_checks, session.state.workspace, goal.text
        )
        before, cap = used(runtime), cap_of(runtime.budget.limits, "turn")
        started = AttemptsStarted(attempts=goal.rules.attempts, checks=checks, cap=cap, before=before)
        return (started, AttemptStarted(attempt=1, before=before))

    async def are_open(self, session: Session, /) -> bool:
        return await are_attempts_open(session)

    def go_on(self, session: Session, iteration: int, /) -> AsyncGenerator[Recorded]:
        return continue_attempts(session, iteration=iteration)
