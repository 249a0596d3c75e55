"""What becomes of a turn when its model gave up: the next model of the line, a wait, or an end.

Which models have failed since the last reply is in the journal, so a turn asks each of them once, also when
it is resumed in between. The model that answers stays, and those that failed go to the end of the line.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime

from mainspring.errors import ModelError, ModelTimeout, NetworkFailed, NoCredit, Overloaded, RateLimited
from mainspring.events import ModelChosen, RequestFailed
from mainspring.turn import End, Turn

ELSEWHERE = (RateLimited, Overloaded, NetworkFailed, ModelTimeout, NoCredit)
"""Failures that another model may not have."""


def failure(error: ModelError, *, step: int, model: str) -> RequestFailed:
    """What is recorded about the last attempt at a model."""
    resets_at_us = None
    if error.is_transient and error.retry_after_s is not None:
        resets_at_us = time.time_ns() // 1000 + int(error.retry_after_s * 1e6)
    return RequestFailed(
        step=step,
        attempt=0,
        error=type(error).__name__,
        message=error.message,
        model=model,
        resets_at_us=resets_at_us,
    )


async def fail_over(turn: Turn, error: ModelError) -> End | None:
    """Chooses the next model, on record; without one, says how the turn ends."""
    if not isinstance(error, ELSEWHERE):
        raise error
    state = turn.state
    line = (state.model, *state.fallbacks)
    for position, name in enumerate(line):
        if name not in state.failed_models:
            if position:
                rest = (*line[position + 1 :], *line[:position])
                reason = f"{state.model} failed: {error.message}"
                chosen = ModelChosen(
                    model=name, reason=reason, fallbacks=rest, tier=state.task.tier, by="failover"
                )
                await turn.emit(chosen)
            return None
    return _end(state.failed_models, error)


def _end(failed: dict[str, RequestFailed], error: ModelError) -> End:
    if len(failed) > 1:
        each = "; ".join(f"{name}: {failure.message}" for name, failure in failed.items())
        detail, remedy = f"All {len(failed)} models failed. {each}", "Resume later, or with another --model."
    else:
        detail, remedy = error.message, error.remedy
    resets = [failure.resets_at_us for failure in failed.values() if failure.resets_at_us is not None]
    if not resets:
        return End("failed", detail, remedy)
    # The first whole second in which there is an answer again.
    at = datetime.fromtimestamp(-(-min(resets) // 1_000_000), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    remedy = f"Resume at {at} or later (mainspring resume), or now with another --model."
    return End("waiting", detail, remedy, resume_at_us=min(resets))
