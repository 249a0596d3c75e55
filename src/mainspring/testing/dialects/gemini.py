"""Gemini generateContent, as its server sends it: chunks of parts, calls whole, usage in every chunk."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from mainspring.events import Stop, Usage
from mainspring.models.scripted import ScriptedReply
from mainspring.testing.dialects import Asked, Frame, Place, Role, pieces

_FINISH: dict[Stop, str] = {"end": "STOP", "calls": "STOP", "length": "MAX_TOKENS", "refused": "SAFETY"}
_ERRORS: dict[int, str] = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_PATH = re.compile(r"/models/(?P<model>.+):(?P<verb>\w+)$")
_SIGNATURE = "c2lnbmF0dXJl"


class _Body(msgspec.Struct):
    contents: list[Role]


_BODY = msgspec.json.Decoder(_Body)


class Gemini:
    def asked(self, path: str, body: bytes, /) -> Asked:
        replies = sum(content.role == "model" for content in _BODY.decode(body).contents)
        found = _PATH.search(path)
        model, verb = (found["model"], found["verb"]) if found else ("", "")
        return Asked(replies=replies, model=model, is_stream=verb == "streamGenerateContent")

    def frames(self, reply: ScriptedReply, usage: Usage, model: str) -> list[Frame]:
        frames: list[Frame] = []
        for place, part in _parts(reply, reply.chunk_size):
            frames.append(_frame(place, {"candidates": [_candidate([part])], **_meta(usage, model, 0)}))
        finish = _FINISH[reply.stop_reason]
        last = _candidate([{"text": ""}], finish)
        frames.append(_frame("close", {"candidates": [last], **_meta(usage, model, usage.output_tokens)}))
        return frames

    def whole(self, reply: ScriptedReply, usage: Usage, model: str) -> bytes:
        parts = [part for _, part in _parts(reply, 0)]
        candidate = _candidate(parts, _FINISH[reply.stop_reason])
        return msgspec.json.encode({"candidates": [candidate], **_meta(usage, model, usage.output_tokens)})

    def error(self, status: int) -> bytes:
        named = {"code": status, "message": "This did not work.", "status": _ERRORS.get(status, "UNKNOWN")}
        return msgspec.json.encode({"error": named})

    def refusal(self, message: str) -> bytes:
        return msgspec.json.encode({"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}})

    def error_frame(self) -> bytes:
        error = {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}
        return _frame("close", {"error": error}).data


def _parts(reply: ScriptedReply, size: int) -> list[tuple[Place, dict[str, Any]]]:
    parts: list[tuple[Place, dict[str, Any]]] = []
    for piece in pieces(reply.thinking, size):
        parts.append(("thinking", {"text": piece, "thought": True}))  # noqa: PERF401
    for piece in pieces(reply.text, size):
        parts.append(("text", {"text": piece}))  # noqa: PERF401
    signature = {"thoughtSignature": _SIGNATURE} if reply.thinking else {}
    for call in reply.calls:
        arguments = call.arguments if isinstance(call.arguments, dict) else {}
        asked = {"name": call.name, "args": arguments, **({"id": call.id} if call.id else {})}
        parts.append(("call", {"functionCall": asked, **signature}))
        signature = {}
    return parts


def _candidate(parts: list[dict[str, Any]], finish: str | None = None) -> dict[str, Any]:
    ending = {"finishReason": finish} if finish else {}
    return {"content": {"role": "model", "parts": parts}, "index": 0, **ending}


def _meta(usage: Usage, model: str, written: int) -> dict[str, Any]:
    thoughts = usage.reasoning_tokens if written else 0
    counts = {
        "promptTokenCount": usage.input_tokens,
        "cachedContentTokenCount": usage.cached_tokens,
        "candidatesTokenCount": written - thoughts,
        "thoughtsTokenCount": thoughts,
        "totalTokenCount": usage.input_tokens + written,
    }
    return {"usageMetadata": counts, "modelVersion": model}


def _frame(place: Place, payload: dict[str, Any]) -> Frame:
    return Frame(place, b"data: %b\r\n\r\n" % msgspec.json.encode(payload))
