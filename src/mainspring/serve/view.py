"""Events as the page shows them: parts with a kind, a title and a tree of text. One table by type of event;
what stands in none of its rows is the line that every face has for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

import msgspec

from mainspring.documents.lines import as_text, attachment_lines, call_line, change_line, ended_line, when
from mainspring.events import (
    AssistantSaid,
    CallAsked,
    CallEnded,
    CallStarted,
    Event,
    FilesChanged,
    Recorded,
    SessionStarted,
    SpendReserved,
    SpendSettled,
    StatusDelta,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    TurnEnded,
    TurnStarted,
    UserSaid,
)
from mainspring.serve.markdown_tree import Node, tree_of

_SHOWN = 4000
Kind = Literal["user", "text", "thinking", "call", "result", "files", "line", "end"]


class Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something to show. `text` is folded below the title; `is_cut` says that there is more of it."""

    kind: Kind
    title: str = ""
    tree: list[Node] = []
    text: str = ""
    call: str = ""
    tone: str = ""
    is_cut: bool = False


class ViewRow(msgspec.Struct, frozen=True, kw_only=True):
    seq: int
    time: str
    parts: list[Part]


def view_of(recorded: Recorded) -> ViewRow:
    parts = _PARTS.get(type(recorded.event), _line)
    return ViewRow(seq=recorded.seq, time=when(recorded.time_us), parts=list(parts(recorded.event)))


def _line(event: Event) -> Iterator[Part]:
    if text := as_text(event).strip():
        yield Part(kind="line", title=text)


def _nothing(_: Event) -> Iterator[Part]:
    return iter(())


def _user(event: UserSaid) -> Iterator[Part]:
    yield Part(kind="user", tree=tree_of(event.text), text="\n".join(attachment_lines(event.media)))


def _assistant(event: AssistantSaid) -> Iterator[Part]:
    for part in event.parts:
        match part:
            case Text() if part.text.strip():
                yield Part(kind="text", tree=tree_of(part.text))
            case Thinking() if part.text:
                yield Part(kind="thinking", title="thinking", **_cut(part.text))
            case CallAsked():
                yield Part(kind="call", title=call_line(part).strip(), call=part.call, **_cut(part.arguments))
            case _:
                pass


def _ended(event: CallEnded) -> Iterator[Part]:
    code = "" if event.exit_code is None else f", exit code {event.exit_code}"
    tone = "good" if event.outcome == "ok" and not event.exit_code else "bad"
    yield Part(
        kind="result", title=f"{event.outcome}{code}", call=event.call, tone=tone, **_cut(event.output or "")
    )


def _files(event: FilesChanged) -> Iterator[Part]:
    lines = [change_line(change) for change in event.changes]
    yield Part(
        kind="files", title=", ".join(lines[:5]) + (" …" if len(lines) > 5 else ""), **_cut("\n".join(lines))
    )


def _end(event: TurnEnded) -> Iterator[Part]:
    tone = "good" if event.ending == "done" else "bad" if event.ending == "failed" else "doubt"
    yield Part(kind="end", title=ended_line(event).strip(), tone=tone)


def _delta(event: TextDelta | ThinkingDelta | StatusDelta) -> Iterator[Part]:
    kind: Kind = (
        "text" if isinstance(event, TextDelta) else "thinking" if isinstance(event, ThinkingDelta) else "line"
    )
    yield Part(kind=kind, text=event.text)


def _cut(text: str) -> dict[str, Any]:
    return {"text": text[:_SHOWN], "is_cut": len(text) > _SHOWN}


_PARTS: dict[type[Event], Callable[[Any], Iterator[Part]]] = {
    UserSaid: _user,
    AssistantSaid: _assistant,
    CallStarted: _nothing,
    CallEnded: _ended,
    FilesChanged: _files,
    TurnStarted: _nothing,
    TurnEnded: _end,
    SessionStarted: _nothing,
    SpendReserved: _nothing,
    SpendSettled: _nothing,
    TextDelta: _delta,
    ThinkingDelta: _delta,
    StatusDelta: _delta,
}
