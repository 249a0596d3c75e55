"""One request to a model, paid for: what was reserved is settled, whatever becomes of it.

The reply is for the caller to record, in the same commit as its settlement. A request that failed is recorded
here, with what it cost as far as it came, before its `ModelError` goes on; so is each attempt that broke off
and was made again. A reply that does not end is cut.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, aclosing, nullcontext

import msgspec

from mainspring.errors import ModelError
from mainspring.events import CallDelta, Delta, RequestFailed, Usage
from mainspring.models import Model, ReplyFinished, Request, Retrying, UserMessage
from mainspring.models.output import most_characters
from mainspring.models.reply import ReplyBuilder
from mainspring.secrets.deltas import RedactedDeltas
from mainspring.turns.failover import failure
from mainspring.turns.runtime import Runtime
from mainspring.turns.spend import Reservation, settle, settle_broken

_CHARACTERS_PER_TOKEN = 4


def first_message(model: Model, context: str) -> list[bytes]:
    """What a session is told before all that was said, whatever of that is undone or made short."""
    return [model.encode(UserMessage(text=context))] if context else []


class NothingLeft(ModelError):
    """What broke off was so dear that the request must be made again for less, if at all."""


class _Exchange(msgspec.Struct, frozen=True):
    """A request, with what was reserved for it."""

    runtime: Runtime
    model: Model
    request: Request
    reservation: Reservation
    input_tokens: int
    step: int


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
            exchange = _Exchange(runtime, model, request, reservation, input_tokens, step)
            return reply, await _receive(exchange, reply, shown)
    except asyncio.CancelledError:
        await settle(runtime, reservation, _partly(reply, input_tokens))
        raise
    except NothingLeft:
        await settle(runtime, reservation, Usage(), is_failed=True)
        raise
    except ModelError as error:
        failed = await failure(runtime, error, step=step, model=model.name)
        await settle(runtime, reservation, _partly(reply, input_tokens), failed, is_failed=True)
        raise


def _readied(runtime: Runtime) -> AbstractContextManager[None]:
    return runtime.commands.readied() if runtime.has_shell else nullcontext()


async def _receive(asked: _Exchange, reply: ReplyBuilder, shown: RedactedDeltas) -> ReplyFinished:
    runtime, request = asked.runtime, asked.request
    most = most_characters(request.max_output_tokens) + len(request.start)
    async with aclosing(asked.model.stream(asked.request)) as items:
        async for item in items:
            match item:
                case ReplyFinished():
                    return item
                case Retrying():
                    shown.end()
                    await _record_broken(asked, reply, item)
                    reply.clear()
                case _:
                    if isinstance(item, CallDelta) and item.name:
                        runtime.expect_call(item.name)
                    reply.add(item)
                    shown.feed(item)
                    if reply.characters > most:
                        return ReplyFinished(stop="length", usage=_partly(reply, asked.input_tokens))
    raise ModelError("The model's reply ended before it was complete.")


async def _record_broken(asked: _Exchange, reply: ReplyBuilder, retrying: Retrying) -> None:
    """Records an attempt that failed, with what it cost; `NothingLeft` when that leaves too little."""
    failed = RequestFailed(
        step=asked.step,
        attempt=retrying.attempt,
        error=retrying.error,
        message=retrying.message,
        model=asked.model.name,
        retry_in_s=retrying.retry_in_s,
    )
    await asked.runtime.record(failed)
    usage = _partly(reply, asked.input_tokens)
    if usage == Usage():
        return
    if refusal := await settle_broken(asked.runtime, asked.reservation, usage, retrying.attempt):
        raise NothingLeft(refusal.message, remedy=refusal.remedy)


def _partly(reply: ReplyBuilder, input_tokens: int) -> Usage:
    """A reply that broke off was paid for as far as it came; one that never began was not."""
    output_tokens = -(-reply.characters // _CHARACTERS_PER_TOKEN)
    return Usage(input_tokens=input_tokens, output_tokens=output_tokens) if output_tokens else Usage()
