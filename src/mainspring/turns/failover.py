"""What becomes of a turn when its model gave up: the next model of the line, a wait, or an end.

Which models have failed since the last reply is in the journal, so a turn asks each of them once, also when
it is resumed in between. The model that answers stays, and those that failed go to the end of the line. When
all have failed and one says when it answers again, that is a durable wait, and then all may be asked again.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime

from mainspring.errors import ELSEWHERE, ModelError
from mainspring.events import ModelChosen, OnQuota, RequestFailed, WaitStarted
from mainspring.turns.endings import End
from mainspring.turns.runtime import Runtime, time_left
from mainspring.waits.hold import hold


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


async def fail_over(runtime: Runtime, error: ModelError) -> End | None:
    """Chooses the next model, on record; without one, says how the turn ends, unless a wait is to follow."""
    if not isinstance(error, ELSEWHERE):
        raise error
    state = runtime.state
    line = (state.model, *state.fallbacks)
    for position, name in enumerate(line):
        if name not in state.failed_models:
            if position:
                await _choose(runtime, name, f"{state.model} failed: {error.message}")
            return None
    return _end(runtime, error.remedy)


async def await_quota(runtime: Runtime) -> End | None:
    """Sleeps, when the journal says that no model answers before some time; afterwards all may be asked. The
    end of the turn when that would take too long."""
    for wait in runtime.state.waits.open:
        if any(isinstance(condition, OnQuota) for condition in wait.started.conditions):
            await hold(runtime.waiting, wait.started)
    state = runtime.state
    reset = _first_reset(runtime)
    if reset is None or any(name not in state.failed_models for name in (state.model, *state.fallbacks)):
        return None
    if end := _end(runtime, ""):
        return end
    model, at_us = reset
    if model != state.model:
        await _choose(runtime, model, "it answers first again")
    reason = state.failed_models[model].message
    on = OnQuota(model=model, at_us=at_us)
    await hold(runtime.waiting, WaitStarted(wait=f"quota-{state.step}", conditions=(on,), reason=reason))
    return None


async def _choose(runtime: Runtime, name: str, reason: str) -> None:
    """Takes a model of the line; those before it go to the end."""
    state = runtime.state
    line = (state.model, *state.fallbacks)
    position = line.index(name)
    rest = (*line[position + 1 :], *line[:position])
    chosen = ModelChosen(model=name, reason=reason, fallbacks=rest, tier=state.task.tier, by="failover")
    await runtime.record(chosen)


def _first_reset(runtime: Runtime) -> tuple[str, int] | None:
    """The model of the line that answers first again, and when."""
    state = runtime.state
    failures = ((name, state.failed_models.get(name)) for name in (state.model, *state.fallbacks))
    resets = [(failed.resets_at_us, name) for name, failed in failures if failed and failed.resets_at_us]
    at_us, model = min(resets, default=(0, ""))
    return (model, at_us) if model else None


def _end(runtime: Runtime, remedy: str) -> End | None:
    """How a turn ends whose models have all failed; None when one of them can be waited for."""
    failed = runtime.state.failed_models
    if len(failed) > 1:
        each = " ".join(f"{name}: {failure.message}" for name, failure in failed.items())
        detail, remedy = f"All {len(failed)} models failed. {each}", "Resume later, or with another --model."
    else:
        detail = next(iter(failed.values())).message
    reset = _first_reset(runtime)
    if reset is None:
        return End("failed", detail, remedy)
    if (reset[1] - runtime.workbench.reach.clock()) / 1e6 <= _patience_s(runtime):
        return None
    # The first whole second in which there is an answer again.
    at = datetime.fromtimestamp(-(-reset[1] // 1_000_000), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    remedy = f"Resume at {at} or later (mainspring resume), or now with another --model."
    return End("waiting", detail, remedy, resume_at_us=reset[1])


def _patience_s(runtime: Runtime) -> float:
    """How long is waited for a provider: not longer than the turn may still take."""
    left = time_left(runtime)
    patience_s = runtime.workbench.reach.patience.max_quota_wait_s
    return min(patience_s, left.time_s) if left else patience_s
