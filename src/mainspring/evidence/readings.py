"""Measurements as agents and programs write them: `METRIC name=value unit` lines, JSON and CSV files, and
`PARAM name=value` lines about what they were made with.

Everything is bounded and nothing raises: what cannot be used becomes a note. NaN, infinity
and what comes near it are no results. Pure.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any, cast

import msgspec

from mainspring.events import Measurement, Parameter, ResultFile

MAX_VALUES = 10_000
MAX_BYTES = 2_000_000
_MAX_NOTES = 20
_MAX_PARAMETERS = 50
_MAX_DEPTH = 4
_MAX_COLUMNS = 1000
_MAX_TITLE = 120
_MAX_UNIT = 20
_LARGEST = 1e150  # so that it can be squared
_NAME = r"[A-Za-z_][\w./-]{0,79}"
_VALUE = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_LINE = re.compile(rf"METRIC\s+({_NAME})\s*=\s*({_VALUE}|[+-]?(?:nan|inf(?:inity)?))(.*)", re.IGNORECASE)
_PARAMETER = re.compile(rf"PARAM\s+({_NAME})\s*=\s*(\S.{{0,79}})")
_UNIT = re.compile(r"\s*\[([^\[\]\s]{1,20})\]|\s*([^\d\s\[\],;=][^\s\[\],;=]{0,19})")
_HEADER = re.compile(r"(.*?)\s*[\[(]([^\[\]()]{1,20})[\])]")


class Readings(msgspec.Struct, frozen=True):
    """What was read; `notes` say what was not, and why. Of a file, `rows` is how many it has now, new or not,
    and `rows_sha256` their hash."""

    values: tuple[Measurement, ...] = ()
    notes: tuple[str, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    rows: int = 0
    rows_sha256: str = ""


class _Reader:
    def __init__(self, source: str, asked: Collection[str] = (), *, is_declared: bool = True) -> None:
        self._source = _printable(source)
        self._asked = asked
        self._is_declared = is_declared
        self._values: list[Measurement] = []
        self._notes: dict[str, None] = {}
        self._parameters: dict[Parameter, None] = {}
        self._rows, self._rows_sha256 = 0, ""

    def new_rows(self, rows: Sequence[object], known: ResultFile | None) -> int:
        """The place of the first row that is new: after those that are known, when they are as they were."""
        hashed, at_known = hashlib.sha256(), ""
        for number, row in enumerate(rows, 1):
            hashed.update(json.dumps(row, sort_keys=True).encode("utf-8", "replace") + b"\n")
            if known and number == known.rows:
                at_known = hashed.hexdigest()
        self._rows, self._rows_sha256 = len(rows), hashed.hexdigest()
        return known.rows if known and at_known == known.rows_sha256 != "" else 0

    def parameter(self, name: str, value: str) -> None:
        if len(self._parameters) < _MAX_PARAMETERS:
            self._parameters[Parameter(name=_printable(name), value=_printable(value))] = None

    def take(self, metric: str, value: float, unit: str = "") -> None:
        name = _printable(" ".join(metric[:_MAX_TITLE].split()))[:80] or "value"
        if not self._is_declared and name not in self._asked:
            return
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
        return Readings(
            tuple(self._values),
            tuple(self._notes),
            parameters=tuple(self._parameters),
            rows=self._rows,
            rows_sha256=self._rows_sha256,
        )


def read_lines(text: str, source: str = "") -> Readings:
    """The METRIC and PARAM lines of a text; each stands alone on its line."""
    reader = _Reader(source)
    for line in text.splitlines():
        line = line.strip()
        if parameter := _PARAMETER.fullmatch(line) if line.startswith("PARAM ") else None:
            reader.parameter(parameter[1], parameter[2])
        if not line.startswith("METRIC "):
            continue
        found = _LINE.fullmatch(line) if len(line) <= 300 else None
        unit = _UNIT.fullmatch(found[3]) if found and found[3].strip() else None
        if found is None or (found[3].strip() and unit is None):
            reader.note(f"`{line[:80]}` is not `METRIC name=value unit`")
            continue
        reader.take(found[1], float(found[2]), (unit[1] or unit[2]) if unit else "")
    return reader.readings()


def read_file(
    name: str,
    data: bytes,
    asked: Collection[str] = (),
    *,
    is_declared: bool = True,
    known: ResultFile | None = None,
) -> Readings:
    """The numbers in a result file, by the ending of its name; other files have none. Every number counts in
    one that is declared, with room for the metrics that are `asked` for behind as many others; else only
    those. Rows that are `known` from an earlier look are left out."""
    ending = name.rpartition(".")[2].lower()
    if ending not in ("json", "jsonl", "csv", "tsv"):
        return Readings()
    reader = _Reader(name, asked, is_declared=is_declared)
    if len(data) > MAX_BYTES:
        reader.note(f"it is larger than {MAX_BYTES // 1_000_000} MB")
        return reader.readings()
    text = data.decode("utf-8-sig", "replace")
    if ending in ("csv", "tsv"):
        _read_csv(reader, text, known)
    else:
        whole = text if ending == "json" else f"[{','.join(filter(None, text.splitlines()))}]"
        _read_json(reader, whole, known)
    return reader.readings()


def _printable(text: str) -> str:
    """Without what no journal keeps and no terminal should show, such as half a surrogate pair."""
    return text if text.isprintable() else "".join(sign if sign.isprintable() else "?" for sign in text)


def _read_json(reader: _Reader, text: str, known: ResultFile | None) -> None:
    try:
        found = json.loads(text)
        if isinstance(found, list):
            rows = cast("list[object]", found)
            found = rows[reader.new_rows(rows, known) :]
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


def _read_csv(reader: _Reader, text: str, known: ResultFile | None) -> None:
    first = text.partition("\n")[0]
    delimiter = max("\t;,", key=first.count)
    try:
        rows = list(csv.reader(io.StringIO(text), delimiter=delimiter))
    except csv.Error as error:
        reader.note(f"it is not CSV: {error}"[:120])
        return
    if len(rows) < 2:
        reader.new_rows(rows, known)
        return
    if len(rows[0]) > _MAX_COLUMNS:
        reader.note(f"it has more than {_MAX_COLUMNS:,} columns; the first count")
    header = [cell[:_MAX_TITLE].strip() for cell in rows[0][:_MAX_COLUMNS]]
    lower = [cell.lower() for cell in header]
    new = rows[max(reader.new_rows(rows, known), 1) :]
    if "metric" in lower and "value" in lower:
        _read_long(reader, lower, new)
        return
    for title, column in zip(header, _columns(new, len(header)), strict=True):
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
