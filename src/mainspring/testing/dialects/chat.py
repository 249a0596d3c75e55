"""OpenAI chat completions, as OpenAI and the servers compatible with it send them."""

from __future__ import annotations

from typing import Any

import msgspec

from mainspring.events import Stop, Usage
from mainspring.models.scripted import ScriptedCall, ScriptedReply
from mainspring.testing.dialects import Frame, Place, WithMessages, pieces

_FINISH: dict[Stop, str] = {
    "end": "stop",
    "calls": "tool_calls",
    "length": "length",
    "refused": "content_filter",
}

_ERRORS: dict[int, tuple[str, str | None, str]] = {
    400: ("invalid_request_error", None, "The request is not valid."),
    401: ("invalid_request_error", "invalid_api_key", "Incorrect API key provided."),
    402: ("insufficient_balance", None, "Insufficient Balance"),
    403: ("invalid_request_error", None, "You are not allowed to use this."),
    404: ("invalid_request_error", "model_not_found", "The model does not exist."),
    429: ("requests", "rate_limit_exceeded", "Rate limit reached."),
}


class OpenaiErrors:
    """How OpenAI refuses, on both of its wires."""

    def error(self, status: int) -> bytes:
        kind, code, message = _ERRORS.get(status, ("server_error", None, "The server had an error."))
        return _error(message, kind, code)

    def refusal(self, message: str) -> bytes:
        return _error(message, "invalid_request_error", None)


def _error(message: str, kind: str, code: str | None) -> bytes:
    return msgspec.json.encode({"error": {"message": message, "type": kind, "param": None, "code": code}})


class Chat(OpenaiErrors, WithMessages):
    def frames(self, reply: ScriptedReply, usage: Usage, model: str) -> list[Frame]:
        frames = [_delta("open", model, {"role": "assistant", "content": ""})]
        for piece in pieces(reply.thinking, reply.chunk_size):
            frames += [_delta("thinking", model, {"reasoning_content": piece})]
        for piece in pieces(reply.text, reply.chunk_size):
            frames += [_delta("text", model, {"content": piece})]
        for index, call in enumerate(reply.calls):
            opening = {"index": index, "id": _id(call, index), "type": "function"}
            function = {"name": call.name, "arguments": ""}
            frames.append(_delta("call", model, {"tool_calls": [{**opening, "function": function}]}))
            for piece in pieces(call.argument_text, reply.chunk_size):
                fragment = {"index": index, "function": {"arguments": piece}}
                frames.append(_delta("call", model, {"tool_calls": [fragment]}))
        finish = _FINISH[reply.stop_reason]
        frames.append(_delta("close", model, {}, finish))
        frames.append(_frame("close", {**_head(model), "choices": [], "usage": _usage(usage)}))
        frames.append(Frame("close", b"data: [DONE]\n\n"))
        return frames

    def whole(self, reply: ScriptedReply, usage: Usage, model: str) -> bytes:
        message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
        if reply.thinking:
            message["reasoning_content"] = reply.thinking
        if reply.calls:
            message["tool_calls"] = [
                {
                    "id": _id(call, index),
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.argument_text},
                }
                for index, call in enumerate(reply.calls)
            ]
        choice = {"index": 0, "message": message, "finish_reason": _FINISH[reply.stop_reason]}
        body = {**_head(model), "object": "chat.completion", "choices": [choice], "usage": _usage(usage)}
        return msgspec.json.encode(body)

    def error_frame(self) -> bytes:
        error = {"message": "Provider returned error", "code": 502}
        return b"data: %b\n\n" % msgspec.json.encode({"error": error, "choices": []})


def _head(model: str) -> dict[str, Any]:
    return {"id": "chatcmpl-scripted", "object": "chat.completion.chunk", "created": 0, "model": model}


def _delta(place: Place, model: str, delta: dict[str, Any], finish: str | None = None) -> Frame:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return _frame(place, {**_head(model), "choices": [choice]})


def _frame(place: Place, payload: dict[str, Any]) -> Frame:
    return Frame(place, b"data: %b\n\n" % msgspec.json.encode(payload))


def _id(call: ScriptedCall, index: int) -> str:
    return call.id or f"call_{index}"


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }
