"""Texts in spans, for those who asked for them: in the form of the semantic conventions, and not endless."""

from __future__ import annotations

import msgspec

from mainspring.events import AssistantSaid, CallAsked, Text

_MOST = 16_000
_STOPS = {"end": "stop", "calls": "tool_call", "length": "length", "refused": "content_filter"}


def cut(text: str) -> str:
    """The text, or its beginning."""
    return text if len(text) <= _MOST else f"{text[:_MOST]} … ({len(text) - _MOST} more characters)"


def said_by_user(text: str) -> str:
    return _messages([{"role": "user", "parts": [{"type": "text", "content": text}]}])


def said_by_model(event: AssistantSaid) -> str:
    """The text and the calls of a reply; what a model thought is not among them."""
    parts: list[dict[str, object]] = []
    for part in event.parts:
        if isinstance(part, Text):
            parts.append({"type": "text", "content": cut(part.text)})
        elif isinstance(part, CallAsked):
            arguments = cut(part.arguments)
            parts.append({"type": "tool_call", "id": part.call, "name": part.name, "arguments": arguments})
    return _messages([{"role": "assistant", "parts": parts, "finish_reason": _STOPS[event.stop]}])


def _messages(messages: list[dict[str, object]]) -> str:
    return msgspec.json.encode(messages).decode()
