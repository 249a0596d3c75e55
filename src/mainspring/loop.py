"""One turn: ask the model, run the calls it asks for, and again until it asks for none.

Every effect stands between an event before it and an event after it, so resuming is running the same
function on the same journal: calls that ended are not run again, calls that had started are closed as
unknown unless repeating them is harmless, approvals on record are not asked again. The loop knows no
provider, terminal, database or container; it is given a `Turn`.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from mainspring.approvals import Policy
from mainspring.context.history import History
from mainspring.errors import MainspringError, ModelError
from mainspring.events import (
    ApprovalAsked,
    ApprovalGiven,
    AssistantSaid,
    Blob,
    CallEnded,
    CallStarted,
    Delta,
    Ending,
    Event,
    NoteAdded,
    OutputDelta,
    RequestFailed,
    SpendSettled,
    TurnEnded,
    Usage,
)
from mainspring.ledger import Refusal
from mainspring.models import Finished, Model, Request, Retrying
from mainspring.models.reply import Reply
from mainspring.sandbox import Sandbox
from mainspring.state import KEEPS_CALLS_OPEN, STEP, OpenCall, State
from mainspring.tools import Output, Place
from mainspring.tools.toolbox import Prepared, Toolbox

_MAX_CUTOFFS = 3
_CHARACTERS_PER_TOKEN = 4
_CUT_OFF = "Your reply was cut off at the output limit. Go on from there, in smaller pieces."
_NOT_RUN = "Not run: your message was cut off at the output limit, so this call may be incomplete."
_UNKNOWN = (
    "The session was interrupted after this call had started, and its outcome is unknown."
    " Look at what it did before you repeat it."
)


class Turn(Protocol):
    """What a turn works with. `emit` returns once the events are durable and folded into `state`."""

    state: State
    history: History
    model: Model
    toolbox: Toolbox
    policy: Policy
    sandbox: Sandbox

    async def emit(self, *events: Event) -> None: ...

    def show(self, delta: Delta) -> None: ...

    async def ask(self, question: ApprovalAsked) -> ApprovalGiven | None:
        """A person's answer, or None when there is nobody to ask."""
        ...

    async def put_blob(self, data: bytes, media_type: str) -> Blob: ...

    async def get_blob(self, blob: Blob) -> bytes: ...


class End(msgspec.Struct, frozen=True):
    """Why a turn is over."""

    ending: Ending
    detail: str = ""
    remedy: str = ""


async def run_turn(turn: Turn) -> None:
    """Takes the turn to its end, and records that end whatever happens, unless the journal itself fails."""
    limit_s = turn.state.limits.timeout_s
    left_s = None if limit_s is None else max(limit_s - turn.state.active_us / 1e6, 0)
    try:
        async with asyncio.timeout(left_s):
            end = await _steps(turn)
    except TimeoutError:
        end = End("limit", f"The time limit of {limit_s:g} s is reached.", "Resume with a higher --timeout.")
    except asyncio.CancelledError:
        await end_turn(turn, End("interrupted", "Stopped."))
        raise
    except ModelError as error:
        end = End("failed", error.message, error.remedy)
    await end_turn(turn, end)


async def end_turn(turn: Turn, end: End) -> None:
    """Closes what is open, and the turn, in one commit."""
    state = turn.state
    closing: list[Event] = []
    if end.ending not in KEEPS_CALLS_OPEN:
        closing += [_closed(call, end.ending) for call in state.open_calls]
    ended = TurnEnded(
        turn=state.turn,
        ending=end.ending,
        detail=end.detail,
        remedy=end.remedy,
        steps=state.turn_steps,
        usage=state.turn_usage,
        cost_usd=state.turn_cost_usd,
    )
    await turn.emit(*closing, ended)


async def _steps(turn: Turn) -> End:
    state = turn.state
    while True:
        if state.open_calls and (end := await _run_calls(turn)):
            return end
        if turn.history.is_answered:
            return End("done", _last_line(turn))
        if state.limits.max_steps is not None and state.turn_steps >= state.limits.max_steps:
            detail = f"The limit of {state.limits.max_steps} steps is reached."
            return End("limit", detail, "Resume with a higher --max-steps to go on.")
        if end := await _step(turn):
            return end


async def _step(turn: Turn) -> End | None:
    """One request. Its reply is in the journal when this returns None."""
    state, model = turn.state, turn.model
    messages = await turn.history.messages(turn.get_blob)
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
    await turn.emit(reserved)
    is_capped = state.limits.max_cost_usd is not None or state.limits.max_tokens is not None
    request = Request(
        system=state.prompt.system,
        tools=state.prompt.tools,
        messages=messages,
        max_output_tokens=reserved.tokens - input_tokens if is_capped else None,
    )
    reply = Reply()
    try:
        finished = await _receive(turn, request, reply, step)
    except (ModelError, asyncio.CancelledError) as error:
        # What was streamed was paid for, though nothing of it is kept.
        output_tokens = -(-reply.characters // _CHARACTERS_PER_TOKEN)
        used = Usage(input_tokens=input_tokens if output_tokens else 0, output_tokens=output_tokens)
        await turn.emit(SpendSettled(spend=reserved.spend, usage=used, usd=_cost(model, used)), *_failed(error, step))
        raise
    turn.history.measured(finished.usage.input_tokens)
    said = AssistantSaid(step=step, parts=reply.parts(step), stop=finished.stop)
    settled = SpendSettled(spend=reserved.spend, usage=finished.usage, usd=_cost(model, finished.usage))
    await turn.emit(settled, said)
    return await _judge_stop(turn, said)


async def _receive(turn: Turn, request: Request, reply: Reply, step: int) -> Finished:
    async for item in turn.model.stream(request):
        match item:
            case Finished():
                return item
            case Retrying():
                reply.clear()
                await turn.emit(
                    RequestFailed(
                        step=step,
                        attempt=item.attempt,
                        error=item.error,
                        message=item.message,
                        retry_in_s=item.retry_in_s,
                    )
                )
            case _:
                reply.add(item)
                turn.show(item)
    raise ModelError("The model's stream ended without saying that it was finished.")


async def _judge_stop(turn: Turn, said: AssistantSaid) -> End | None:
    if said.stop == "refused":
        return End("failed", said.text or "The model declined to answer.", "Say it differently, or use another model.")
    if said.stop == "length" and not said.calls:
        if turn.state.turn_cutoffs >= _MAX_CUTOFFS:
            return End("failed", f"The model's reply was cut off {_MAX_CUTOFFS + 1} times.", "Ask for less at once.")
        await turn.emit(NoteAdded(text=_CUT_OFF, source="mainspring"))
    return None


async def _run_calls(turn: Turn) -> End | None:
    """Runs all open calls side by side; what each gives is recorded as it comes."""
    calls = turn.state.open_calls
    seen: set[str] = set()
    try:
        async with asyncio.TaskGroup() as group:
            for call in calls:
                is_double = call.asked.provider_id in seen
                seen |= {call.asked.provider_id} - {""}
                group.create_task(_run_call(turn, call, is_double=is_double))
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    answers = [call.answer for call in turn.state.open_calls] if turn.state.open_calls else []
    if turn.state.open_calls:
        waiting = ", ".join(call.asked.name for call in turn.state.open_calls)
        return End("blocked", f"Waiting for a person to approve: {waiting}.", "Resume the session to answer.")
    return None if not answers else None


async def _run_call(turn: Turn, call: OpenCall, *, is_double: bool) -> None: ...
