"""A session as the blocks of a document for people: what was said, called and changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from mainspring.documents.blocks import (
    PICTURE_TYPES,
    Block,
    Collapsible,
    Heading,
    Items,
    OutputBlock,
    Paragraph,
    Picture,
    Quote,
)
from mainspring.documents.call_lines import call_line
from mainspring.documents.figures import when
from mainspring.documents.lines import as_text, attachment_lines, change_line
from mainspring.events import (
    AssistantSaid,
    Blob,
    CallAsked,
    CallEnded,
    FilesChanged,
    Media,
    Recorded,
    SessionStarted,
    SpendSettled,
    Text,
    Thinking,
    UserSaid,
)
from mainspring.workspace.diffs import unified

Get = Callable[[Blob], bytes]


def transcript(events: Iterable[Recorded], facts: Mapping[str, str], get: Get) -> Iterator[Block]:
    """The blocks, one after the other: a session may be longer than memory."""
    yield Heading(f"Session {facts.get('session', '')}", 1)
    yield Items(tuple((f"{name}: {value}",) for name, value in facts.items()))
    for recorded in events:
        match recorded.event:
            case UserSaid() as said:
                yield Heading("User")
                yield Quote(said.text, is_markdown=True)
                yield from (Paragraph((line.strip(),), "quiet") for line in attachment_lines(said.media))
                yield from _pictures(said.media, get)
            case AssistantSaid() as said:
                yield from _reply(said)
            case CallEnded() as ended:
                code = "" if ended.exit_code is None else f", exit code {ended.exit_code}"
                yield _folded(f"{ended.outcome}{code}", ended.output or "(no output)")
                yield from _pictures(ended.media, get)
            case FilesChanged() as changed:
                yield from _changes(changed, get)
            case SpendSettled() | SessionStarted():
                pass
            case event:
                if text := as_text(event, whole=True):
                    yield Paragraph((f"{when(recorded.time_us)} {text}",), "quiet")


def _reply(said: AssistantSaid) -> Iterator[Block]:
    for part in said.parts:
        match part:
            case Text():
                yield Heading("Assistant")
                yield Quote(part.text, is_markdown=True)
            case Thinking():
                if part.text:
                    yield _folded("thinking", part.text)
            case CallAsked():
                yield _folded(call_line(part), part.arguments, "json")


def _changes(changed: FilesChanged, get: Get) -> Iterator[Block]:
    for change in changed.changes:
        before, after = (
            get(state.blob) if state and state.blob else b"" for state in (change.before, change.after)
        )
        lines = (line.removesuffix("\n") for line in unified(change, before, after))
        diff, title = "\n".join(lines), change_line(change)
        yield _folded(title, diff, "diff") if diff else Paragraph((title,))
    yield from (Paragraph((f"not covered: {note}",), "quiet") for note in changed.not_covered)


def _folded(title: str, text: str, language: str = "text") -> Collapsible:
    return Collapsible((title,), (OutputBlock(text, language),), level=0)


def _pictures(media: Iterable[Media], get: Get) -> Iterator[Picture]:
    for item in media:
        if item.blob.media_type in PICTURE_TYPES:
            yield Picture(item.name or "picture", item.blob.media_type, get(item.blob))
