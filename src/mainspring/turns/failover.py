"""What becomes of a turn when its model gave up: the next model of the line, a wait, or an end.

Which models have failed since the last reply is in the journal, so a turn asks each of them once, also when
it is resumed in between. The model that answers stays, and those that failed go to the end of the line. When
all have failed and one says when it answers again, that is a durable wait, and then all may be asked again.
Each wait in vain makes the next one longer, whatever a provider says; together they last no longer than one
may.
"""

from __future__ import annotations

import time
from importlib import import_module

from mainspring.errors import ELSEWHERE, ModelError
from mainspring.events import ModelChosen, OnQuota, Recorded, RequestFailed, WaitStarted
from mainspring.events.moments import date_of
from mainspring.turns.endings import End
from mainspring.turns.runtime import Runtime, time_left

_LEAST_S, _MOST_LEAST_S = 10.0, 600.0
"""How long is waited at least after a wait in vain: a provider may ask for no seconds, again and again."""


async def failure(runtime: Runtime, error: ModelError, *, step: int, model: str) -> RequestFailed:
    """What is recorded about the last attempt at a model."""
    resets_at_us = None
    if error.is_transient and error.retry_after_s is not None:
        waits = len(await _waits_in_vain(runtime))
        least_s = min(_LEAST_S * 2 ** (waits - 1), _MOST_LEAST_S) if waits else 0.0
        resets_at_us = time.time_ns() // 1000 + int(max(error.retry_after_s, least_s) * 1e6)
    return RequestFailed(
        step=step,
        attempt=0,
        error=type(error).__name__,
        message=error.message,
        model=model,
        resets_at_us=resets_at_us,
    )


async def _waits_in_vain(runtime: Runtime) -> list[Recorded]:
    """The waits for models since one answered, or a person said something."""
    last = [await runtime.journal.last(kind) for kind in ("AssistantSaid", "UserSaid")]
    after = max((each.seq for each in last if each), default=0)
    waits = await runtime.journal.read(after=after, kinds=("WaitStarted",))
    return [each for each in waits if isinstance(each.event, WaitStarted) and _is_for_model(each.event)]


def _is_for_model(started: WaitStarted) -> bool:
    return any(isinstance(condition, OnQuota) for condition in started.conditions)


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
    return await _end(runtime, error.remedy)


async def await_quota(runtime: Runtime) -> End | None:
    """Sleeps, when the journal says that no model answers before some time; afterwards all may be asked. The
    end of the turn when that would take too long."""
    for wait in runtime.state.waits.open:
        if _is_for_model(wait.started):
            await _hold(runtime, wait.started)
    state = runtime.state
    reset = _first_reset(runtime)
    if reset is None or any(name not in state.failed_models for name in (state.model, *state.fallbacks)):
        return None
    if end := await _end(runtime, ""):
        return end
    model, at_us = reset
    if model != state.model:
        await _choose(runtime, model, "it answers first again")
    reason = state.failed_models[model].message
    on = OnQuota(model=model, at_us=at_us)
    await _hold(runtime, WaitStarted(wait=f"quota-{state.step}", conditions=(on,), reason=reason))
    return None


async def _hold(runtime: Runtime, wait: WaitStarted) -> None:
    await import_module("mainspring.waits.hold").hold(
        runtime.waiting, wait
    )  # loads all that can be waited for


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


async def _end(runtime: Runtime, remedy: str) -> End | None:
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
    waits = await _waits_in_vain(runtime)
    began_us = waits[0].time_us if waits else runtime.workbench.reach.clock()
    if (reset[1] - began_us) / 1e6 <= _patience_s(runtime):
        return None
    # The first whole second in which there is an answer again.
    at = date_of(-(-reset[1] // 1_000_000) * 1_000_000).strftime("%Y-%m-%dT%H:%M:%SZ")
    remedy = f"Resume at {at} or later (mainspring resume), or now with another --model."
    return End("waiting", detail, remedy, resume_at_us=reset[1])


def _patience_s(runtime: Runtime) -> float:
    """How long is waited for a provider: not longer than the turn may still take."""
    left = time_left(runtime)
    patience_s = runtime.workbench.reach.patience.max_quota_wait_s
    return min(patience_s, left.time_s) if left else patience_s
