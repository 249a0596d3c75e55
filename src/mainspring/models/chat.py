"""OpenAI chat completions, as spoken by OpenAI and by every server that calls itself compatible with it.

A message is encoded once. `messages` stands last in the body, so each request starts with the bytes of the
one before it, up to what is new. Ids of calls on the wire are ours. What a server leaves out, repeats, sends
whole or sends twice is evened out here, and only here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec

from mainspring.errors import Overloaded
from mainspring.events import CallAsked, CallDelta, Stop, Text, TextDelta, Thinking, ThinkingDelta, Usage
from mainspring.models import (
    AssistantMessage,
    Attachment,
    Finished,
    Message,
    Price,
    Request,
    ResultsMessage,
    StreamItem,
    UserMessage,
)
from mainspring.models.encoding import ENCODER, attached_text, data_url, is_object, object_text
from mainspring.models.failures import Endpoint, dropped, refused
from mainspring.models.http import Bounds, Channel
from mainspring.models.timings import Timings

WIRE = "chat"


class ChatQuirks(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where servers differ. `thinking_field` is where one wants earlier reasoning back; empty is nowhere."""

    max_tokens_field: str = "max_tokens"
    thinking_field: str = ""
    has_stream_options: bool = True


class ChatModel:
    def __init__(
        self,
        name: str,
        base_url: str,
        api_key: str = "",
        model: str = "",
        *,
        provider: str = "",
        key_variable: str = "OPENAI_API_KEY",
        is_local: bool = False,
        quirks: ChatQuirks | None = None,
        context_tokens: int | None = None,
        price: Price | None = None,
        headers: dict[str, str] | None = None,
        bounds: Bounds | None = None,
    ) -> None:
        self.name = name
        self.context_tokens = context_tokens
        self.price = price
        self._quirks = quirks or ChatQuirks()
        base_url = base_url.rstrip("/")
        self._endpoint = Endpoint(provider or base_url, base_url, model, key_variable, is_local)
        authorization = {"authorization": f"Bearer {api_key}"} if api_key else {}
        self._channel = Channel(self._endpoint, {**authorization, **(headers or {})}, bounds)
        self._head: tuple[Request, bytes, bytes] | None = None

    def encode(self, message: Message) -> bytes:
        match message:
            case UserMessage():
                return _user(message.text, message.attachments)
            case AssistantMessage():
                return self._assistant(message)
            case ResultsMessage():
                return _results(message)

    def body(self, request: Request) -> bytes:
        opening, system = self._opening(request)
        messages = (system, *request.messages) if system else request.messages
        return b"".join((opening, b",".join(messages), b"]}"))

    def stream(self, request: Request) -> AsyncIterator[StreamItem]:
        return self._channel.stream("/chat/completions", self.body(request), _Reader(self._endpoint))

    async def close(self) -> None:
        await self._channel.close()

    def _assistant(self, message: AssistantMessage) -> bytes:
        calls = [part for part in message.parts if isinstance(part, CallAsked)]
        text = "".join(part.text for part in message.parts if isinstance(part, Text))
        fields: dict[str, Any] = {"role": "assistant", "content": text if text or not calls else None}
        if calls:
            fields["tool_calls"] = [
                {
                    "id": call.call,
                    "type": "function",
                    "function": {"name": call.name, "arguments": object_text(call.arguments)},
                }
                for call in calls
            ]
        kept = (part.text for part in message.parts if isinstance(part, Thinking) and part.wire == WIRE)
        thinking = "".join(kept)
        if thinking and self._quirks.thinking_field:
            fields[self._quirks.thinking_field] = thinking
        return ENCODER.encode(fields)

    def _opening(self, request: Request) -> tuple[bytes, bytes]:
        """What stands before the messages, and the first of them; kept from one request to the next."""
        like = msgspec.structs.replace(request, messages=())
        if self._head is not None and self._head[0] == like:
            return self._head[1:]
        fields: dict[str, Any] = {"model": self._endpoint.model, "stream": True}
        if self._quirks.has_stream_options:
            fields["stream_options"] = {"include_usage": True}
        if request.max_output_tokens is not None:
            fields[self._quirks.max_tokens_field] = request.max_output_tokens
        if request.schema is not None:
            described = {"name": "reply", "schema": request.schema, "strict": True}
            fields["response_format"] = {"type": "json_schema", "json_schema": described}
        if request.tools:
            fields["tools"] = [
                {
                    "type": "function",
                    "function": {
                        "name": tool.name,
                        "description": tool.description,
                        "parameters": tool.parameters,
                    },
                }
                for tool in request.tools
            ]
        system = ENCODER.encode({"role": "system", "content": request.system}) if request.system else b""
        opening = ENCODER.encode(fields)[:-1] + b',"messages":['
        self._head = (like, opening, system)
        return opening, system


def _user(text: str, attachments: tuple[Attachment, ...]) -> bytes:
    if not attachments:
        return ENCODER.encode({"role": "user", "content": text})
    content = [_attached(attachment) for attachment in attachments]
    if text:
        content.append({"type": "text", "text": text})
    return ENCODER.encode({"role": "user", "content": content})


def _attached(attachment: Attachment) -> dict[str, Any]:
    kind = attachment.media_type
    if kind.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": data_url(attachment)}}
    if kind == "application/pdf":
        name = attachment.name or "document.pdf"
        return {"type": "file", "file": {"filename": name, "file_data": data_url(attachment)}}
    return {"type": "text", "text": attached_text(attachment)}


def _results(message: ResultsMessage) -> bytes:
    # This wire has no mark for a failed call and no place for images in its results.
    encoded: list[bytes] = []
    shown: list[Attachment] = []
    for result in message.results:
        text = f"[error] {result.text}" if result.is_error else result.text
        encoded.append(ENCODER.encode({"role": "tool", "tool_call_id": result.call, "content": text}))
        shown.extend(result.attachments)
    if shown:
        encoded.append(_user("These are the files that the results above speak of.", tuple(shown)))
    return b",".join(encoded)


class _Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class _Fragment(msgspec.Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Piece(msgspec.Struct):
    """Content in parts: `thinking` holds a list of pieces in turn."""

    type: str = "text"
    text: str = ""
    thinking: str | list[_Piece] = ""


class _Delta(msgspec.Struct, gc=False):
    content: str | list[_Piece] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: list[_Fragment] | None = None


class _InputDetails(msgspec.Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _OutputDetails(msgspec.Struct):
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_cache_hit_tokens: int | None = None
    prompt_tokens_details: _InputDetails | None = None
    completion_tokens_details: _OutputDetails | None = None


class _Choice(msgspec.Struct, gc=False):
    delta: _Delta | None = None
    message: _Delta | None = None
    finish_reason: str | None = None
    usage: _Usage | None = None


class _Groq(msgspec.Struct):
    usage: _Usage | None = None


class _Chunk(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    timings: Timings | None = None
    x_groq: _Groq | None = None
    error: Any = None


_CHUNK = msgspec.json.Decoder(_Chunk)

_STOPS: dict[str, Stop] = {
    "stop": "end",
    "tool_calls": "calls",
    "function_call": "calls",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "refused",
    "refusal": "refused",
    "safety": "refused",
}
_FAILED = frozenset({"error", "insufficient_system_resource"})


class _Reader:
    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._calls = _Calls()
        self._finish = ""
        self._usage = Usage()
        self._timings: Timings | None = None
        self._has_refused = False
        self.is_done = False

    def feed(self, data: bytes) -> list[StreamItem]:
        if data == b"[DONE]":
            self.is_done = True
            return []
        chunk = _CHUNK.decode(data)
        if chunk.error:
            raise refused(self._endpoint, 0, data)
        usage = chunk.usage or (chunk.x_groq.usage if chunk.x_groq else None)
        items: list[StreamItem] = []
        for choice in chunk.choices or ():
            delta = choice.delta or choice.message
            if delta is not None:
                self._add(delta, items)
            if choice.finish_reason:
                self._finish = choice.finish_reason
            usage = usage or choice.usage
        if usage is not None:
            self._usage = _counted(usage)
        self._timings = chunk.timings or self._timings
        return items

    def end(self) -> list[StreamItem]:
        if not self._finish and not self.is_done:
            raise dropped(self._endpoint)
        if self._finish in _FAILED:
            raise Overloaded(
                f"{self._endpoint.provider} broke off with {self._finish!r}.", remedy="Try again later."
            )
        stop = _STOPS.get(self._finish, "end")
        if stop in ("end", "calls"):
            stop = "calls" if self._calls.count else "end"
        speed = self._timings.speed() if self._timings else None
        return [Finished("refused" if self._has_refused else stop, self._usage, speed)]

    def _add(self, delta: _Delta, items: list[StreamItem]) -> None:
        thinking = delta.reasoning_content or delta.reasoning
        if thinking:
            items.append(ThinkingDelta(text=thinking, wire=WIRE))
        content = delta.content
        if content:
            if isinstance(content, str):
                items.append(TextDelta(text=content))
            else:
                items.extend(_from_pieces(content))
        if delta.refusal:
            self._has_refused = True
            items.append(TextDelta(text=delta.refusal))
        if delta.tool_calls:
            items.extend(self._calls.add(fragment) for fragment in delta.tool_calls)


class _Call(msgspec.Struct):
    index: int
    id: str = ""
    name: str = ""
    pieces: list[str] = []


class _Calls:
    """Which call a fragment belongs to. Servers may leave out the index, the id or both, give all calls the
    same index, repeat the name, or send each call whole."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._at: dict[int, _Call] = {}

    @property
    def count(self) -> int:
        return len(self._calls)

    def add(self, fragment: _Fragment) -> CallDelta:
        function = fragment.function or _Function()
        name, text = function.name or "", _argument_text(function.arguments)
        call = self._find(fragment, name)
        is_new = call is None
        if call is None:
            call = _Call(len(self._calls), id=fragment.id or "", name=name)
            self._calls.append(call)
        if fragment.index is not None:
            self._at[fragment.index] = call
        shown = name if is_new or not call.name else ""
        call.name = call.name or name
        if text:
            call.pieces.append(text)
        return CallDelta(
            index=call.index, name=shown, arguments=text, provider_id=(fragment.id or "") if is_new else ""
        )

    def _find(self, fragment: _Fragment, name: str) -> _Call | None:
        last = self._calls[-1] if self._calls else None
        if fragment.index is None and fragment.id:
            return next((call for call in self._calls if call.id == fragment.id), None)
        known = last if fragment.index is None else self._at.get(fragment.index)
        if known is None or (fragment.id and known.id and fragment.id != known.id):
            return None
        is_another = name and not fragment.id and is_object("".join(known.pieces))
        return None if is_another else known


def _argument_text(arguments: str | dict[str, Any] | None) -> str:
    if isinstance(arguments, dict):
        return msgspec.json.encode(arguments).decode()
    return arguments or ""


def _from_pieces(pieces: list[_Piece]) -> list[StreamItem]:
    items: list[StreamItem] = []
    for piece in pieces:
        if piece.type == "thinking":
            inner = piece.thinking
            text = inner if isinstance(inner, str) else "".join(part.text for part in inner)
            items.append(ThinkingDelta(text=text, wire=WIRE))
        elif piece.text:
            items.append(TextDelta(text=piece.text))
    return items


def _counted(usage: _Usage) -> Usage:
    sent, written = usage.prompt_tokens or 0, usage.completion_tokens or 0
    given, made = usage.prompt_tokens_details, usage.completion_tokens_details
    reasoning = (made.reasoning_tokens if made else None) or 0
    # Some count reasoning beside the completion, not in it; the total tells.
    if reasoning and usage.total_tokens == sent + written + reasoning:
        written += reasoning
    cached = (given.cached_tokens if given else None) or usage.prompt_cache_hit_tokens or 0
    return Usage(
        input_tokens=sent,
        cached_tokens=cached,
        cache_write_tokens=(given.cache_write_tokens if given else None) or 0,
        output_tokens=written,
        reasoning_tokens=reasoning,
    )
