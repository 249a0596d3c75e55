"""OpenAI Responses: nothing is stored there, so reasoning items travel back encrypted, exactly as they came.

A message of ours may be several items of theirs. A reasoning item is kept whole in `Thinking.opaque`, because
it is accepted back only unchanged, and only when something follows it.
"""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Any, ClassVar

import msgspec

from mainspring.events import CallAsked, CallDelta, Stop, Text, TextDelta, Thinking, ThinkingDelta, Usage
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
from mainspring.models.output import fitting_effort
from mainspring.models.structured import named_schema
from mainspring.models.wires.counts import Count, counted
from mainspring.models.wires.http import StreamReader
from mainspring.models.wires.messages import (
    ENCODER,
    NOTHING_SAID,
    attached_text,
    data_url,
    object_text,
    wire_name,
    without_last_thoughts,
)
from mainspring.models.wires.wire import Wire

WIRE = "responses"
_WITHOUT_REASONING = ("gpt-3", "gpt-4", "chatgpt-")


class ResponsesModel(Wire):
    media_limits = LIMITS[WIRE]
    schema_field = "text.format"
    messages_field: ClassVar[str] = "input"

    def _encode(self, message: Message) -> bytes:
        match message:
            case UserMessage():
                content = _content(message.text, message.attachments)
                return ENCODER.encode({"type": "message", "role": "user", "content": content})
            case AssistantMessage():
                return _assistant(message)
            case ResultsMessage():
                return b",".join(_result(result) for result in message.results)

    def _path(self) -> str:
        return "/responses"

    def _reader(self) -> StreamReader:
        return _Reader(self._endpoint)

    def _opening_fields(self, request: Request) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "model": self._endpoint.model,
            "instructions": self._system(request),
            "store": False,
            "stream": True,
            "prompt_cache_key": _cache_key(request, self._endpoint.model),
        }
        if self._endpoint.model.startswith(_WITHOUT_REASONING):
            fields |= {"temperature": request.temperature} if request.temperature is not None else {}
        else:
            effort = fitting_effort(self._effort(request), self._output_limit(request))
            fields["include"] = ["reasoning.encrypted_content"]
            fields["reasoning"] = {"summary": "auto"}
            if effort:
                fields["reasoning"]["effort"] = "xhigh" if effort == "max" else effort
        if request.tools:
            fields["tools"] = [
                {
                    "type": "function",
                    "name": wire_name(tool.name),
                    "description": tool.description,
                    "parameters": tool.parameters,
                    "strict": False,
                }
                for tool in request.tools
            ]
        if request.must_call:
            fields["tool_choice"] = "required"
        if request.schema is not None:
            schema = named_schema(request.schema)
            fields["text"] = {"format": {"type": "json_schema", **schema}}
        return fields

    def _closing_fields(self, request: Request) -> dict[str, Any]:
        # The wire refuses a limit below 16.
        limit = self._output_limit(request)
        return {} if limit is None else {"max_output_tokens": max(limit, 16)}

    def _without_thinking(self, message: bytes) -> bytes:
        items = msgspec.json.decode(b"[" + message + b"]", type=list[dict[str, Any]])
        return b",".join(ENCODER.encode(item) for item in items if item["type"] != "reasoning")


def _cache_key(request: Request, model: str) -> str:
    """The same for all requests that begin the same, so that they reach a server that has it in its cache."""
    beginning = ENCODER.encode(
        [model, request.system, [tool.name for tool in request.tools], request.messages[:1]]
    )
    return f"mainspring-{hashlib.sha256(beginning).hexdigest()[:32]}"


def _content(text: str, attachments: tuple[Attachment, ...]) -> list[dict[str, Any]]:
    content = [_attached(attachment) for attachment in attachments]
    if text or not content:
        content.append({"type": "input_text", "text": text})
    return content


def _attached(attachment: Attachment) -> dict[str, Any]:
    if attachment.media_type.startswith("image/"):
        return {"type": "input_image", "image_url": data_url(attachment)}
    if attachment.media_type == "application/pdf":
        name = attachment.name or "document.pdf"
        return {"type": "input_file", "filename": name, "file_data": data_url(attachment)}
    return {"type": "input_text", "text": attached_text(attachment)}


def _assistant(message: AssistantMessage) -> bytes:
    items: list[bytes] = []
    for part in without_last_thoughts(message.parts):
        match part:
            case Text():
                items.append(_said(part.text or NOTHING_SAID))
            case Thinking():
                if part.wire == WIRE and part.opaque:
                    items.append(part.opaque.encode())
            case CallAsked():
                call = {"type": "function_call", "call_id": part.call, "name": wire_name(part.name)}
                items.append(ENCODER.encode({**call, "arguments": object_text(part.arguments)}))
    return b",".join(items) or _said(NOTHING_SAID)


def _said(text: str) -> bytes:
    content = [{"type": "output_text", "text": text}]
    return ENCODER.encode({"type": "message", "role": "assistant", "content": content})


def _result(result: ToolResult) -> bytes:
    # This wire has no mark for a failed call.
    text = f"[error] {result.text}" if result.is_error else result.text
    output = _content(text, result.attachments) if result.attachments else text
    return ENCODER.encode({"type": "function_call_output", "call_id": result.call, "output": output})


class _Content(msgspec.Struct):
    type: str = ""
    text: str = ""
    refusal: str = ""


class _Item(msgspec.Struct):
    type: str = ""
    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    encrypted_content: str | None = None
    summary: list[dict[str, Any]] | None = None
    content: list[_Content] | None = None


class _InputDetails(msgspec.Struct):
    cached_tokens: Count = None
    cache_write_tokens: Count = None


class _OutputDetails(msgspec.Struct):
    reasoning_tokens: Count = None


class _Usage(msgspec.Struct):
    input_tokens: Count = None
    output_tokens: Count = None
    input_tokens_details: _InputDetails | None = None
    output_tokens_details: _OutputDetails | None = None


class _Incomplete(msgspec.Struct):
    reason: str | None = None


class _Response(msgspec.Struct):
    status: str | None = None
    output: list[_Item] | None = None
    usage: _Usage | None = None
    incomplete_details: _Incomplete | None = None


class _Event(msgspec.Struct):
    type: str = ""
    object: str = ""
    output_index: int = 0
    summary_index: int = 0
    delta: str | None = None
    item: _Item | None = None
    response: _Response | None = None


_events = cache(lambda: msgspec.json.Decoder(_Event))  # built while the model thinks


_responses = cache(lambda: msgspec.json.Decoder(_Response))  # built while the model thinks


class _Reader:
    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._calls: dict[int, int] = {}
        self._has_streamed: set[int] = set()
        self._has_item = False
        self._summary = (-1, 0)
        self._has_refused = False
        self._stop: Stop | None = None
        self._usage = Usage()
        self.is_done = False

    def feed(self, data: bytes) -> list[StreamItem]:
        if data == b"[DONE]":
            return []
        event = _events().decode(data)
        if event.delta is not None:
            return self._delta(event, event.delta)
        match event.type:
            case "response.output_item.added" if event.item:
                return self._added(event.output_index, event.item)
            case "response.output_item.done" if event.item:
                return self._item(event.output_index, event.item)
            case "response.completed" | "response.incomplete" if event.response:
                self.is_done = True
                return self._completed(event.response)
            case "response.failed" | "error":
                raise refused(self._endpoint, 0, data)
            case "" if event.object == "response":
                return self._whole(data)
            case "" if b'"error"' in data:  # some servers in between tell of one with status 200
                raise refused(self._endpoint, 0, data)
            case _:
                pass
        return []

    def end(self) -> list[StreamItem]:
        if self._stop is None:
            raise dropped(self._endpoint)
        return [ReplyFinished("refused" if self._has_refused else self._stop, self._usage)]

    def _delta(self, event: _Event, text: str) -> list[StreamItem]:
        place = event.output_index
        self._has_streamed.add(place)
        match event.type:
            case "response.output_text.delta":
                return [TextDelta(text=text)]
            case "response.function_call_arguments.delta":
                return [CallDelta(index=self._calls.setdefault(place, len(self._calls)), arguments=text)]
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                return [ThinkingDelta(text=self._paragraph(event) + text, wire=WIRE)]
            case "response.refusal.delta":
                self._has_refused = True
                return [TextDelta(text=text)]
            case _:
                return []

    def _paragraph(self, event: _Event) -> str:
        place = (event.output_index, event.summary_index)
        is_next = self._summary[0] == place[0] and self._summary != place
        self._summary = place
        return "\n\n" if is_next else ""

    def _added(self, place: int, item: _Item) -> list[StreamItem]:
        if item.type != "function_call":
            return []
        index = self._calls.setdefault(place, len(self._calls))
        return [CallDelta(index=index, name=item.name or "", provider_id=item.call_id or item.id or "")]

    def _item(self, place: int, item: _Item) -> list[StreamItem]:
        """What an item still adds when it is complete: its seal, or all of it when nothing was streamed."""
        self._has_item = True
        is_new = place not in self._has_streamed
        match item.type:
            case "reasoning":
                text = "".join(str(part.get("text", "")) for part in item.summary or ()) if is_new else ""
                opaque = _sealed(item)
                return [ThinkingDelta(text=text, opaque=opaque, wire=WIRE)] if text or opaque else []
            case "function_call" if is_new:
                opening = [] if place in self._calls else self._added(place, item)
                return [*opening, CallDelta(index=self._calls[place], arguments=item.arguments or "")]
            case "message" if is_new:
                return self._message(item)
            case _:
                return []

    def _message(self, item: _Item) -> list[StreamItem]:
        items: list[StreamItem] = []
        for part in item.content or ():
            self._has_refused = self._has_refused or bool(part.refusal)
            if part.text or part.refusal:
                items.append(TextDelta(text=part.text or part.refusal))
        return items

    def _whole(self, data: bytes) -> list[StreamItem]:
        response = _responses().decode(data)
        if response.status == "failed":
            raise refused(self._endpoint, 0, data)
        return self._completed(response)

    def _completed(self, response: _Response) -> list[StreamItem]:
        """The end of a reply, and all of it where a server says it only then."""
        items: list[StreamItem] = []
        if not (self._has_item or self._has_streamed or self._calls):
            for place, item in enumerate(response.output or ()):
                items += self._item(place, item)
        self._end(response)
        return items

    def _end(self, response: _Response) -> None:
        reason = response.incomplete_details.reason if response.incomplete_details else None
        if reason:
            self._stop = "refused" if reason == "content_filter" else "length"
        else:
            self._stop = "calls" if self._calls else "end"
        if response.usage:
            self._usage = _counted(response.usage)


def _sealed(item: _Item) -> str:
    """A reasoning item as it must come back; empty when it cannot."""
    if not item.encrypted_content:
        return ""
    kept = {"type": "reasoning", "summary": item.summary or [], "encrypted_content": item.encrypted_content}
    if item.id:
        kept["id"] = item.id
    return ENCODER.encode(kept).decode()


def _counted(usage: _Usage) -> Usage:
    given, made = usage.input_tokens_details, usage.output_tokens_details
    return counted(
        usage.input_tokens,
        usage.output_tokens,
        cached=given.cached_tokens if given else 0,
        cache_written=given.cache_write_tokens if given else 0,
        reasoning=made.reasoning_tokens if made else 0,
    )
