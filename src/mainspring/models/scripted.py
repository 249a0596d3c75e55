"""A model that plays a script: real streaming, no network, no cost, the same every time.

Which reply it gives depends only on the request (how many replies stand in it already), so a run that was
killed and resumed gets the reply that it would have got. Past its end it says that the script is over.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import msgspec

from mainspring.errors import ConfigError, ModelError
from mainspring.events import CallDelta, Stop, TextDelta, ThinkingDelta, Usage
from mainspring.models import (
    AssistantMessage,
    Finished,
    Message,
    Price,
    Request,
    ResultsMessage,
    StreamItem,
    UserMessage,
)

_ENCODER = msgspec.json.Encoder(order="deterministic")


class ScriptedCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A call to make; arguments given as a string are sent as they stand, JSON or not."""

    name: str
    arguments: dict[str, Any] | str = {}
    id: str = ""


class ScriptedReply(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    text: str = ""
    thinking: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    stop: Stop | None = None
    usage: Usage | None = None


class Script(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    replies: tuple[ScriptedReply, ...]
    context_tokens: int | None = None
    price: Price = Price()


def load_script(path: Path) -> Script:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Script)
    except OSError as error:
        raise ConfigError(f"The script {path} cannot be read: {error.strerror}.") from error
    except msgspec.MsgspecError as error:
        raise ConfigError(f"The script {path} is not valid: {error}.") from error


class ScriptedModel:
    def __init__(
        self,
        script: Script,
        *,
        name: str = "scripted",
        on_request: Callable[[Request], ModelError | None] | None = None,
    ) -> None:
        """`on_request` sees each request first, and may give the error that it should end with."""
        self._script = script
        self._on_request = on_request
        self.name = name
        self.context_tokens = script.context_tokens
        self.price: Price | None = script.price

    def encode(self, message: Message) -> bytes:
        match message:
            case UserMessage():
                files = [attachment.name for attachment in message.attachments]
                return _ENCODER.encode({"role": "user", "text": message.text, "attachments": files})
            case AssistantMessage():
                return _ENCODER.encode({"role": "assistant", "parts": message.parts})
            case ResultsMessage():
                results = [
                    {"call": result.call, "text": result.text, "is_error": result.is_error}
                    for result in message.results
                ]
                return _ENCODER.encode({"role": "results", "results": results})

    async def stream(self, request: Request) -> AsyncGenerator[StreamItem]:
        error = self._on_request(request) if self._on_request else None
        if error is not None:
            raise error
        said = sum(message.startswith(b'{"parts":') for message in request.messages)
        over = ScriptedReply(text="The script is over.")
        reply = self._script.replies[said] if said < len(self._script.replies) else over
        if reply.thinking:
            yield ThinkingDelta(text=reply.thinking)
        if reply.text:
            yield TextDelta(text=reply.text)
        for index, call in enumerate(reply.calls):
            text = call.arguments
            if not isinstance(text, str):
                text = _ENCODER.encode(text).decode()
            yield CallDelta(index=index, name=call.name, arguments=text, provider_id=call.id)
        stop = reply.stop or ("calls" if reply.calls else "end")
        yield Finished(stop=stop, usage=reply.usage or _usage(request, reply))

    async def close(self) -> None:
        return


def _usage(request: Request, reply: ScriptedReply) -> Usage:
    sent = len(request.system) + sum(len(message) for message in request.messages)
    return Usage(input_tokens=sent // 4, output_tokens=len(_ENCODER.encode(reply)) // 4)
