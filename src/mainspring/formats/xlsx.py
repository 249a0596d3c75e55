"""The sheets of an XLSX as tables with the names of rows and columns: values, and beside them formulas."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree as ET

from mainspring.formats import DocumentError, module
from mainspring.formats.archive import Archive, relation_of
from mainspring.formats.table import row_line

_MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_WORKBOOK = "xl/workbook.xml"
_MAX_COLUMNS = 200
_CELL = re.compile(r"([A-Z]{1,3})([1-9]\d{0,6})")


def xlsx_parts(data: bytes) -> Iterator[tuple[str, str]]:
    archive = Archive(data)
    calamine = module("python_calamine")
    try:
        book = calamine.CalamineWorkbook.from_filelike(io.BytesIO(data))
        formulas = dict(_sheet_parts(archive))
        names = book.sheet_names
        for number, name in enumerate(names, 1):
            sheet = book.get_sheet_by_name(name)
            found = _formulas(archive, formulas.get(name, ""))
            text = "\n".join(_rows(sheet, found))
            yield f"sheet {number} of {len(names)}: {name}", text or "(the sheet is empty)"
    except calamine.CalamineError as error:
        raise DocumentError(f"the file is broken: {error}") from error


def _rows(sheet: Any, formulas: dict[tuple[int, int], str]) -> Iterator[str]:
    """Also the cells of formulas that nobody has computed yet."""
    (top, left), (bottom, right) = sheet.start or (0, 0), sheet.end or (-1, -1)
    values = sheet.to_python(skip_empty_area=True)
    rows, columns = zip(*formulas, strict=True) if formulas else ((), ())
    last = max(right, *columns, -1)
    first = min((*((left,) if right >= 0 else ()), *columns), default=0)
    shown = range(first, min(last + 1, first + _MAX_COLUMNS))
    if not shown:
        return
    yield row_line(("", *map(column_name, shown)))
    yield row_line(("---", *("---" for _ in shown)))
    for row in sorted({*range(top, bottom + 1), *rows}):
        known = values[row - top] if top <= row <= bottom else ()
        of_row = dict(enumerate(known, left))
        cells = [_cell(of_row.get(column, ""), formulas.get((row, column), "")) for column in shown]
        if any(cells):
            yield row_line((str(row + 1), *cells))
    if last - first >= _MAX_COLUMNS:
        yield f"({last - first + 1 - _MAX_COLUMNS} more columns are not shown)"


def _cell(value: object, formula: str) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        value = int(value)
    shown = str(value)
    return f"{shown} (={formula})".lstrip() if formula else shown


def column_name(index: int) -> str:
    """A, B … Z, AA …"""
    name, left = "", index + 1
    while left:
        left, last = divmod(left - 1, 26)
        name = chr(ord("A") + last) + name
    return name


def column_index(name: str) -> int:
    index = 0
    for letter in name:
        index = index * 26 + ord(letter) - ord("A") + 1
    return index - 1


def _sheet_parts(archive: Archive) -> Iterator[tuple[str, str]]:
    relations = archive.relations(_WORKBOOK)
    for sheet in archive.xml(_WORKBOOK).iter(f"{_MAIN}sheet"):
        yield sheet.get("name", ""), relations.get(relation_of(sheet), "")


def _formulas(archive: Archive, part: str) -> dict[tuple[int, int], str]:
    """By row and column, from 0; where many cells share one, it stands at the first."""
    if part not in archive.names or b"<f" not in (data := archive.read(part)):
        return {}
    found: dict[tuple[int, int], str] = {}
    try:
        for _, element in ET.iterparse(io.BytesIO(data)):  # noqa: S314 - without entities
            if element.tag == f"{_MAIN}c":
                formula = element.find(f"{_MAIN}f")
                place = _CELL.fullmatch(element.get("r", ""))
                if formula is not None and formula.text and place:
                    found[int(place[2]) - 1, column_index(place[1])] = formula.text
                element.clear()
    except ET.ParseError as error:
        raise DocumentError(f"the file is broken: {part}: {error}") from error
    return found
