"""Anthropic Messages: thinking goes back with its signature, exactly as it came; cache marks on a copy.

Marks stand on the system prompt and on the last two messages of the user's side, so that each request finds
what the one before it had cached. They are put into the bytes of a request and never into those of a message.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any
from urllib.parse import quote

import msgspec

from mainspring.events import CallAsked, CallDelta, Stop, Text, TextDelta, Thinking, ThinkingDelta
from mainspring.models import (
    AssistantMessage,
    Attachment,
    Message,
    ReplyFinished,
    Request,
    ResultsMessage,
    StreamItem,
    ToolResult,
    UserMessage,
)
from mainspring.models.attachments import LIMITS
from mainspring.models.failures import Endpoint, dropped, refused
from mainspring.models.output import fitting_effort, thinking_share, wanted_output
from mainspring.models.structured import has_maps, without_limits
from mainspring.models.wires.counts import Count, counted, number
from mainspring.models.wires.http import StreamReader
from mainspring.models.wires.messages import (
    ENCODER,
    NOTHING_SAID,
    attached_text,
    base64_text,
    object_raw,
    wire_name,
    without_last_thoughts,
)
from mainspring.models.wires.thinking import REPLY_END, THOUGHTS, open_loop
from mainspring.models.wires.wire import THINKING_ORDER, Wire

WIRE = "anthropic"
VERSION = "2023-06-01"
_REDACTED = "redacted:"
_CACHED = {"type": "ephemeral"}
_USER_END = b'}],"role":"user"}'
_MARKED_END = b',"cache_control":{"type":"ephemeral"}' + _USER_END
_MARKS = 2

# Models that are told how many tokens to think, not how hard; those before them do not think.
_WITH_BUDGET = re.compile(r"claude-(3[-.]7|(opus|sonnet|haiku)-4([-.][0-5])?(-\d{8})?$)")
_WITHOUT_THINKING = re.compile(r"claude-(2|3[-.]5|3-(opus|sonnet|haiku)|instant)")
_WITHOUT_SCHEMA = re.compile(r"claude-(2|3|instant|(opus|sonnet)-4(-0)?(-\d{8})?$)")
# How many tokens of output a model takes, by name; what is not here takes at least 64,000.
_MOST_OUTPUT = (
    (re.compile(r"claude-(2|3-(opus|sonnet|haiku)|instant)"), 4_096),
    (re.compile(r"claude-3[-.]5"), 8_192),
    (re.compile(r"claude-opus-4([-.][01])?(-\d{8})?$"), 32_000),
)
_LEAST_BUDGET = 1_024


class AnthropicModel(Wire):
    media_limits = LIMITS[WIRE]
    schema_field = "output_config.format"

    def _encode(self, message: Message) -> bytes:
        match message:
            case UserMessage():
                return _user(_content(message.text, message.attachments))
            case AssistantMessage():
                return _assistant(message)
            case ResultsMessage():
                return _user([_result(result) for result in message.results])

    def _key_headers(self, api_key: str) -> dict[str, str]:
        key = {"x-api-key": api_key} if api_key else {}
        return {"anthropic-version": VERSION, **key}

    def _path(self) -> str:
        return "/v1/messages"

    def _models_path(self, after: str) -> str:
        return f"/v1/models?limit=1000{f'&after_id={quote(after)}' if after else ''}"

    def _reader(self) -> StreamReader:
        return _Reader(self._endpoint)

    def _messages(self, request: Request) -> Sequence[bytes]:
        marked = list(super()._messages(request))
        start = open_loop(marked) if self._is_loop_checked() else None
        if start is not None and not self._thinking(msgspec.structs.replace(request, messages=marked)):
            # Thoughts in an open loop are refused by a model that is not to think.
            for position in range(start, len(marked)):
                if marked[position].endswith(REPLY_END):
                    marked[position] = self._cleaned(marked[position])
        left = _MARKS
        for position in range(len(marked) - 1, -1, -1):
            if left and marked[position].endswith(_USER_END):
                marked[position] = marked[position].removesuffix(_USER_END) + _MARKED_END
                left -= 1
            if not left:
                break
        return marked

    def _opening_fields(self, request: Request) -> dict[str, Any]:
        fields: dict[str, Any] = {"model": self._endpoint.model, "stream": True}
        system = self._system(request)
        if system:
            fields["system"] = [{"type": "text", "text": system, "cache_control": _CACHED}]
        if request.tools:
            fields["tools"] = [
                {
                    "name": wire_name(tool.name),
                    "description": tool.description,
                    "input_schema": tool.parameters,
                }
                for tool in request.tools
            ]
        effort = fitting_effort(self._effort(request), self._output_limit(request))
        if effort and self._thinks_by_effort():
            fields["output_config"] = {"effort": effort}
        if request.schema is not None:
            described = {"type": "json_schema", "schema": without_limits(request.schema)}
            fields["output_config"] = {**fields.get("output_config", {}), "format": described}
        return fields

    def _closing_fields(self, request: Request) -> dict[str, Any]:
        fields: dict[str, Any] = {"max_tokens": self._output_limit(request)}
        thinking = self._thinking(request)
        if thinking:
            fields["thinking"] = thinking
            return fields
        # A model that thinks has its own temperature, and may not be forced to call a tool.
        if request.temperature is not None:
            fields["temperature"] = request.temperature
        if request.must_call:
            fields["tool_choice"] = {"type": "any"}
        return fields

    def _output_limit(self, request: Request) -> int:
        limit = request.max_output_tokens or wanted_output(self._effort(request))
        known = [most for pattern, most in _MOST_OUTPUT if pattern.search(self._endpoint.model)]
        return min(limit, *known, self._most_output or limit)

    def _thinking(self, request: Request) -> dict[str, Any]:
        """How the model is to think, empty when it is not to: an open loop of calls goes on as it began."""
        start = open_loop(request.messages) if self._is_loop_checked() else None
        has_thought = start is not None and request.messages[start].startswith(THOUGHTS)
        if start is not None and not has_thought:
            return {}
        if self._thinks_by_effort():
            return {"type": "adaptive", "display": "summarized"}
        budget = self._budget(request, has_thought=has_thought)
        return {"type": "enabled", "budget_tokens": budget} if budget else {}

    def _budget(self, request: Request, *, has_thought: bool) -> int:
        effort, limit = self._effort(request) or ("low" if has_thought else None), self._output_limit(request)
        if effort is None or "effort" in self._lacks or not _WITH_BUDGET.search(self._endpoint.model):
            return 0
        # With less than that the answer would have no room.
        return max(thinking_share(effort, limit), _LEAST_BUDGET) if limit >= 2 * _LEAST_BUDGET else 0

    def _is_loop_checked(self) -> bool:
        """Whether thoughts must stand at the beginning of a loop, or nowhere in it."""
        return not self._thinks_by_effort() or THINKING_ORDER in self._lacks

    def _takes_schema(self, request: Request) -> bool:
        # Its objects are closed, so a map could only be empty.
        is_taken = not _WITHOUT_SCHEMA.search(self._endpoint.model) and not has_maps(request.schema)
        return is_taken and super()._takes_schema(request)

    def _thinks_by_effort(self) -> bool:
        name = self._endpoint.model
        is_older = _WITH_BUDGET.search(name) or _WITHOUT_THINKING.search(name)
        return not is_older and "effort" not in self._lacks

    def _without_thinking(self, message: bytes) -> bytes:
        fields = msgspec.json.decode(message, type=dict[str, Any])
        blocks: list[dict[str, Any]] = fields["content"]
        kept = [block for block in blocks if block["type"] not in ("thinking", "redacted_thinking")]
        return ENCODER.encode({**fields, "content": kept or [{"type": "text", "text": NOTHING_SAID}]})


def _user(content: list[dict[str, Any]]) -> bytes:
    return ENCODER.encode({"role": "user", "content": content})


def _content(text: str, attachments: tuple[Attachment, ...]) -> list[dict[str, Any]]:
    content = [_attached(attachment) for attachment in attachments]
    # Blank text is refused.
    if text.strip() or not content:
        content.append({"type": "text", "text": text if text.strip() else NOTHING_SAID})
    return content


def _attached(attachment: Attachment) -> dict[str, Any]:
    kind = attachment.media_type
    source = {"type": "base64", "media_type": kind, "data": base64_text(attachment)}
    if kind.startswith("image/"):
        return {"type": "image", "source": source}
    if kind == "application/pdf":
        return {"type": "document", "source": source}
    return {"type": "text", "text": attached_text(attachment)}


def _assistant(message: AssistantMessage) -> bytes:
    content: list[dict[str, Any]] = []
    said = tuple(part for part in message.parts if not isinstance(part, Text) or part.text.strip())
    for part in without_last_thoughts(said):
        match part:
            case Text():
                content.append({"type": "text", "text": part.text})
            case Thinking():
                content.extend(_thought(part))
            case CallAsked():
                call = {"type": "tool_use", "id": part.call, "name": wire_name(part.name)}
                content.append({**call, "input": object_raw(part.arguments)})
    return ENCODER.encode(
        {"role": "assistant", "content": content or [{"type": "text", "text": NOTHING_SAID}]}
    )


def _thought(part: Thinking) -> list[dict[str, Any]]:
    if part.wire != WIRE or not part.opaque:
        return []
    if part.opaque.startswith(_REDACTED):
        return [{"type": "redacted_thinking", "data": part.opaque.removeprefix(_REDACTED)}]
    return [{"type": "thinking", "thinking": part.text, "signature": part.opaque}]


def _result(result: ToolResult) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": result.call, "content": result.text}
    if result.attachments:
        block["content"] = _content(result.text, result.attachments)
    if result.is_error:
        block["is_error"] = True
    return block


class _Usage(msgspec.Struct):
    input_tokens: Count = None
    output_tokens: Count = None
    cache_read_input_tokens: Count = None
    cache_creation_input_tokens: Count = None


class _Block(msgspec.Struct):
    type: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    data: str = ""
    id: str = ""
    name: str = ""
    input: msgspec.Raw = msgspec.Raw(b"{}")


class _Delta(msgspec.Struct, gc=False):
    type: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    partial_json: str = ""
    stop_reason: str | None = None


class _Start(msgspec.Struct):
    usage: _Usage | None = None


class _Event(msgspec.Struct, gc=False):
    type: str = ""
    index: int = 0
    delta: _Delta | None = None
    content_block: _Block | None = None
    message: _Start | None = None
    usage: _Usage | None = None
    content: list[_Block] | None = None
    stop_reason: str | None = None


_events = cache(lambda: msgspec.json.Decoder(_Event))  # built while the model thinks
_STOPS: dict[str, Stop] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "pause_turn": "end",
    "tool_use": "calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refused",
}


class _Reader:
    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._calls: dict[int, int] = {}
        self._signatures: dict[int, str] = {}
        self._stop: Stop | None = None
        self._counts = _Usage()
        self.is_done = False

    def feed(self, data: bytes) -> list[StreamItem]:
        event = _events().decode(data)
        match event.type:
            case "content_block_delta" if event.delta:
                return self._delta(event.index, event.delta)
            case "content_block_start" if event.content_block:
                return self._opened(event.index, event.content_block)
            case "content_block_stop":
                return self._closed(event.index)
            case "message_start" if event.message:
                self._count(event.message.usage)
            case "message_delta":
                self._count(event.usage)
                self._stopped(event.delta.stop_reason if event.delta else None)
            case "message_stop":
                self.is_done = True
            case "error":
                raise refused(self._endpoint, 0, data)
            case "message":
                return self._whole(event)
            case "" if b'"error"' in data:  # some servers in between tell of one with status 200
                raise refused(self._endpoint, 0, data)
            case _:
                pass
        return []

    def end(self) -> list[StreamItem]:
        if self._stop is None:
            raise dropped(self._endpoint)
        counts = self._counts
        cached, written = number(counts.cache_read_input_tokens), number(counts.cache_creation_input_tokens)
        sent = number(counts.input_tokens) + cached + written
        usage = counted(sent, counts.output_tokens, cached=cached, cache_written=written)
        return [ReplyFinished(self._stop, usage)]

    def _delta(self, place: int, delta: _Delta) -> list[StreamItem]:
        match delta.type:
            case "text_delta":
                return [TextDelta(text=delta.text)]
            case "thinking_delta":
                return [ThinkingDelta(text=delta.thinking, wire=WIRE)]
            case "input_json_delta" if place in self._calls:
                return [CallDelta(index=self._calls[place], arguments=delta.partial_json)]
            case "signature_delta":
                self._signatures[place] = self._signatures.get(place, "") + delta.signature
            case _:
                pass
        return []

    def _opened(self, place: int, block: _Block) -> list[StreamItem]:
        match block.type:
            case "text":
                return [TextDelta(text=block.text)] if block.text else []
            case "thinking":
                self._signatures[place] = block.signature
                return [ThinkingDelta(text=block.thinking, wire=WIRE)] if block.thinking else []
            case "redacted_thinking":
                return [ThinkingDelta(opaque=_REDACTED + block.data, wire=WIRE)]
            case "tool_use":
                index = self._calls.setdefault(place, len(self._calls))
                text = bytes(block.input).decode()
                # The input of a call that is streamed begins as an empty object.
                arguments = "" if text == "{}" else text
                return [CallDelta(index=index, name=block.name, arguments=arguments, provider_id=block.id)]
            case _:
                return []

    def _closed(self, place: int) -> list[StreamItem]:
        signature = self._signatures.pop(place, "")
        return [ThinkingDelta(opaque=signature, wire=WIRE)] if signature else []

    def _whole(self, event: _Event) -> list[StreamItem]:
        items: list[StreamItem] = []
        for place, block in enumerate(event.content or ()):
            items.extend(self._opened(place, block))
            items.extend(self._closed(place))
        self._count(event.usage)
        self._stopped(event.stop_reason)
        return items

    def _stopped(self, reason: str | None) -> None:
        if reason:
            self._stop = _STOPS.get(reason, "end")

    def _count(self, usage: _Usage | None) -> None:
        # Later counts replace earlier ones, where they are given.
        for name in _Usage.__struct_fields__:
            count = getattr(usage, name, None)
            if count is not None:
                setattr(self._counts, name, count)
