"""Reads the plan that an agent keeps, whatever shape its event has: items with a text and a status."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from mainspring.context.values import fields
from mainspring.events import Event

PLAN = "PlanSet"

_TEXTS = ("text", "title", "step", "content", "what", "name")
_DONE = frozenset(
    {"done", "completed", "complete", "finished", "dropped", "cancelled", "canceled", "skipped"}
)


def items(event: Event) -> Iterator[tuple[str, str]]:
    """Each item's text and status."""
    for value in fields(event).values():
        if not isinstance(value, list):
            continue
        for item in cast("list[Any]", value):
            if isinstance(item, str):
                yield item, ""
            elif isinstance(item, dict):
                known = cast("dict[str, Any]", item)
                text = next((str(known[name]) for name in _TEXTS if known.get(name)), "")
                is_done = known.get("is_done") or known.get("done")
                status = str(known.get("status") or known.get("state") or ("done" if is_done else "open"))
                if text:
                    yield text, status
        return


def unfinished_items(event: Event) -> tuple[str, ...]:
    return tuple(text for text, status in items(event) if status.lower() not in _DONE)


def plan_lines(event: Event) -> list[str]:
    """The plan as it is shown: one line for each item."""
    return [f"[{status}] {text}" if status else text for text, status in items(event)]
