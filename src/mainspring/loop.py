"""One turn: ask the model, run the calls it asks for, and again until it asks for none.

Every effect stands between an event before it and an event after it, so resuming is running the same
function on the same journal: calls that ended are not run again, calls that had started are closed as
unknown unless repeating them is harmless, approvals on record are not asked again. The loop knows no
provider, terminal, database or container.
"""

from __future__ import annotations

import asyncio

import msgspec

from mainspring.calls import run_calls
from mainspring.errors import ModelError
from mainspring.events import (
    AssistantSaid,
    NoteAdded,
    RequestFailed,
    SpendReserved,
    SpendSettled,
    Usage,
)
from mainspring.ledger import Refusal
from mainspring.models import Finished, Request, Retrying
from mainspring.models.reply import Reply
from mainspring.state import STEP
from mainspring.turn import End, Turn, end_turn

_MAX_CUTOFFS = 3
_CHARACTERS_PER_TOKEN = 4
_CUT_OFF = "Your reply was cut off at the output limit. Go on from there, in smaller pieces."


async def run_turn(turn: Turn) -> None:
    """Takes the turn to its end, and records that end whatever happens, unless the journal itself fails."""
    limit_s = turn.state.limits.timeout_s
    left_s = None if limit_s is None else max(limit_s - turn.state.active_us / 1e6, 0)
    allowed = asyncio.timeout(left_s)
    try:
        async with allowed:
            end = await _steps(turn)
    except TimeoutError:
        if not allowed.expired():
            raise
        end = End("limit", f"The time limit of {limit_s} s is reached.", "Resume with a higher --timeout.")
    except asyncio.CancelledError:
        await end_turn(turn, End("interrupted", "Stopped by request."))
        raise
    except ModelError as error:
        end = End("failed", error.message, error.remedy)
    await end_turn(turn, end)


async def _steps(turn: Turn) -> End:
    state = turn.state
    while True:
        if state.open_calls and (end := await run_calls(turn)):
            return end
        if turn.history.is_answered and (end := await _answered(turn)):
            return end
        if state.limits.max_steps is not None and state.turn_steps >= state.limits.max_steps:
            detail = f"The limit of {state.limits.max_steps} steps is reached."
            return End("limit", detail, "Resume with a higher --max-steps.")
        if end := await _step(turn):
            return end


async def _step(turn: Turn) -> End | None:
    """One request. Its reply is in the journal when this returns None."""
    state, model = turn.state, turn.model
    messages = await turn.history.messages(turn.get_blob)
    heard_seq = turn.history.last_seq
    input_tokens = turn.history.estimated_tokens(state.prompt.system)
    step = state.step + 1
    reserved = state.ledger.reserve(
        f"{STEP}:{step}",
        source=STEP,
        model=model.name,
        price=model.price,
        input_tokens=input_tokens,
        limits=state.limits,
    )
    if isinstance(reserved, Refusal):
        return End("budget", reserved.message, reserved.remedy)
    sha256 = turn.history.fingerprint.of(state.prompt, messages)
    reserved = msgspec.structs.replace(reserved, request_sha256=sha256)
    is_capped = state.limits.max_cost_usd is not None or state.limits.max_tokens is not None
    request = Request(
        system=state.prompt.system,
        tools=state.prompt.tools,
        messages=messages,
        max_output_tokens=reserved.tokens - input_tokens if is_capped else None,
    )
    reply = Reply()
    try:
        await turn.emit(reserved)
        finished = await _receive(turn, request, reply, step)
    except asyncio.CancelledError:
        await turn.emit(_settled_partly(turn, reserved, reply, input_tokens))
        raise
    except ModelError as error:
        kind = type(error).__name__
        failed = RequestFailed(step=step, attempt=0, error=kind, message=error.message)
        await turn.emit(_settled_partly(turn, reserved, reply, input_tokens), failed)
        raise
    turn.history.measured(finished.usage.input_tokens)
    said = AssistantSaid(step=step, parts=reply.parts(step), stop=finished.stop, heard_seq=heard_seq)
    await turn.emit(_settled(turn, reserved, finished.usage), said)
    return None


async def _receive(turn: Turn, request: Request, reply: Reply, step: int) -> Finished:
    async for item in turn.model.stream(request):
        match item:
            case Finished():
                return item
            case Retrying():
                reply.clear()
                failed = RequestFailed(
                    step=step,
                    attempt=item.attempt,
                    error=item.error,
                    message=item.message,
                    retry_in_s=item.retry_in_s,
                )
                await turn.emit(failed)
            case _:
                reply.add(item)
                turn.show(item)
    raise ModelError("The model's stream ended without saying that it was finished.")


def _settled(turn: Turn, reserved: SpendReserved, usage: Usage) -> SpendSettled:
    usd = turn.model.price.cost_usd(usage) if turn.model.price else 0.0
    return SpendSettled(spend=reserved.spend, usage=usage, usd=usd)


def _settled_partly(turn: Turn, reserved: SpendReserved, reply: Reply, input_tokens: int) -> SpendSettled:
    """A reply that broke off was paid for as far as it came; one that never began was not."""
    output_tokens = -(-reply.characters // _CHARACTERS_PER_TOKEN)
    used = Usage(input_tokens=input_tokens, output_tokens=output_tokens) if output_tokens else Usage()
    return _settled(turn, reserved, used)


async def _answered(turn: Turn) -> End | None:
    """How the turn ends with its last reply; None when that reply is to go on."""
    said = turn.state.last_reply
    if said.stop == "length":
        return await _ask_to_go_on(turn)
    lines = [line for line in said.text.splitlines() if line.strip()]
    if said.stop == "refused":
        detail = lines[-1] if lines else "The model declined to answer."
        return End("failed", detail, "Say it differently, or use another model.")
    return End("done", lines[-1].strip() if lines else "")


async def _ask_to_go_on(turn: Turn) -> End | None:
    if turn.state.turn_cutoffs >= _MAX_CUTOFFS:
        detail = f"The model's reply was cut off at the output limit {_MAX_CUTOFFS + 1} times."
        return End("failed", detail, "Ask for less at once, or use a model with a larger output limit.")
    await turn.emit(NoteAdded(text=_CUT_OFF, source="mainspring"))
    return None
