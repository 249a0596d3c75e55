"""A file that is read again and has not changed: says which call showed it, instead of its lines. Asked for
once more, directly or with `again`, the lines are shown. Pure.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from mainspring.context.values import ShownText
from mainspring.errors import PathRefused
from mainspring.events.decoding import DECODE_ERRORS
from mainspring.patterns import lazy_pattern

_LEAST = 400
_LINE = lazy_pattern(r"^ *(\d+)\t", re.MULTILINE)
_MORE = lazy_pattern(r"\n\((\d+) more lines; go on with offset \d+\)\Z")


class _Given(msgspec.Struct):
    path: Any = ""


def unchanged(
    page: str,
    data: bytes,
    path: str,
    earlier: Sequence[ShownText],
    *,
    is_same: Callable[[str], bool],
) -> str:
    """What to say instead of a page of a file; empty when it was not shown, or is not any more. `earlier` has
    the newest first."""
    lines, total = _body(page)
    numbers = _LINE.findall(lines)
    if len(page) < _LEAST or not numbers:
        return ""
    first, last = int(numbers[0]), int(numbers[-1])
    said: set[str] = set()
    for shown in earlier:
        where = ""
        if shown.files and not path.endswith(".ipynb") and _has_lines(shown, data, first, last, is_same):
            where = "in the note from mainspring:files"
        elif shown.tool == "read" and is_same(_path_of(shown.arguments)):
            said.add(shown.text)
            if _contains(shown.text, lines, total):
                where = f"by call {shown.number}"
        if where:
            told = (
                f"Unchanged: lines {first}-{last} of {path} are as they were shown {where}."
                " Read them once more to see them here."
            )
            return "" if told in said else told
    return ""


def _body(page: str) -> tuple[str, int]:
    """The lines of a page, and how many the file has."""
    more = _MORE.search(page)
    lines = page[: more.start()] if more else page
    numbers = _LINE.findall(lines)
    return lines, (int(numbers[-1]) if numbers else 0) + (int(more[1]) if more else 0)


def _contains(shown: str, lines: str, total: int) -> bool:
    earlier, its_total = _body(shown)
    return its_total == total and f"\n{lines}\n" in f"\n{earlier}\n"


def _has_lines(shown: ShownText, data: bytes, first: int, last: int, is_same: Callable[[str], bool]) -> bool:
    for item in shown.files:
        is_whole = not item.first_line
        if (is_whole or item.first_line <= first <= last <= item.last_line) and is_same(item.path):
            return hashlib.sha256(data).hexdigest() == item.sha256
    return False


def _path_of(arguments: str) -> str:
    try:
        path = msgspec.json.decode(arguments, type=_Given).path
    except DECODE_ERRORS:
        return ""
    return path if isinstance(path, str) else ""


def is_file(resolve: Callable[[str], Path], path: Path) -> Callable[[str], bool]:
    """Whether a name is that of this file."""

    def is_same(name: str) -> bool:
        try:
            return bool(name) and resolve(name) == path
        except (OSError, ValueError, PathRefused):
            return False

    return is_same
