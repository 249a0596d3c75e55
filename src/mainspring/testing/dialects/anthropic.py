"""Anthropic Messages, as its server sends them: blocks that open, grow and close."""

from __future__ import annotations

from typing import Any

import msgspec

from mainspring.events import Stop, Usage
from mainspring.models.scripted import ScriptedReply
from mainspring.testing.dialects import Frame, Place, WithMessages, pieces
from mainspring.testing.dialects import named_frame as _frame

_STOPS: dict[Stop, str] = {
    "end": "end_turn",
    "calls": "tool_use",
    "length": "max_tokens",
    "refused": "refusal",
}

_ERRORS: dict[int, str] = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_SIGNATURE = "c2lnbmF0dXJl"


class Anthropic(WithMessages):
    def frames(self, reply: ScriptedReply, usage: Usage, model: str) -> list[Frame]:
        begun = {**_message(model), "usage": {**_counts(usage), "output_tokens": 1}}
        frames = [_frame("open", "message_start", message=begun), _frame("open", "ping")]
        for index, (block, text) in enumerate(_blocks(reply)):
            frames += _block(index, block, pieces(text, reply.chunk_size))
        stop = {"stop_reason": _STOPS[reply.stop_reason], "stop_sequence": None}
        frames.append(
            _frame("close", "message_delta", delta=stop, usage={"output_tokens": usage.output_tokens})
        )
        frames.append(_frame("close", "message_stop"))
        return frames

    def whole(self, reply: ScriptedReply, usage: Usage, model: str) -> bytes:
        counts = {**_counts(usage), "output_tokens": usage.output_tokens}
        content = [block for block, _ in _blocks(reply)]
        ended = {"content": content, "stop_reason": _STOPS[reply.stop_reason], "usage": counts}
        return msgspec.json.encode({**_message(model), **ended})

    def error(self, status: int) -> bytes:
        return _error(_ERRORS.get(status, "api_error"), "This did not work.")

    def refusal(self, message: str) -> bytes:
        return _error("invalid_request_error", message)

    def error_frame(self) -> bytes:
        error = {"type": "overloaded_error", "message": "Overloaded"}
        return _frame("close", "error", error=error).data


def _error(kind: str, message: str) -> bytes:
    error = {"type": kind, "message": message}
    return msgspec.json.encode({"type": "error", "error": error, "request_id": "req_1"})


def _message(model: str) -> dict[str, Any]:
    return {"type": "message", "id": "msg_1", "role": "assistant", "model": model, "content": []}


def _blocks(reply: ScriptedReply) -> list[tuple[dict[str, Any], str]]:
    """The blocks of a reply, each with the text that is streamed for it."""
    blocks: list[tuple[dict[str, Any], str]] = []
    if reply.thinking:
        thought = {"type": "thinking", "thinking": reply.thinking, "signature": _SIGNATURE}
        blocks.append((thought, reply.thinking))
    if reply.text:
        blocks.append(({"type": "text", "text": reply.text}, reply.text))
    for index, call in enumerate(reply.calls):
        called = {"type": "tool_use", "id": call.id or f"toolu_{index}", "name": call.name}
        given = call.arguments if isinstance(call.arguments, dict) else {}
        blocks.append(({**called, "input": given}, call.argument_text))
    return blocks


def _block(index: int, block: dict[str, Any], parts: list[str]) -> list[Frame]:
    place: Place
    match block["type"]:
        case "thinking":
            place, empty = "thinking", {"thinking": "", "signature": ""}
            deltas = [{"type": "thinking_delta", "thinking": part} for part in parts]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        case "text":
            place, empty = "text", {"text": ""}
            deltas = [{"type": "text_delta", "text": part} for part in parts]
        case _:
            place, empty = "call", dict[str, Any](input=dict[str, Any]())
            deltas = [{"type": "input_json_delta", "partial_json": part} for part in ("", *parts)]
    return [
        _frame(place, "content_block_start", index=index, content_block={**block, **empty}),
        *(_frame(place, "content_block_delta", index=index, delta=delta) for delta in deltas),
        _frame(place, "content_block_stop", index=index),
    ]


def _counts(usage: Usage) -> dict[str, int]:
    return {
        "input_tokens": usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cached_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
    }
