"""The contents of small artifacts as a person wants to see them: pictures, and the first rows of tables."""

from __future__ import annotations

import csv
import itertools
from typing import Any

import msgspec

from mainspring.events.decoding import DECODE_ERRORS

ROWS, COLUMNS, CELL = 8, 8, 80
PICTURES = ("image/png", "image/jpeg", "image/svg+xml")
_SIGNATURES = {"image/png": b"\x89PNG\r\n\x1a\n", "image/jpeg": b"\xff\xd8\xff"}


class Preview(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The first of a table, or a picture."""

    media_type: str = ""
    data: bytes = b""
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    more_rows: int = 0


def preview_of(data: bytes, media_type: str, rows: int = ROWS) -> Preview | None:
    """None when there is nothing to see in it; of a table so many rows."""
    if media_type in PICTURES:
        if not data.startswith(_SIGNATURES.get(media_type, b"")):
            return None
        return Preview(media_type=media_type, data=data)
    if media_type == "text/csv":
        return _csv(data.decode("utf-8", "replace"), rows)
    if media_type == "application/json":
        return _json(data)
    return None


def _csv(text: str, most: int) -> Preview | None:
    lines = text.lstrip("\ufeff").splitlines()
    first = lines[0] if lines else ""
    separator = max(",;\t", key=first.count)
    try:
        rows = list(itertools.islice(csv.reader(lines, delimiter=separator), most + 1))
    except csv.Error:
        return None
    rows = [row for row in rows if row]
    if not rows:
        return None
    head, *rest = rows
    more = max(sum(1 for line in lines if line.strip()) - 1 - len(rest), 0)
    return _table(head, [list[Any](row) for row in rest], more)


def _json(data: bytes) -> Preview | None:
    try:
        found: Any = msgspec.json.decode(data)
    except DECODE_ERRORS:
        return None
    if isinstance(found, dict):
        items: list[tuple[Any, Any]] = list(found.items())  # pyright: ignore[reportUnknownArgumentType,reportUnknownVariableType]
        return _table(["name", "value"], [[name, value] for name, value in items[:ROWS]], len(items) - ROWS)
    if not isinstance(found, list):
        return None
    values: list[Any] = found  # pyright: ignore[reportUnknownVariableType]
    shown, more = values[:ROWS], len(values) - ROWS
    records: list[dict[str, Any]] = [each for each in shown if isinstance(each, dict)]
    if not shown or len(records) != len(shown):
        return _table(["value"], [[each] for each in shown], more) if shown else None
    names = list(dict.fromkeys(name for each in records for name in each))
    return _table(names, [[each.get(name, "") for name in names] for each in records], more)


def _table(head: list[str], rows: list[list[Any]], more: int) -> Preview:
    width = min(len(head), COLUMNS)
    names = [_cell(name) for name in head[:width]]
    if len(head) > width:
        names[-1] = f"{names[-1]} (and {len(head) - width} columns more)"
    cells = ([_cell(value) for value in row[:width]] for row in rows)
    padded = ((*row, *[""] * (width - len(row))) for row in cells)
    return Preview(head=tuple(names), rows=tuple(padded), more_rows=max(more, 0))


def _cell(value: object) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    text = " ".join(text.split())
    return text if len(text) <= CELL else f"{text[: CELL - 1]}…"
