"""OpenAI chat completions, as spoken by OpenAI and by every server that calls itself compatible with it.

Ids of calls on the wire are ours. What a server leaves out, repeats, sends whole or sends twice is evened out
here, and only here.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any, Unpack

import msgspec

from mainspring.errors import BadRequest, ModelError, Overloaded
from mainspring.events import CallAsked, Speed, Stop, Text, TextDelta, Thinking, ThinkingDelta, Usage
from mainspring.models import (
    AssistantMessage,
    Attachment,
    Message,
    ReplyFinished,
    Request,
    ResultsMessage,
    StreamItem,
    UserMessage,
)
from mainspring.models.attachments import LIMITS
from mainspring.models.failures import Endpoint, dropped, refused
from mainspring.models.output import fitting_effort
from mainspring.models.providers import ChatQuirks
from mainspring.models.structured import named_schema
from mainspring.models.wires.cache_marks import CACHE_MARK, marked_for_cache, with_cache_mark
from mainspring.models.wires.chat_usage import TokenUsage, usage_of
from mainspring.models.wires.fragments import Calls, Details, Fragment
from mainspring.models.wires.http import StreamReader
from mainspring.models.wires.messages import ENCODER, attached_text, data_url, object_text, spoken, wire_name
from mainspring.models.wires.wire import Options, Wire

WIRE = "chat"
_TELLING = frozenset({"logprobs", "top_logprobs"})
_LIKELY = "mainspring.models.wires.likely"  # loaded when a server tells of other tokens
_DETAILS = "reasoning_details"
_NEW_LIMIT = "max_completion_tokens"
# What stands between results and what a user says, for servers that refuse the one after the other.
_BRIDGE = b'{"content":"Noted.","role":"assistant"}'
_USER_END = b'"role":"user"}'
_RESULT_END = b'"role":"tool","tool_call_id":"'
_RESULT_TAIL = 64


class ChatModel(Wire):
    media_limits = LIMITS[WIRE]
    schema_field = "response_format"

    def __init__(
        self,
        name: str,
        base_url: str,
        api_key: str = "",
        model: str = "",
        *,
        quirks: ChatQuirks | None = None,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(name, base_url, api_key, model, **options)
        self._quirks = quirks or ChatQuirks()

    def _encode(self, message: Message) -> bytes:
        match message:
            case UserMessage():
                return _user(message.text, message.attachments)
            case AssistantMessage():
                return self._assistant(message)
            case ResultsMessage():
                return _results(message, _BRIDGE if self._quirks.needs_bridge else b"")

    def _path(self) -> str:
        return "/chat/completions"

    def _reader(self) -> StreamReader:
        return _Reader(self._endpoint)

    def _assistant(self, message: AssistantMessage) -> bytes:
        calls = [_called(part) for part in message.parts if isinstance(part, CallAsked)]
        text = "".join([part.text for part in message.parts if isinstance(part, Text)])
        fields: dict[str, Any] = {"role": "assistant", "content": spoken(text, calls)}
        if calls:
            fields["tool_calls"] = calls
        if self._quirks.thinking_field:
            self._add_thoughts(fields, message)
        return ENCODER.encode(fields)

    def _add_thoughts(self, fields: dict[str, Any], message: AssistantMessage) -> None:
        thoughts = [part for part in message.parts if isinstance(part, Thinking) and part.wire == WIRE]
        if self._quirks.thinking_field == _DETAILS:
            sealed = next((part.opaque for part in thoughts if part.opaque), "")
            if sealed:
                fields[_DETAILS] = msgspec.Raw(sealed.encode())
        else:
            fields[self._quirks.thinking_field] = "".join(part.text for part in thoughts)

    def _opening_fields(self, request: Request) -> dict[str, Any]:
        fields: dict[str, Any] = {"model": self._endpoint.model, "stream": True, **self._quirks.more}
        if self._quirks.has_stream_options:
            fields["stream_options"] = {"include_usage": True}
        if request.schema is not None:
            fields["response_format"] = {"type": "json_schema", "json_schema": named_schema(request.schema)}
        sampling = {"temperature": request.temperature, "seed": request.seed}
        sampling["thinking_budget_tokens"] = request.thinking_tokens  # llama.cpp
        fields |= {name: value for name, value in sampling.items() if value is not None}
        effort = fitting_effort(self._effort(request), self._output_limit(request))
        if effort and self._quirks.effort:
            word = self._quirks.max_effort if effort == "max" else effort
            fields[self._quirks.effort] = {"effort": word} if self._quirks.effort == "reasoning" else word
        if request.tools:
            fields["tools"] = [
                {
                    "type": "function",
                    "function": {
                        "name": wire_name(tool.name),
                        "description": tool.description,
                        "parameters": tool.parameters,
                    },
                }
                for tool in request.tools
            ]
        if request.must_call:
            fields["tool_choice"] = "required"
        if request.alternatives:
            fields |= {"logprobs": True, "top_logprobs": request.alternatives}
        if request.stops:
            fields["stop"] = request.stops
        return fields

    def _takes_schema(self, request: Request) -> bool:
        return self._quirks.has_schema and super()._takes_schema(request)

    def _closing_fields(self, request: Request) -> dict[str, Any]:
        limit = self._output_limit(request)
        if limit is None:
            return {}
        field = self._quirks.max_tokens_field
        # Newer models refuse the older name, and say so.
        return {_NEW_LIMIT if field in self._lacks else field: limit}

    def _leading(self, request: Request) -> bytes:
        system = self._system(request)
        if not system:
            return b""
        encoded = ENCODER.encode({"role": "system", "content": system})
        return with_cache_mark(encoded) if self._is_marked() else encoded

    def heal(self, error: ModelError) -> bool:
        """A server that refuses a request for no known reason is asked once more without what it may do
        without: other tokens, marks, a schema."""
        is_healed = super().heal(error)
        if is_healed or not isinstance(error, BadRequest) or error.cause:
            return is_healed
        sent = self._opening[0] if self._opening else None
        if sent and sent.alternatives and not self._lacks.issuperset(_TELLING):
            self._lacks |= _TELLING
            self._opening = None
            return True
        if not self._is_marked() and not (sent and sent.schema is not None and sent.is_schema_told):
            return False
        self._lacks.add(CACHE_MARK if self._is_marked() else self.schema_field)
        self._opening = None
        return True

    def _is_marked(self) -> bool:
        """Whether what can be cached must be marked: with Claude, which caches nothing unasked."""
        is_claude = "claude" in self._endpoint.model.lower()
        return self._quirks.has_cache_marks and is_claude and CACHE_MARK not in self._lacks

    def _messages(self, request: Request) -> Sequence[bytes]:
        messages = self._bridged(super()._messages(request))
        if request.start:
            messages = [*messages, ENCODER.encode({"role": "assistant", "content": request.start})]
        return marked_for_cache(messages) if self._is_marked() else messages

    def _bridged(self, messages: Sequence[bytes]) -> Sequence[bytes]:
        if not self._quirks.needs_bridge and "user after tool" not in self._lacks:
            return messages
        bridged: list[bytes] = []
        for message in messages:
            if bridged and message.endswith(_USER_END) and _RESULT_END in bridged[-1][-_RESULT_TAIL:]:
                bridged.append(_BRIDGE)
            bridged.append(message)
        return bridged

    def _without_thinking(self, message: bytes) -> bytes:
        messages = msgspec.json.decode(b"[" + message + b"]", type=list[dict[str, Any]])
        for fields in messages:
            fields.pop(self._quirks.thinking_field, None)
        return b",".join(ENCODER.encode(fields) for fields in messages)


def _called(call: CallAsked) -> dict[str, Any]:
    function = {"name": wire_name(call.name), "arguments": object_text(call.arguments)}
    return {"id": call.call, "type": "function", "function": function}


def _user(text: str, attachments: tuple[Attachment, ...]) -> bytes:
    if not attachments:
        return ENCODER.encode({"role": "user", "content": text})
    content = [_attached(attachment) for attachment in attachments]
    if text:
        content.append({"type": "text", "text": text})
    if all(part["type"] == "text" for part in content):  # which servers that take only text want as one
        said = "\n\n".join(part["text"] for part in content)
        return ENCODER.encode({"role": "user", "content": said})
    return ENCODER.encode({"role": "user", "content": content})


def _attached(attachment: Attachment) -> dict[str, Any]:
    kind = attachment.media_type
    if kind.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": data_url(attachment)}}
    if kind == "application/pdf":
        name = attachment.name or "document.pdf"
        return {"type": "file", "file": {"filename": name, "file_data": data_url(attachment)}}
    return {"type": "text", "text": attached_text(attachment)}


def _results(message: ResultsMessage, bridge: bytes) -> bytes:
    # This wire has no mark for a failed call and no place for images in its results.
    encoded: list[bytes] = []
    shown: list[Attachment] = []
    for result in message.results:
        text = f"[error] {result.text}" if result.is_error else result.text
        encoded.append(ENCODER.encode({"role": "tool", "tool_call_id": result.call, "content": text}))
        shown.extend(result.attachments)
    if shown and bridge:
        encoded.append(bridge)
    if shown:
        encoded.append(_user("These are the files that the results above speak of.", tuple(shown)))
    return b",".join(encoded)


_NOTHING = msgspec.Raw()


class _Piece(msgspec.Struct):
    """Content in parts: `thinking` holds a list of pieces in turn."""

    type: str = "text"
    text: str = ""
    thinking: str | list[_Piece] = ""


class _Delta(msgspec.Struct, gc=False):
    content: str | list[_Piece] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[dict[str, Any]] | None = None
    refusal: str | None = None
    tool_calls: list[Fragment] | None = None


class _Choice(msgspec.Struct, gc=False):
    delta: _Delta | None = None
    message: _Delta | None = None
    finish_reason: str | None = None
    usage: TokenUsage | None = None
    logprobs: msgspec.Raw = _NOTHING


class _Groq(msgspec.Struct):
    usage: TokenUsage | None = None


class _Timings(msgspec.Struct):
    """How fast a llama.cpp server was, in its last chunk. A rate is null when nothing was measured: a prompt
    that was all in the cache."""

    prompt_per_second: float | None = None
    predicted_per_second: float | None = None

    def speed(self) -> Speed:
        read, written = self.prompt_per_second or 0.0, self.predicted_per_second or 0.0
        return Speed(input_per_s=round(read, 1), output_per_s=round(written, 1))


class _Chunk(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: TokenUsage | None = None
    timings: _Timings | None = None
    x_groq: _Groq | None = None
    error: Any = None


_chunks = cache(lambda: msgspec.json.Decoder(_Chunk))  # built while the model thinks
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
        self._calls = Calls()
        self._details = Details()
        self._finish = ""
        self._usage = Usage()
        self._timings: _Timings | None = None
        self._likely: Any = None
        self._characters = 0
        self._has_refused = False
        self.is_done = False

    def feed(self, data: bytes) -> list[StreamItem]:
        if data == b"[DONE]":
            self.is_done = True
            return []
        chunk = _chunks().decode(data)
        if chunk.error:
            raise refused(self._endpoint, 0, data)
        usage = chunk.usage or (chunk.x_groq.usage if chunk.x_groq else None)
        items: list[StreamItem] = []
        for choice in chunk.choices or ():
            delta = choice.delta or choice.message
            if choice.logprobs:
                self._likely = self._likely or import_module(_LIKELY).Likely()
                self._likely.add(choice.logprobs, self._characters)
            if delta is not None:
                self._add(delta, items)
            if choice.finish_reason:
                self._finish = choice.finish_reason
            usage = usage or choice.usage
        if usage is not None:
            self._usage = usage_of(usage)
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
        stop = "refused" if self._has_refused else stop
        finished = ReplyFinished(
            stop, self._usage, speed, alternatives=self._likely.alternatives() if self._likely else ()
        )
        sealed = self._details.sealed()
        return [ThinkingDelta(opaque=sealed, wire=WIRE), finished] if sealed else [finished]

    def _add(self, delta: _Delta, items: list[StreamItem]) -> None:
        thinking = delta.reasoning_content or delta.reasoning
        if thinking:
            items.append(ThinkingDelta(text=thinking, wire=WIRE))
        if delta.reasoning_details:
            self._details.add(delta.reasoning_details)
        content = delta.content
        if content:
            if isinstance(content, str):
                self._characters += len(content)
                items.append(TextDelta(text=content))
            else:
                items.extend(_from_pieces(content))
        if delta.refusal:
            self._has_refused = True
            items.append(TextDelta(text=delta.refusal))
        if delta.tool_calls:
            items.extend(self._calls.add(fragment) for fragment in delta.tool_calls)


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
