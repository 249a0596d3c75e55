"""One request to a model, paid for: what was reserved is settled, whatever becomes of it.

The reply is for the caller to record, in the same commit as its settlement. A request that failed is recorded
here, with what it cost as far as it came, before its `ModelError` goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mainspring.errors import ModelError
from mainspring.events import Delta, RequestFailed, SpendReserved, SpendSettled, Usage
from mainspring.models import Finished, Model, Request, Retrying
from mainspring.models.reply import Reply
from mainspring.turn import Turn

_CHARACTERS_PER_TOKEN = 4


async def ask(
    turn: Turn,
    model: Model,
    request: Request,
    reserved: SpendReserved,
    *,
    input_tokens: int,
    step: int = 0,
    show: Callable[[Delta], None] = lambda _: None,
) -> tuple[Reply, Finished]:
    """The reply. Failures are recorded under `step`, 0 when the request belongs to none."""
    reply = Reply()
    try:
        await turn.emit(reserved)
        return reply, await _receive(turn, model, request, reply, step, show)
    except asyncio.CancelledError:
        await turn.emit(_settled_partly(model, reserved, reply, input_tokens))
        raise
    except ModelError as error:
        kind = type(error).__name__
        failed = RequestFailed(step=step, attempt=0, error=kind, message=error.message)
        await turn.emit(_settled_partly(model, reserved, reply, input_tokens), failed)
        raise


def settled(model: Model, reserved: SpendReserved, usage: Usage) -> SpendSettled:
    usd = model.price.cost_usd(usage) if model.price else 0.0
    return SpendSettled(spend=reserved.spend, usage=usage, usd=usd)


async def _receive(
    turn: Turn, model: Model, request: Request, reply: Reply, step: int, show: Callable[[Delta], None]
) -> Finished:
    async for item in model.stream(request):
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
                show(item)
    raise ModelError("The model's stream ended without saying that it was finished.")


def _settled_partly(model: Model, reserved: SpendReserved, reply: Reply, input_tokens: int) -> SpendSettled:
    """A reply that broke off was paid for as far as it came; one that never began was not."""
    output_tokens = -(-reply.characters // _CHARACTERS_PER_TOKEN)
    used = Usage(input_tokens=input_tokens, output_tokens=output_tokens) if output_tokens else Usage()
    return settled(model, reserved, used)
