"""Gemini generateContent: calls come whole and carry thought signatures, which go back where they came from.

A signature on a call is kept with the call; one on a text or a thought becomes a `Thinking` of its own. Calls
that another provider asked for have none; newer models are told not to look for it.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, ClassVar
from urllib.parse import quote

import msgspec

from mainspring.errors import ContentRefused, Overloaded
from mainspring.events import CallAsked, CallDelta, Stop, Text, TextDelta, Thinking, ThinkingDelta, Usage
from mainspring.models import (
    AssistantMessage,
    Attachment,
    Effort,
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
from mainspring.models.output import fitting_effort, thinking_share
from mainspring.models.wires.counts import Count, counted, number
from mainspring.models.wires.http import StreamReader
from mainspring.models.wires.messages import (
    ENCODER,
    NOTHING_SAID,
    attached_text,
    base64_text,
    object_raw,
    wire_name,
)
from mainspring.models.wires.wire import Wire

WIRE = "gemini"
_UNCHECKED = "skip_thought_signature_validator"
_WITHOUT_THINKING = re.compile(r"gemini-(1|2\.0)|gemma")
_WITH_BUDGET = re.compile(r"gemini-2\.5")
_BUDGETS: dict[Effort, int] = {"low": 2_048, "medium": 8_192, "high": 16_384, "max": 24_576}
_LEAST_BUDGET = 512
_LEVELS: dict[Effort, str] = {"low": "low", "medium": "medium", "high": "high", "max": "high"}


class GeminiModel(Wire):
    media_limits = LIMITS[WIRE]
    schema_field = "generationConfig.response"
    messages_field: ClassVar[str] = "contents"

    def _encode(self, message: Message) -> bytes:
        match message:
            case UserMessage():
                parts = [_attached(attachment) for attachment in message.attachments]
                if message.text or not parts:
                    parts.append({"text": message.text or NOTHING_SAID})
                return ENCODER.encode({"role": "user", "parts": parts})
            case AssistantMessage():
                return self._assistant(message)
            case ResultsMessage():
                parts = [_result(result) for result in message.results]
                parts.extend(_attached(each) for result in message.results for each in result.attachments)
                return ENCODER.encode({"role": "user", "parts": parts})

    def _key_headers(self, api_key: str) -> dict[str, str]:
        return {"x-goog-api-key": api_key} if api_key else {}

    def _path(self) -> str:
        name = self._endpoint.model.removeprefix("models/")
        return f"/models/{name}:streamGenerateContent?alt=sse"

    def _models_path(self, after: str) -> str:
        return f"/models?pageSize=1000{f'&pageToken={quote(after)}' if after else ''}"

    def _reader(self) -> StreamReader:
        return _Reader(self._endpoint)

    def _opening_fields(self, request: Request) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        system = self._system(request)
        if system:
            fields["systemInstruction"] = {"parts": [{"text": system}]}
        if request.tools:
            declared = [
                {
                    "name": wire_name(tool.name),
                    "description": tool.description,
                    "parametersJsonSchema": tool.parameters,
                }
                for tool in request.tools
            ]
            fields["tools"] = [{"functionDeclarations": declared}]
        if request.must_call:
            fields["toolConfig"] = {"functionCallingConfig": {"mode": "ANY"}}
        return fields

    def _closing_fields(self, request: Request) -> dict[str, Any]:
        settings: dict[str, Any] = {}
        limit = self._output_limit(request)
        if limit is not None:
            settings["maxOutputTokens"] = limit
        sampling = {"temperature": request.temperature, "seed": request.seed}
        settings |= {name: value for name, value in sampling.items() if value is not None}
        name = self._endpoint.model
        if "effort" not in self._lacks and not _WITHOUT_THINKING.search(name):
            settings["thinkingConfig"] = _thinking(name, self._effort(request), limit)
        if request.schema is not None:
            settings |= {"responseMimeType": "application/json", "responseJsonSchema": request.schema}
        if "top_p" in self._sampling:
            settings["topP"] = self._sampling["top_p"]
        return {"generationConfig": settings} if settings else {}

    def _sampled(self) -> dict[str, Any]:
        return {}

    def _takes_schema(self, request: Request) -> bool:
        # Models before Gemini 3 refuse a schema beside tools.
        is_older = _WITHOUT_THINKING.search(self._endpoint.model) or _WITH_BUDGET.search(self._endpoint.model)
        return not (request.tools and is_older) and super()._takes_schema(request)

    def _assistant(self, message: AssistantMessage) -> bytes:
        parts: list[dict[str, Any]] = []
        for part in message.parts:
            match part:
                case Text():
                    parts += [{"text": part.text}] if part.text else []
                case Thinking():
                    parts.extend(_thought(part))
                case CallAsked():
                    call = {"id": part.call, "name": wire_name(part.name), "args": object_raw(part.arguments)}
                    signature = {"thoughtSignature": part.opaque} if part.opaque else {}
                    parts.append({"functionCall": call, **signature})
        self._sign(parts)
        return ENCODER.encode({"role": "model", "parts": parts or [{"text": NOTHING_SAID}]})

    def _sign(self, parts: list[dict[str, Any]]) -> None:
        is_checked = not (
            _WITHOUT_THINKING.search(self._endpoint.model) or _WITH_BUDGET.search(self._endpoint.model)
        )
        calls = [part for part in parts if "functionCall" in part]
        if is_checked and calls and not any("thoughtSignature" in part for part in calls):
            calls[0]["thoughtSignature"] = _UNCHECKED

    def _without_thinking(self, message: bytes) -> bytes:
        fields = msgspec.json.decode(message, type=dict[str, Any])
        kept: list[dict[str, Any]] = []
        for part in fields["parts"]:
            signature = part.pop("thoughtSignature", None)
            if "thought" not in part and not (signature and part.get("text") == ""):
                kept.append(part)
        self._sign(kept)
        return ENCODER.encode({**fields, "parts": kept or [{"text": NOTHING_SAID}]})


def _thinking(model: str, effort: Effort | None, limit: int | None) -> dict[str, Any]:
    if not _WITH_BUDGET.search(model):
        effort = fitting_effort(effort, limit)
        return {"includeThoughts": True, **({"thinkingLevel": _LEVELS[effort]} if effort else {})}
    if limit is None:
        return {"includeThoughts": True, **({"thinkingBudget": _BUDGETS[effort]} if effort else {})}
    # Thoughts count as output: a budget that is not told is as large as the model likes.
    budget = min(thinking_share(effort, limit), _BUDGETS[effort or "max"])
    if budget >= _LEAST_BUDGET:
        return {"includeThoughts": True, "thinkingBudget": budget}
    # Pro cannot do without; its least is 128.
    return {"includeThoughts": True, "thinkingBudget": 128} if "pro" in model else {"thinkingBudget": 0}


def _attached(attachment: Attachment) -> dict[str, Any]:
    kind = attachment.media_type
    if kind.startswith(("image/", "audio/", "video/")) or kind == "application/pdf":
        return {"inlineData": {"mimeType": kind, "data": base64_text(attachment)}}
    return {"text": attached_text(attachment)}


def _thought(part: Thinking) -> list[dict[str, Any]]:
    if part.wire != WIRE or not part.opaque:
        return []
    thought = {"thought": True} if part.text else {}
    return [{"text": part.text, "thoughtSignature": part.opaque, **thought}]


def _result(result: ToolResult) -> dict[str, Any]:
    response = {"error" if result.is_error else "output": result.text}
    return {"functionResponse": {"id": result.call, "name": wire_name(result.name), "response": response}}


class _Function(msgspec.Struct):
    name: str = ""
    args: msgspec.Raw = msgspec.Raw(b"")
    id: str = ""


class _Part(msgspec.Struct, rename="camel"):
    text: str | None = None
    thought: bool = False
    thought_signature: str = ""
    function_call: _Function | None = None


class _Content(msgspec.Struct):
    parts: list[_Part] | None = None


class _Candidate(msgspec.Struct, rename="camel"):
    content: _Content | None = None
    finish_reason: str | None = None


class _Counts(msgspec.Struct, rename="camel"):
    prompt_token_count: Count = 0
    tool_use_prompt_token_count: Count = 0
    candidates_token_count: Count = 0
    thoughts_token_count: Count = 0
    cached_content_token_count: Count = 0


class _Feedback(msgspec.Struct, rename="camel"):
    block_reason: str | None = None


class _Chunk(msgspec.Struct, rename="camel"):
    candidates: list[_Candidate] | None = None
    usage_metadata: _Counts | None = None
    prompt_feedback: _Feedback | None = None
    error: Any = None


_chunks = cache(lambda: msgspec.json.Decoder(_Chunk))  # built while the model thinks
_STOPS: dict[str, Stop] = {
    "MAX_TOKENS": "length",
    "SAFETY": "refused",
    "RECITATION": "refused",
    "LANGUAGE": "refused",
    "BLOCKLIST": "refused",
    "PROHIBITED_CONTENT": "refused",
    "SPII": "refused",
    "IMAGE_SAFETY": "refused",
}
_FAILED = frozenset({"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE"})


class _Reader:
    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._calls = 0
        self._finish = ""
        self._usage = Usage()
        self.is_done = False

    def feed(self, data: bytes) -> list[StreamItem]:
        chunk = _chunks().decode(data)
        if chunk.error:
            raise refused(self._endpoint, 0, data)
        if chunk.prompt_feedback and chunk.prompt_feedback.block_reason:
            raise ContentRefused(
                f"{self._endpoint.provider} declined to answer ({chunk.prompt_feedback.block_reason}).",
                remedy="Rephrase the request, or choose another model.",
            )
        items: list[StreamItem] = []
        for candidate in chunk.candidates or ():
            for part in (candidate.content.parts if candidate.content else None) or ():
                items.extend(self._part(part))
            self._finish = candidate.finish_reason or self._finish
        if chunk.usage_metadata:
            self._usage = _counted(chunk.usage_metadata)
        return items

    def end(self) -> list[StreamItem]:
        if not self._finish:
            raise dropped(self._endpoint)
        if self._finish in _FAILED:
            raise Overloaded(
                f"{self._endpoint.model} broke off with {self._finish}.",
                remedy="Try again, or choose another model.",
            )
        stop = _STOPS.get(self._finish, "calls" if self._calls else "end")
        return [ReplyFinished(stop, self._usage)]

    def _part(self, part: _Part) -> list[StreamItem]:
        signature = part.thought_signature
        if part.function_call:
            call = part.function_call
            arguments = bytes(call.args).decode()
            self._calls += 1
            return [
                CallDelta(
                    index=self._calls - 1,
                    name=call.name,
                    arguments=arguments,
                    provider_id=call.id,
                    opaque=signature,
                )
            ]
        text = part.text or ""
        if part.thought:
            return [ThinkingDelta(text=text, opaque=signature, wire=WIRE)] if text or signature else []
        items: list[StreamItem] = [TextDelta(text=text)] if text else []
        if signature:
            items.append(ThinkingDelta(opaque=signature, wire=WIRE))
        return items


def _counted(counts: _Counts) -> Usage:
    thoughts = number(counts.thoughts_token_count)
    return counted(
        number(counts.prompt_token_count) + number(counts.tool_use_prompt_token_count),
        number(counts.candidates_token_count) + thoughts,
        cached=counts.cached_content_token_count,
        reasoning=thoughts,
    )
