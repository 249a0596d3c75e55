"""The parts that a document is made of. They hold text, never markup: writing it down safely is for
`markdown` and `html`."""

from __future__ import annotations

from typing import Literal

import msgspec

PICTURE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp", "image/svg+xml")
Tone = Literal["", "good", "bad", "doubt", "quiet"]


class Mono(msgspec.Struct, frozen=True):
    """Text that is a name, a command or a hash."""

    text: str


class Toned(msgspec.Struct, frozen=True):
    """A word with a judgement in it."""

    text: str
    tone: Tone


class Link(msgspec.Struct, frozen=True):
    """A way to another document that lies beside this one; `to` is its path from here."""

    text: str
    to: str


Span = str | Mono | Toned | Link
Spans = tuple[Span, ...]


class Heading(msgspec.Struct, frozen=True):
    text: str
    level: int = 2


class Banner(msgspec.Struct, frozen=True):
    """What must be read before everything else."""

    title: str
    text: str
    tone: Tone
    notes: tuple[Spans, ...] = ()


class Paragraph(msgspec.Struct, frozen=True):
    spans: Spans
    tone: Tone = ""


class Items(msgspec.Struct, frozen=True):
    items: tuple[Spans, ...]


class Table(msgspec.Struct, frozen=True):
    """`numbers` are the columns that hold figures, by their place."""

    head: tuple[str, ...]
    rows: tuple[tuple[Spans, ...], ...]
    numbers: frozenset[int] = frozenset()


def row(*cells: Span | Spans) -> tuple[Spans, ...]:
    """A row of a table; a cell is one span or several."""
    return tuple(cell if isinstance(cell, tuple) else (cell,) for cell in cells)


def more(count: int, what: str, command: str = "") -> tuple[Paragraph, ...]:
    """How many are not shown, and the command that shows them; nothing when there are none."""
    where: Spans = (f"{count:,} {what}: ", Mono(command)) if command else (f"{count:,} {what}.",)
    return (Paragraph(where, "quiet"),) if count > 0 else ()


def slim(head: tuple[str, ...], rows: tuple[tuple[Spans, ...], ...], numbers: frozenset[int]) -> Table:
    """A table without the columns in which nothing stands."""
    kept = [place for place in range(len(head)) if any(map(_is_filled, (row[place] for row in rows)))]
    return Table(
        tuple(head[place] for place in kept),
        tuple(tuple(row[place] for place in kept) for row in rows),
        frozenset(new for new, place in enumerate(kept) if place in numbers),
    )


def _is_filled(cell: Spans) -> bool:
    return any(span if isinstance(span, str) else span.text for span in cell)


class Quote(msgspec.Struct, frozen=True):
    """What somebody said, word for word. `is_markdown` when its own lists and code should be seen as such."""

    text: str
    is_markdown: bool = False


class OutputBlock(msgspec.Struct, frozen=True):
    """What a program printed, or wrote in a language."""

    text: str
    language: str = "text"


class Picture(msgspec.Struct, frozen=True):
    name: str
    media_type: str
    data: bytes


class Collapsible(msgspec.Struct, frozen=True):
    """A part that is opened when it is wanted. Where nothing opens, its title is a heading, at level 0 a bold
    line."""

    title: Spans
    blocks: tuple[Block, ...]
    is_open: bool = False
    level: int = 3


Block = Heading | Banner | Paragraph | Items | Table | Quote | OutputBlock | Picture | Collapsible
