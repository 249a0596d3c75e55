"""A script, and a model that plays it: real streaming, no network, no cost, the same every time.

Which reply is given depends only on the request (how many replies stand in it already), so a run that was
killed and resumed gets the reply that it would have got. A script is plain JSON; unknown fields are refused,
so a misspelt fault never passes as a good reply. Faults need a server that plays the script over HTTP.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from mainspring.disk.untrusted import read_untrusted
from mainspring.errors import ConfigError, ModelError
from mainspring.events import CallDelta, Stop, TextDelta, ThinkingDelta, Usage
from mainspring.events.decoding import DECODE_ERRORS
from mainspring.models import (
    AssistantMessage,
    Attachment,
    Message,
    Price,
    ReplyFinished,
    Request,
    ResultsMessage,
    StreamItem,
    UserMessage,
)

_MAX_BYTES = 64 << 20
_ENCODER = msgspec.json.Encoder(order="deterministic")


class ScriptedCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A call to make; arguments given as a string are sent as they stand, JSON or not."""

    name: str
    arguments: dict[str, Any] | str = {}
    id: str = ""

    @property
    def argument_text(self) -> str:
        if isinstance(self.arguments, str):
            return self.arguments
        return _ENCODER.encode(self.arguments).decode()


FaultKind = Literal[
    "status",
    "overflow",
    "drop",
    "reset",
    "garbage",
    "malformed",
    "slow",
    "endless",
    "gzip",
    "whole",
    "error_in_stream",
]


class Fault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that goes wrong `times` times before the real reply is given.

    `status` answers with that status and the wire's usual error body (or `body` as it stands); `overflow` is
    the refusal of a request that is too large, in the words of `provider`; `drop` closes the connection `at`
    a point of the reply; `reset` breaks it without an answer; `slow` gives the real reply after `seconds`;
    `gzip` gives it compressed, `whole` as one JSON document although a stream was wanted.
    """

    kind: FaultKind
    times: int = 1
    status: int = 500
    body: dict[str, Any] | str | None = None
    headers: dict[str, str] = {}
    retry_after: str | int | float | None = None
    provider: str = ""
    at: Literal["start", "text", "call"] = "start"
    seconds: float = 0.0


class ScriptedReply(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One reply. For a server: `chunk_size` is characters per delta, `slice_bytes` cuts it anywhere, also
    inside a character, `delay_s` is waited before each slice."""

    text: str = ""
    thinking: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    stop: Stop | None = None
    usage: Usage | None = None
    fault: Fault | None = None
    faults: tuple[Fault, ...] = ()
    chunk_size: int = 32
    slice_bytes: int = 0
    delay_s: float = 0.0

    @property
    def stop_reason(self) -> Stop:
        return self.stop or ("calls" if self.calls else "end")

    @property
    def length(self) -> int:
        """Its characters."""
        calls = sum(len(call.name) + len(call.argument_text) for call in self.calls)
        return len(self.text) + len(self.thinking) + calls

    @property
    def all_faults(self) -> tuple[Fault, ...]:
        return (self.fault, *self.faults) if self.fault else self.faults


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is said to requests with this text in them, such as one iteration of a goal, or `"seed":2,`."""

    contains: str
    replies: tuple[ScriptedReply, ...]


class Script(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`faults` of the script come first, whatever is asked; those of a reply come before that reply. The
    first of the `cases` that fits a request takes the place of `replies`. `models` is what a server lists,
    with `context_tokens`; `pages` is what it answers at further paths, with or without their query.
    With `has_cache` a server says how much of a request it had before, as its longest common beginning with
    an earlier one."""

    replies: tuple[ScriptedReply, ...] = ()
    faults: tuple[Fault, ...] = ()
    closing: ScriptedReply = ScriptedReply(text="The script is over.")
    models: tuple[str, ...] = ("scripted",)
    cases: tuple[Case, ...] = ()
    context_tokens: int | None = None
    price: Price = Price()
    pages: dict[str, Any] = {}
    has_cache: bool = False

    @property
    def has_faults(self) -> bool:
        replies = (*self.replies, *(reply for case in self.cases for reply in case.replies), self.closing)
        return bool(self.faults or any(reply.all_faults for reply in replies))

    def reply(self, index: int, asked: Sequence[bytes]) -> ScriptedReply:
        """The reply to a request with these bytes in it, in which `index` replies stand already."""
        fitting = (case for case in self.cases if any(case.contains.encode() in part for part in asked))
        replies = next((case.replies for case in fitting), self.replies)
        return replies[index] if index < len(replies) else self.closing


def load_script(path: Path) -> Script:
    try:
        return msgspec.json.decode(read_untrusted(path, max_bytes=_MAX_BYTES), type=Script)
    except OSError as error:
        raise ConfigError(
            f"The script {path} cannot be read: {error.strerror}.", remedy="Check the path."
        ) from error
    except DECODE_ERRORS as error:
        raise ConfigError(
            f"The script {path} is not valid: {error}.",
            remedy='Write it like {"replies": [{"text": "Done."}]}.',
        ) from error


class ScriptedModel:
    """A model that says what its script says: the n-th request of a history gets the n-th reply."""

    def __init__(
        self,
        script: Script,
        *,
        name: str = "scripted",
        on_request: Callable[[Request], ModelError | None] | None = None,
    ) -> None:
        """`on_request` sees each request first, and may give the error that it should end with."""
        if script.has_faults:
            raise ConfigError(
                "This script has faults, which need the model server.",
                remedy="Serve it: python -m mainspring.testing.server SCRIPT.json.",
            )
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

    def media_problem(self, _attachment: Attachment, /) -> str:
        return ""

    async def stream(self, request: Request) -> AsyncGenerator[StreamItem]:
        error = self._on_request(request) if self._on_request else None
        if error is not None:
            raise error
        said = sum(message.startswith(b'{"parts":') for message in request.messages)
        sampled = f'"temperature":{request.temperature},"seed":{request.seed},'.encode()
        reply = self._script.reply(said, [*request.messages, sampled])
        if reply.thinking:
            yield ThinkingDelta(text=reply.thinking)
        if reply.text:
            yield TextDelta(text=reply.text)
        for index, call in enumerate(reply.calls):
            yield CallDelta(index=index, name=call.name, arguments=call.argument_text, provider_id=call.id)
        yield ReplyFinished(stop=reply.stop_reason, usage=reply.usage or _usage(request, reply))

    async def close(self) -> None:
        return


def _usage(request: Request, reply: ScriptedReply) -> Usage:
    sent = len(request.system) + sum(len(message) for message in request.messages)
    return Usage(input_tokens=sent // 4, output_tokens=reply.length // 4)
