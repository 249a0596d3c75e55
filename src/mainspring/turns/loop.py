"""One turn: ask the model, run the calls it asks for, and again until it asks for none.

Every effect stands between an event before it and an event after it, so resuming is running the same
function on the same journal: calls that ended are not run again, calls that had started are closed as
unknown unless repeating them is harmless, approvals on record are not asked again. The loop knows no
provider, terminal, database or container.
"""

from __future__ import annotations

from importlib import import_module

import msgspec

from mainspring.errors import BadRequest, ContextOverflow, MediaRefused, ModelError
from mainspring.events import AssistantSaid, CallStarted, NoteAdded
from mainspring.folds.ledger import STEP, Refusal
from mainspring.models import Request
from mainspring.turns.endings import End, refused, run_to_end
from mainspring.turns.failover import await_quota, fail_over
from mainspring.turns.model_request import NothingLeft, ask, first_message
from mainspring.turns.output import check_output
from mainspring.turns.runtime import CALLS, Runtime
from mainspring.turns.small import as_asked, is_asked_for_effect, told_dropped
from mainspring.turns.spend import reserve, settle
from mainspring.turns.steers import take_steers
from mainspring.turns.upkeep import (
    before_calls,
    check_guards,
    compact_if_needed,
    leave_out_refused_media,
    report_ended_processes,
    started_with,
    tell_unfit_media,
)

_MAX_CUTOFFS = 3
_CUT_OFF = "Your reply was cut off at the output limit. Go on from there, in smaller pieces."


async def run_turn(runtime: Runtime) -> None:
    """Takes the turn to its end, and records that end."""
    await run_to_end(runtime, _steps)


async def _steps(runtime: Runtime) -> End:
    state = runtime.state
    runtime.started.clear()
    while True:
        if state.open_calls:
            new = sum(not call.is_started for call in state.open_calls)
            if refusal := state.ledger.refuse_calls(new, state.limits):
                return refused(refusal)
            await before_calls(runtime)
            if end := await import_module(CALLS).run_calls(runtime):
                return end
        await take_steers(runtime)
        if end := await check_guards(runtime):
            return end
        if runtime.history.is_answered and (end := await _answered(runtime)):
            return end
        if end := await await_quota(runtime):
            return end
        await runtime.take_model()
        try:
            end = await compact_if_needed(runtime) or await _step(runtime)
        except ModelError as error:
            end = await fail_over(runtime, error)
        if end:
            return end


async def _step(runtime: Runtime) -> End | None:
    """One request. When this returns None, the journal has its reply, or says that it was too large. Calls
    that the reply asks for are started in the same commit, if nobody must be asked about them."""
    state = runtime.state
    await report_ended_processes(runtime)
    model = runtime.models.current
    messages = await runtime.history.messages(runtime.recorder.get_blob)
    await tell_unfit_media(runtime)
    heard_seq = runtime.history.last_seq
    input_tokens = runtime.history.estimated_tokens(state.prompt_size)
    step = state.step + 1
    reservation = await reserve(
        runtime,
        source=STEP,
        spend=f"{STEP}:{step}",
        input_tokens=input_tokens,
        request_sha256=runtime.history.fingerprint.of(state.prompt, messages, state.output_schema),
    )
    if isinstance(reservation, Refusal):
        return refused(reservation)
    request = await as_asked(
        runtime,
        Request(
            system=state.prompt.system,
            tools=state.prompt.tools,
            messages=[*first_message(model, state.prompt.context), *messages],
            max_output_tokens=reservation.max_output_tokens,
            effort=state.effort,
            schema=state.output_schema,
            temperature=state.sampling.temperature,
            seed=state.sampling.seed,
        ),
    )
    try:
        reply, finished = await ask(
            runtime, model, request, reservation, input_tokens=input_tokens, step=step, show=runtime.show
        )
    except (ContextOverflow, NothingLeft):
        return None
    except (MediaRefused, BadRequest) as error:
        await leave_out_refused_media(runtime, error)
        return None
    if request.short is None:  # else less was sent than the history holds
        runtime.history.measured(finished.usage.input_tokens, state.prompt_size)
    said = AssistantSaid(
        step=step,
        parts=reply.parts(step),
        stop=finished.stop,
        heard_seq=heard_seq,
        alternatives=finished.alternatives,
    )
    said = _hidden(runtime, said)
    starts: list[CallStarted] = []
    try:
        starts = await started_with(runtime, said)
    finally:
        noted = told_dropped(finished.dropped)
        await settle(runtime, reservation, finished.usage, said, *noted, *starts, speed=finished.speed)
    return None


def _hidden(runtime: Runtime, said: AssistantSaid) -> AssistantSaid:
    """A reply without secrets: one that was hidden stands in pieces in what was nearly said."""
    hidden = runtime.recorder.hidden(said)
    return hidden if hidden.parts == said.parts else msgspec.structs.replace(hidden, alternatives=())


async def _answered(runtime: Runtime) -> End | None:
    """How the turn ends with its last reply; None when that reply is to go on."""
    said = runtime.state.last_reply
    if said.stop == "length":
        return await _ask_to_go_on(runtime)
    lines = [line for line in said.text.splitlines() if line.strip()]
    if said.stop == "refused":
        detail = lines[-1] if lines else "The model declined to answer."
        return End("failed", detail, "Say it differently, or use another model.")
    if runtime.state.output_schema is not None:
        return await check_output(runtime, runtime.state.output_schema)
    if await is_asked_for_effect(runtime):
        return None
    return End("done", lines[-1].strip() if lines else "")


async def _ask_to_go_on(runtime: Runtime) -> End | None:
    if runtime.state.turn_cutoffs >= _MAX_CUTOFFS:
        detail = f"The model's reply was cut off at the output limit {_MAX_CUTOFFS + 1} times."
        return End("failed", detail, "Ask for less at once, or use a model with a larger output limit.")
    await runtime.record(NoteAdded(text=_CUT_OFF, source="mainspring"))
    return None
