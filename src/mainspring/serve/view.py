"""Events as the page shows them: parts with a kind, a title and a tree of text. One table by type of event;
what stands in none of its rows is the line that every face has for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

import msgspec

from mainspring.documents.call_lines import call_line
from mainspring.documents.figures import when
from mainspring.documents.lines import as_text, attachment_lines, change_line, ended_line
from mainspring.events import (
    AssistantSaid,
    Blob,
    CallAsked,
    CallEnded,
    CallStarted,
    Event,
    FilesChanged,
    Media,
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
from mainspring.journal import JournalReader
from mainspring.secrets.screen import plain
from mainspring.serve.markdown_tree import Node, tree_of

_SHOWN = 4000
_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
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
    pictures: list[Blob] = []


class ViewRow(msgspec.Struct, frozen=True, kw_only=True):
    seq: int
    time: str
    parts: list[Part]


def view_of(recorded: Recorded) -> ViewRow:
    row = _row(recorded)
    return msgspec.structs.replace(row, parts=[_cut(part) for part in row.parts])


async def whole_view(recorded: Recorded, reader: JournalReader) -> ViewRow:
    """The same, and of a result also what the model was not told."""
    row, event = _row(recorded), recorded.event
    if isinstance(event, CallEnded) and event.full is not None:
        text = plain((await reader.get(event.full)).decode("utf-8", "replace"))
        return msgspec.structs.replace(row, parts=[msgspec.structs.replace(row.parts[0], text=text)])
    return row


def _row(recorded: Recorded) -> ViewRow:
    parts = _PARTS.get(type(recorded.event), _line)
    return ViewRow(seq=recorded.seq, time=when(recorded.time_us), parts=list(parts(recorded.event)))


def _cut(part: Part) -> Part:
    if len(part.text) <= _SHOWN:
        return part
    return msgspec.structs.replace(part, text=part.text[:_SHOWN], is_cut=True)


def _pictures(media: Iterable[Media]) -> list[Blob]:
    return [each.blob for each in media if each.blob.media_type in _PICTURES]


def _line(event: Event) -> Iterator[Part]:
    if text := as_text(event).strip():
        yield Part(kind="line", title=text)


def _nothing(_: Event) -> Iterator[Part]:
    return iter(())


def _user(event: UserSaid) -> Iterator[Part]:
    yield Part(
        kind="user",
        tree=tree_of(event.text),
        text="\n".join(attachment_lines(event.media)),
        pictures=_pictures(event.media),
    )


def _assistant(event: AssistantSaid) -> Iterator[Part]:
    for part in event.parts:
        match part:
            case Text() if part.text.strip():
                yield Part(kind="text", tree=tree_of(part.text))
            case Thinking() if part.text:
                yield Part(kind="thinking", title="thinking", text=part.text)
            case CallAsked():
                yield Part(kind="call", title=call_line(part).strip(), call=part.call, text=part.arguments)
            case _:
                pass


def _ended(event: CallEnded) -> Iterator[Part]:
    code = "" if event.exit_code is None else f", exit code {event.exit_code}"
    tone = "good" if event.outcome == "ok" and not event.exit_code else "bad"
    yield Part(
        kind="result",
        title=f"{event.outcome}{code}",
        call=event.call,
        tone=tone,
        text=event.output or "",
        is_cut=event.full is not None,
        pictures=_pictures(event.media),
    )


def _files(event: FilesChanged) -> Iterator[Part]:
    lines = [change_line(change) for change in event.changes]
    yield Part(
        kind="files", title=", ".join(lines[:5]) + (" …" if len(lines) > 5 else ""), text="\n".join(lines)
    )


def _end(event: TurnEnded) -> Iterator[Part]:
    tone = "good" if event.ending == "done" else "bad" if event.ending == "failed" else "doubt"
    yield Part(kind="end", title=ended_line(event).strip(), tone=tone)


def _delta(event: TextDelta | ThinkingDelta | StatusDelta) -> Iterator[Part]:
    kind: Kind = (
        "text" if isinstance(event, TextDelta) else "thinking" if isinstance(event, ThinkingDelta) else "line"
    )
    yield Part(kind=kind, text=event.text)


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
