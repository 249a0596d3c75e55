"""What language servers say about places, symbols and edits, read without trusting it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from mainspring.checks.server_process import path_in

_KINDS = {
    2: "module",
    5: "class",
    6: "method",
    7: "property",
    8: "field",
    9: "constructor",
    10: "enum",
    11: "interface",
    12: "function",
    13: "variable",
    14: "constant",
    22: "member",
    23: "struct",
    26: "type",
}
_MAX_DEPTH = 8


class Position(msgspec.Struct, order=True, frozen=True):
    """A place in a text: both count from 0, characters in units of UTF-16."""

    line: int
    character: int


class Span(msgspec.Struct, frozen=True):
    start: Position
    end: Position


class Place(msgspec.Struct, frozen=True):
    """A line of a file, counted from 1."""

    path: str
    line: int


class TextEdit(msgspec.Struct, frozen=True, rename="camel"):
    range: Span
    new_text: str


class _Location(msgspec.Struct, rename="camel"):
    uri: str = ""
    range: Span | None = None
    target_uri: str = ""
    target_selection_range: Span | None = None


class _Symbol(msgspec.Struct, rename="camel"):
    name: str
    kind: int = 0
    range: Span | None = None
    location: _Location | None = None
    children: list[_Symbol] | None = None


class _Document(msgspec.Struct):
    uri: str


class _DocumentEdit(msgspec.Struct, rename="camel"):
    text_document: _Document
    edits: list[TextEdit]


class _WorkspaceEdit(msgspec.Struct, rename="camel"):
    changes: dict[str, list[TextEdit]] | None = None
    document_changes: list[_DocumentEdit] | None = None


def places_in(answer: Any) -> list[Place]:
    """Those of an answer, which is a place, a list of them, or nothing."""
    given = msgspec.convert(answer, list[_Location] | _Location | None)
    found = [given] if isinstance(given, _Location) else given or []
    return [
        Place(path_in(each.target_uri or each.uri), span.start.line + 1)
        for each in found
        if (span := each.target_selection_range or each.range)
    ]


def outline_in(answer: Any) -> list[str]:
    """The symbols of a file as lines, indented by what they are in."""
    return list(_outline(msgspec.convert(answer or [], list[_Symbol]), 0))


def edits_in(answer: Any) -> dict[str, list[TextEdit]]:
    """What is to be replaced, by file; raises what msgspec does where files are to be made or moved."""
    given = msgspec.convert(answer or {}, _WorkspaceEdit)
    if given.document_changes is None:
        return {path_in(uri): edits for uri, edits in (given.changes or {}).items()}
    found: dict[str, list[TextEdit]] = {}
    for each in given.document_changes:
        found.setdefault(path_in(each.text_document.uri), []).extend(each.edits)
    return found


def edited(text: str, edits: Sequence[TextEdit], symbol: str) -> str:
    """The text with a name replaced; raises `ValueError` where edits do not fit it or each other."""
    lines = text.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    spans = sorted(
        (_offset(lines, starts, each.range.start), _offset(lines, starts, each.range.end), each.new_text)
        for each in edits
    )
    parts, at = list[str](), 0
    for start, end, new in spans:
        if not at <= start <= end or text[start:end] not in ("", symbol):
            raise ValueError("it is not what the language server knows")
        parts += [text[at:start], new]
        at = end
    return "".join((*parts, text[at:]))


def utf16_column(text: str, column: int) -> int:
    """What the protocol calls a place in a line."""
    return len(text[:column].encode("utf-16-le")) // 2


def _outline(symbols: Sequence[_Symbol], depth: int) -> Iterator[str]:
    for each in symbols:
        span = each.range or (each.location.range if each.location else None)
        line = f"{span.start.line + 1}: " if span else ""
        yield f"{'  ' * depth}{line}{_KINDS.get(each.kind, 'symbol')} {each.name[:200]}"
        if depth < _MAX_DEPTH:
            yield from _outline(each.children or [], depth + 1)


def _offset(lines: Sequence[str], starts: Sequence[int], place: Position) -> int:
    if not 0 <= place.line < len(lines) or place.character < 0:
        raise ValueError("an edit is outside the text")
    line = lines[place.line].encode("utf-16-le")[: place.character * 2]
    return starts[place.line] + len(line.decode("utf-16-le"))
