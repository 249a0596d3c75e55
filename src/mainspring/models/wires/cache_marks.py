"""Marks for the cache in chat completions: Claude caches what ends at one, and nothing without any.

As in the Messages protocol they stand on the system prompt and on the last two messages of the user's side.
They are put into a request, never into the bytes of a message that is sent again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import msgspec

from mainspring.models.wires.messages import ENCODER

CACHE_MARK = "cache_control"
_MARKS = 2
_SIDES = ("user", "tool")


def marked_for_cache(messages: Sequence[bytes]) -> Sequence[bytes]:
    """The messages with a mark on the last two that are not the model's."""
    marked, left = list(messages), _MARKS
    for position in range(len(marked) - 1, -1, -1):
        if not left:
            break
        with_mark = with_cache_mark(marked[position], _SIDES)
        left -= with_mark != marked[position]
        marked[position] = with_mark
    return marked


def with_cache_mark(message: bytes, roles: Sequence[str] = ("system",)) -> bytes:
    """An encoded message, or several, with a mark on its last text; unchanged when of another role."""
    fields = msgspec.json.decode(b"[" + message + b"]", type=list[dict[str, Any]])
    last = fields[-1]
    content: Any = last.get("content")
    if last.get("role") not in roles or not content:
        return message
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else cast("list[Any]", content)
    if parts[-1].get("type") != "text":
        return message
    last["content"] = [*parts[:-1], {**parts[-1], CACHE_MARK: {"type": "ephemeral"}}]
    return b",".join(ENCODER.encode(each) for each in fields)
