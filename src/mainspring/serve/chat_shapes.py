"""How the two protocols of OpenAI write one answer: chat completions, and responses. Streamed or whole."""

from __future__ import annotations

import time
from typing import Any, Protocol

import msgspec

from mainspring.events import TurnEnded

_REASONS = {"limit": "length", "budget": "length"}
"""How a turn ended that was cut off."""


class Shape(Protocol):
    """Frames of one answer, in this order; `failure` is set when the turn failed."""

    failure: dict[str, Any] | None

    def begin(self, session: str, after: int) -> None: ...
    def opening(self) -> bytes: ...
    def piece(self, text: str) -> bytes: ...
    def end(self, ended: TurnEnded) -> None: ...
    def closing(self) -> bytes: ...
    def whole(self) -> dict[str, Any]: ...


class _Answer:
    def __init__(self, model: str) -> None:
        self.failure: dict[str, Any] | None = None
        self._model = model
        self._created = int(time.time())
        self._name = ""
        self._text: str = ""
        self._ended: TurnEnded | None = None

    def begin(self, session: str, after: int) -> None:
        self._name = f"{session}_{after}"

    def end(self, ended: TurnEnded) -> None:
        self._ended = ended
        if ended.ending == "failed":
            message = f"{ended.detail} {ended.remedy}".strip() or "The turn failed."
            self.failure = {"message": message, "type": "server_error", "code": "turn_failed"}

    def _usage(self, *names: str) -> dict[str, int]:
        used = self._ended.usage if self._ended else None
        counts = (used.input_tokens, used.output_tokens, used.total_tokens) if used else (0, 0, 0)
        return dict(zip(names, counts, strict=True))


class ChatShape(_Answer):
    def opening(self) -> bytes:
        return self._chunk({"role": "assistant", "content": ""})

    def piece(self, text: str) -> bytes:
        self._text += text
        return self._chunk({"content": text})

    def closing(self) -> bytes:
        if self.failure:
            return _data({"error": self.failure})
        usage = self._usage("prompt_tokens", "completion_tokens", "total_tokens")
        return self._chunk({}, finish_reason=self._reason, usage=usage) + b"data: [DONE]\n\n"

    def whole(self) -> dict[str, Any]:
        if self.failure:
            return {"error": self.failure}
        message = {"role": "assistant", "content": self._text}
        choice = {"index": 0, "message": message, "finish_reason": self._reason}
        usage = self._usage("prompt_tokens", "completion_tokens", "total_tokens")
        return {**self._head("chat.completion"), "choices": [choice], "usage": usage}

    @property
    def _reason(self) -> str:
        return _REASONS.get(self._ended.ending if self._ended else "", "stop")

    def _chunk(self, delta: dict[str, Any], finish_reason: str | None = None, **more: Any) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
        return _data({**self._head("chat.completion.chunk"), "choices": [choice], **more})

    def _head(self, kind: str) -> dict[str, Any]:
        return {
            "id": f"chatcmpl-{self._name}",
            "object": kind,
            "created": self._created,
            "model": self._model,
        }


class ResponsesShape(_Answer):
    def __init__(self, model: str) -> None:
        super().__init__(model)
        self._number = -1

    def opening(self) -> bytes:
        return (
            self._event("response.created", response=self._response("in_progress", []))
            + self._event("response.output_item.added", output_index=0, item=self._item("in_progress", []))
            + self._event("response.content_part.added", **self._place, part=_part(""))
        )

    def piece(self, text: str) -> bytes:
        self._text += text
        return self._event("response.output_text.delta", **self._place, delta=text)

    def closing(self) -> bytes:
        if self.failure:
            return self._event("response.failed", response=self.whole())
        part = _part(self._text)
        return (
            self._event("response.output_text.done", **self._place, text=self._text)
            + self._event("response.content_part.done", **self._place, part=part)
            + self._event("response.output_item.done", output_index=0, item=self._item("completed", [part]))
            + self._event(f"response.{self._status}", response=self.whole())
        )

    def whole(self) -> dict[str, Any]:
        if self.failure:
            return {**self._response("failed", []), "error": self.failure}
        item = self._item("completed", [_part(self._text)])
        usage = self._usage("input_tokens", "output_tokens", "total_tokens")
        return {**self._response(self._status, [item]), "usage": usage}

    @property
    def _status(self) -> str:
        is_cut = self._ended is not None and self._ended.ending in _REASONS
        return "incomplete" if is_cut else "completed"

    @property
    def _place(self) -> dict[str, Any]:
        return {"item_id": f"msg_{self._name}", "output_index": 0, "content_index": 0}

    def _response(self, status: str, output: list[Any]) -> dict[str, Any]:
        return {
            "id": f"resp_{self._name}",
            "object": "response",
            "created_at": self._created,
            "status": status,
            "model": self._model,
            "output": output,
        }

    def _item(self, status: str, content: list[Any]) -> dict[str, Any]:
        return {
            "type": "message",
            "id": f"msg_{self._name}",
            "role": "assistant",
            "status": status,
            "content": content,
        }

    def _event(self, kind: str, **fields: Any) -> bytes:
        self._number += 1
        value = {"type": kind, "sequence_number": self._number, **fields}
        return f"event: {kind}\n".encode() + _data(value)


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": []}


def _data(value: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(value) + b"\n\n"
