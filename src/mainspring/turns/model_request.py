"""One request to a model, paid for: what was reserved is settled, whatever becomes of it.

The reply is for the caller to record, in the same commit as its settlement. A request that failed is recorded
here, with what it cost as far as it came, before its `ModelError` goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, aclosing, nullcontext

from mainspring.errors import ModelError
from mainspring.events import CallDelta, Delta, RequestFailed, Usage
from mainspring.models import Model, ReplyFinished, Request, Retrying
from mainspring.models.reply import ReplyBuilder
from mainspring.secrets.deltas import RedactedDeltas
from mainspring.turns.failover import failure
from mainspring.turns.runtime import Runtime
from mainspring.turns.spend import Reservation, settle

_CHARACTERS_PER_TOKEN = 4


async def ask(
    runtime: Runtime,
    model: Model,
    request: Request,
    reservation: Reservation,
    *,
    input_tokens: int,
    step: int = 0,
    show: Callable[[Delta], None] = lambda _: None,
) -> tuple[ReplyBuilder, ReplyFinished]:
    """The reply. Failures are recorded under `step`, 0 when the request belongs to none."""
    reply = ReplyBuilder()
    try:
        with _readied(runtime), RedactedDeltas(runtime.recorder.vault, show) as shown:
            return reply, await _receive(runtime, model, request, reply, step, shown)
    except asyncio.CancelledError:
        await settle(runtime, reservation, _partly(reply, input_tokens))
        raise
    except ModelError as error:
        failed = await failure(runtime, error, step=step, model=model.name)
        await settle(runtime, reservation, _partly(reply, input_tokens), failed, is_failed=True)
        raise


def _readied(runtime: Runtime) -> AbstractContextManager[None]:
    return runtime.commands.readied() if runtime.has_shell else nullcontext()


async def _receive(
    runtime: Runtime,
    model: Model,
    request: Request,
    reply: ReplyBuilder,
    step: int,
    shown: RedactedDeltas,
) -> ReplyFinished:
    async with aclosing(model.stream(request)) as items:
        async for item in items:
            match item:
                case ReplyFinished():
                    return item
                case Retrying():
                    reply.clear()
                    shown.end()
                    failed = RequestFailed(
                        step=step,
                        attempt=item.attempt,
                        error=item.error,
                        message=item.message,
                        model=model.name,
                        retry_in_s=item.retry_in_s,
                    )
                    await runtime.record(failed)
                case _:
                    if isinstance(item, CallDelta) and item.name:
                        runtime.expect_call(item.name)
                    reply.add(item)
                    shown.feed(item)
    raise ModelError("The model's reply ended before it was complete.")


def _partly(reply: ReplyBuilder, input_tokens: int) -> Usage:
    """A reply that broke off was paid for as far as it came; one that never began was not."""
    output_tokens = -(-reply.characters // _CHARACTERS_PER_TOKEN)
    return Usage(input_tokens=input_tokens, output_tokens=output_tokens) if output_tokens else Usage()
