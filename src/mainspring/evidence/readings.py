"""Measurements as agents and programs write them: `METRIC name=value unit` lines, JSON and CSV files.

Everything is bounded and nothing raises: what cannot be used becomes a note. NaN, infinity
and what comes near it are no results. Pure.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Collection, Iterator
from typing import Any, cast

import msgspec

from mainspring.events import Measurement

MAX_VALUES = 10_000
MAX_BYTES = 2_000_000
_MAX_NOTES = 20
_MAX_DEPTH = 4
_MAX_COLUMNS = 1000
_MAX_TITLE = 120
_MAX_UNIT = 20
_LARGEST = 1e150  # so that it can be squared
_NAME = r"[A-Za-z_][\w./-]{0,79}"
_VALUE = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_LINE = re.compile(rf"METRIC\s+({_NAME})\s*=\s*({_VALUE}|[+-]?(?:nan|inf(?:inity)?))(.*)", re.IGNORECASE)
_UNIT = re.compile(r"\s*\[([^\[\]\s]{1,20})\]|\s*([^\d\s\[\],;=][^\s\[\],;=]{0,19})")
_HEADER = re.compile(r"(.*?)\s*[\[(]([^\[\]()]{1,20})[\])]")


class Readings(msgspec.Struct, frozen=True):
    """What was read; `notes` say what was not, and why."""

    values: tuple[Measurement, ...] = ()
    notes: tuple[str, ...] = ()


class _Reader:
    def __init__(self, source: str, asked: Collection[str] = ()) -> None:
        self._source = _printable(source)
        self._asked = asked
        self._values: list[Measurement] = []
        self._notes: dict[str, None] = {}

    def take(self, metric: str, value: float, unit: str = "") -> None:
        name = _printable(" ".join(metric[:_MAX_TITLE].split()))[:80] or "value"
        if not abs(value) <= _LARGEST:
            self.note(f"{name} is {value}, which is no result")
        elif len(self._values) >= MAX_VALUES * (2 if name in self._asked else 1):
            self.note(f"there are more than {MAX_VALUES:,} values")
        else:
            self._values.append(
                Measurement(metric=name, value=value, unit=_printable(unit[:_MAX_UNIT]), source=self._source)
            )

    def note(self, text: str) -> None:
        if len(self._notes) < _MAX_NOTES:
            self._notes[_printable(f"{self._source}: {text}".removeprefix(": "))] = None

    def readings(self) -> Readings:
        return Readings(tuple(self._values), tuple(self._notes))


def read_lines(text: str, source: str = "") -> Readings:
    """The METRIC lines of a text; each stands alone on its line."""
    reader = _Reader(source)
    for line in text.splitlines():
        line = line.strip()
        if not line.startswith("METRIC "):
            continue
        found = _LINE.fullmatch(line) if len(line) <= 300 else None
        unit = _UNIT.fullmatch(found[3]) if found and found[3].strip() else None
        if found is None or (found[3].strip() and unit is None):
            reader.note(f"`{line[:80]}` is not `METRIC name=value unit`")
            continue
        reader.take(found[1], float(found[2]), (unit[1] or unit[2]) if unit else "")
    return reader.readings()


def read_file(name: str, data: bytes, asked: Collection[str] = ()) -> Readings:
    """The numbers in a result file, by the ending of its name; other files have none. There is room for the
    metrics that are `asked` for behind as many others."""
    ending = name.rpartition(".")[2].lower()
    if ending not in ("json", "jsonl", "csv", "tsv"):
        return Readings()
    reader = _Reader(name, asked)
    if len(data) > MAX_BYTES:
        reader.note(f"it is larger than {MAX_BYTES // 1_000_000} MB")
        return reader.readings()
    text = data.decode("utf-8-sig", "replace")
    if ending in ("csv", "tsv"):
        _read_csv(reader, text)
    else:
        _read_json(reader, text if ending == "json" else f"[{','.join(filter(None, text.splitlines()))}]")
    return reader.readings()


def _printable(text: str) -> str:
    """Without what no journal keeps and no terminal should show, such as half a surrogate pair."""
    return text if text.isprintable() else "".join(sign if sign.isprintable() else "?" for sign in text)


def _read_json(reader: _Reader, text: str) -> None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        reader.note(f"it is not JSON: {error}"[:120])
        return
    for name, value, unit in _numbers(found, "", _MAX_DEPTH):
        reader.take(name or "value", value, unit)


def _numbers(found: object, name: str, depth: int) -> Iterator[tuple[str, float, str]]:
    """The numbers of a document: fields by their path, lists as repeats of one."""
    if isinstance(found, int | float) and not isinstance(found, bool):
        yield name, _float(found), ""
    elif isinstance(found, dict) and depth:
        record = cast("dict[str, Any]", found)
        metric, value = record.get("metric", record.get("name")), record.get("value")
        if isinstance(metric, str) and isinstance(value, int | float) and not isinstance(value, bool):
            unit = record.get("unit")
            yield metric, _float(value), unit if isinstance(unit, str) else ""
            return
        for key, inner in record.items():
            yield from _numbers(inner, f"{name}.{key}" if name else str(key), depth - 1)
    elif isinstance(found, list) and depth:
        for inner in cast("list[object]", found):
            yield from _numbers(inner, name, depth - 1)


def _float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _read_csv(reader: _Reader, text: str) -> None:
    first = text.partition("\n")[0]
    delimiter = max("\t;,", key=first.count)
    try:
        rows = list(csv.reader(io.StringIO(text), delimiter=delimiter))
    except csv.Error as error:
        reader.note(f"it is not CSV: {error}"[:120])
        return
    if len(rows) < 2:
        return
    if len(rows[0]) > _MAX_COLUMNS:
        reader.note(f"it has more than {_MAX_COLUMNS:,} columns; the first count")
    header = [cell[:_MAX_TITLE].strip() for cell in rows[0][:_MAX_COLUMNS]]
    lower = [cell.lower() for cell in header]
    if "metric" in lower and "value" in lower:
        _read_long(reader, lower, rows[1:])
        return
    for title, column in zip(header, _columns(rows[1:], len(header)), strict=True):
        cells = [cell.strip() for cell in column]
        numbers = [_number(cell) for cell in cells if cell]
        if title and numbers and None not in numbers:
            named = _HEADER.fullmatch(title)
            for number in numbers:
                reader.take(named[1] if named else title, number or 0.0, named[2] if named else "")


def _columns(rows: list[list[str]], count: int) -> list[list[str]]:
    """The cells of each column; short rows cost no more than what they hold."""
    columns: list[list[str]] = [[] for _ in range(count)]
    for row in rows:
        for column, cell in zip(columns, row, strict=False):
            column.append(cell)
    return columns


def _read_long(reader: _Reader, header: list[str], rows: list[list[str]]) -> None:
    """One measurement in each row."""
    metric, value = header.index("metric"), header.index("value")
    unit = header.index("unit") if "unit" in header else -1
    for row in rows:
        if len(row) > max(metric, value):
            number = _number(row[value].strip())
            if number is None:
                reader.note(f"`{row[value][:40]}` is not a number")
            else:
                reader.take(row[metric], number, row[unit].strip() if 0 <= unit < len(row) else "")


def _number(text: str) -> float | None:
    try:
        return float(text) if "_" not in text else None
    except ValueError:
        return None
