"""One request for a page: reserved before, settled after, on record like every other."""

from __future__ import annotations

from typing import Any

from mainspring.events import Text, Usage
from mainspring.folds.ledger import Refusal
from mainspring.forge.pieces import WindowRoom
from mainspring.forge.prompts import SYSTEM
from mainspring.models import Request, UserMessage
from mainspring.turns.model_request import ask
from mainspring.turns.runtime import Runtime
from mainspring.turns.spend import reserve, settle

SOURCE = "docs"
"""The source of money that was spent for pages."""

_LEAST_REPLY = 200


class OutOfBudget(Exception):
    """A cap leaves too little for the next request."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


async def ask_for(runtime: Runtime, text: str, schema: dict[str, Any], room: WindowRoom) -> str:
    """What the model says; raises `OutOfBudget`, or a `ModelError` that is on record. A reply that is
    too long is given as far as it came."""
    model = runtime.models.current
    message = model.encode(UserMessage(text=text))
    input_tokens = int((len(message) + len(SYSTEM)) / runtime.history.bytes_per_token)
    reservation = await reserve(runtime, source=SOURCE, input_tokens=input_tokens, model=model)
    if isinstance(reservation, Refusal):
        raise OutOfBudget(reservation.message, reservation.remedy)
    allowed = min(reservation.reserved.tokens - input_tokens, room.output_tokens)
    if allowed < min(_LEAST_REPLY, room.output_tokens):
        await settle(runtime, reservation, Usage())
        raise OutOfBudget("What the budget leaves is too little for another reply.", "Raise the limit.")
    request = Request(
        system=SYSTEM,
        tools=(),
        messages=[message],
        max_output_tokens=allowed,
        schema=schema,
        is_schema_told=True,
    )
    reply, finished = await ask(runtime, model, request, reservation, input_tokens=input_tokens)
    await settle(runtime, reservation, finished.usage, speed=finished.speed)
    return "".join(part.text for part in reply.parts(0) if isinstance(part, Text))
