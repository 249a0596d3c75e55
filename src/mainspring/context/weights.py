"""What fills a model's window: the parts of the prompt, the tools, and the history by who said it. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from mainspring.context.history import BYTES_PER_TOKEN
from mainspring.context.stubs import size_of, stub
from mainspring.events import (
    AssistantSaid,
    CallEnded,
    Compacted,
    GuardTripped,
    NoteAdded,
    PromptSet,
    Recorded,
    UserSaid,
)


class Weight(msgspec.Struct, frozen=True):
    part: str
    tokens: int
    source: str = ""


def weigh(prompt: PromptSet, compacted: Compacted | None, events: Iterable[Recorded]) -> list[Weight]:
    """About how many tokens each part has."""
    sizes: dict[tuple[str, str], int] = {}
    for part in prompt.parts or ():
        sizes[(f"prompt: {part.name}", part.source)] = part.size
    rest = len(prompt.system) + len(prompt.context) - sum(part.size for part in prompt.parts)
    _add(sizes, "prompt", rest)
    _add(sizes, "tools", len(msgspec.json.encode(prompt.tools)))
    _add(sizes, "summary", len(compacted.summary) if compacted else 0)
    stubbed = frozenset(compacted.stubbed) if compacted else frozenset[int]()
    names: dict[str, str] = {}
    for recorded in events:
        event = (stub(recorded) if recorded.seq in stubbed else recorded).event
        match event:
            case UserSaid():
                _add(sizes, "user", len(event.text))
            case NoteAdded():
                _add(sizes, "notes", len(event.text), event.source)
            case GuardTripped():
                _add(sizes, "notes", 0 if event.is_final else len(event.message), "mainspring")
            case AssistantSaid():
                names |= {call.call: call.name for call in event.calls}
                _add(sizes, "agent: text", len(event.text))
                _add(sizes, "agent: calls", sum(len(call.arguments) for call in event.calls))
            case CallEnded():
                _add(sizes, f"results: {names.get(event.call, 'calls')}", size_of(event))
            case _:
                pass
    return [Weight(part, round(size / BYTES_PER_TOKEN), source) for (part, source), size in sizes.items()]


def _add(sizes: dict[tuple[str, str], int], part: str, size: int, source: str = "") -> None:
    if size > 0:
        sizes[(part, source)] = sizes.get((part, source), 0) + size
