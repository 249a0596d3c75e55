"""OpenAI Responses, as its server sends them: an event for everything that happens to every item."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import msgspec

from mainspring.events import Usage
from mainspring.models.scripted import ScriptedReply
from mainspring.testing.dialects import Asked, Frame, pieces
from mainspring.testing.dialects import named_frame as _frame
from mainspring.testing.dialects.chat import OpenaiErrors


class _Item(msgspec.Struct):
    type: str = "message"
    role: str = ""

    @property
    def is_reply(self) -> bool:
        return self.type in ("reasoning", "function_call") or self.role == "assistant"


class _Body(msgspec.Struct):
    input: list[_Item]
    model: str = ""
    stream: bool = False


_BODY = msgspec.json.Decoder(_Body)


class Responses(OpenaiErrors):
    def asked(self, _path: str, body: bytes, /) -> Asked:
        asked = _BODY.decode(body)
        replies = sum(is_reply for is_reply, _ in groupby(asked.input, key=lambda item: item.is_reply))
        return Asked(replies=replies, model=asked.model, is_stream=asked.stream)

    def frames(self, reply: ScriptedReply, usage: Usage, model: str) -> list[Frame]:
        frames = [_frame("open", "response.created", response={"status": "in_progress", "output": []})]
        for place, item in enumerate(_items(reply)):
            match item["type"]:
                case "reasoning":
                    frames += _reasoning(place, item, reply)
                case "message":
                    frames += _message(place, item, reply)
                case _:
                    frames += _call(place, item, reply)
        ended = _response(reply, usage, model)
        frames.append(_frame("close", f"response.{ended['status']}", response=ended))
        return frames

    def whole(self, reply: ScriptedReply, usage: Usage, model: str) -> bytes:
        return msgspec.json.encode(_response(reply, usage, model))

    def error_frame(self) -> bytes:
        error = {"code": "server_error", "message": "The server had an error."}
        return _frame("close", "response.failed", response={"status": "failed", "error": error}).data


def _items(reply: ScriptedReply) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if reply.thinking:
        summary = [{"type": "summary_text", "text": reply.thinking}]
        sealed = {"id": "rs_1", "encrypted_content": "sealed-thought"}
        items.append({"type": "reasoning", "summary": summary, **sealed})
    if reply.text:
        part: dict[str, Any] = {"type": "output_text", "text": reply.text, "annotations": []}
        if reply.stop_reason == "refused":
            part = {"type": "refusal", "refusal": reply.text}
        items.append({"type": "message", "role": "assistant", "id": "msg_1", "content": [part]})
    for index, call in enumerate(reply.calls):
        called = {"call_id": call.id or f"call_{index}", "name": call.name, "arguments": call.argument_text}
        items.append({"type": "function_call", "id": f"fc_{index}", **called})
    return items


def _reasoning(place: int, item: dict[str, Any], reply: ScriptedReply) -> list[Frame]:
    begun: dict[str, Any] = {"type": "reasoning", "id": item["id"], "summary": []}
    return [
        _frame("thinking", "response.output_item.added", output_index=place, item=begun),
        *(
            _frame(
                "thinking",
                "response.reasoning_summary_text.delta",
                output_index=place,
                summary_index=0,
                delta=piece,
            )
            for piece in pieces(reply.thinking, reply.chunk_size)
        ),
        _frame("thinking", "response.output_item.done", output_index=place, item=item),
    ]


def _message(place: int, item: dict[str, Any], reply: ScriptedReply) -> list[Frame]:
    kind = item["content"][0]["type"]
    return [
        _frame("text", "response.output_item.added", output_index=place, item={**item, "content": []}),
        *(
            _frame("text", f"response.{kind}.delta", output_index=place, content_index=0, delta=piece)
            for piece in pieces(reply.text, reply.chunk_size)
        ),
        _frame("text", "response.output_item.done", output_index=place, item=item),
    ]


def _call(place: int, item: dict[str, Any], reply: ScriptedReply) -> list[Frame]:
    deltas = pieces(item["arguments"], reply.chunk_size)
    kind = "response.function_call_arguments"
    return [
        _frame("call", "response.output_item.added", output_index=place, item={**item, "arguments": ""}),
        *(_frame("call", f"{kind}.delta", output_index=place, delta=piece) for piece in deltas),
        _frame("call", f"{kind}.done", output_index=place, arguments=item["arguments"]),
        _frame("call", "response.output_item.done", output_index=place, item=item),
    ]


def _response(reply: ScriptedReply, usage: Usage, model: str) -> dict[str, Any]:
    is_cut = reply.stop_reason == "length"
    return {
        "id": "resp_1",
        "object": "response",
        "model": model,
        "status": "incomplete" if is_cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
        "output": _items(reply),
        "usage": {
            "input_tokens": usage.input_tokens,
            "input_tokens_details": {"cached_tokens": usage.cached_tokens},
            "output_tokens": usage.output_tokens,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
            "total_tokens": usage.total_tokens,
        },
    }
