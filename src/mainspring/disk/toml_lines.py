"""In which line of a TOML file a key stands. The parser of the standard library does not say."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any, cast

from mainspring.disk.settings_errors import join_key

_MAX_LINES = 200
"""Lines of one statement, such as a list over several lines."""
_GOES_ON = ("[", '"""', "'''")
"""One of these stands in the first line of every statement that has several."""
_MAX_SEARCHED_LINES = 2000


def line_of(text: str, key: str) -> int | None:
    """The line, counted from 1, in which a key (`caps.turn.usd`) is set; else that of the nearest table above
    it. None when there is none."""
    lines: dict[str, int] = {}
    for line, _, path, _ in _statements(text):
        for count in range(1, len(path) + 1):
            lines.setdefault(_joined(path[:count]), line)
    while key:
        if key in lines:
            return lines[key]
        key = _parent(key)
    return None


def find_repeated(text: str) -> tuple[str, int, int] | None:
    """The first key or table that is set a second time, with the line of that and the line where it was set
    before; None when there is none, or when looking would take long."""
    lines = text.splitlines()
    set_at: dict[tuple[tuple[str, int], ...], int] = {}
    entries: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    for line, _, path, is_table in _statements(text) if len(lines) <= _MAX_SEARCHED_LINES else ():
        said = lines[line - 1].lstrip()
        if is_table:
            table = path
        else:
            path = (*table, *_written_key(said, path[len(table) :]))
        if said.startswith("[["):  # of which there may be several
            entries[path] = entries.get(path, 0) + 1
            continue
        place = tuple((part, entries.get(path[:count], 0)) for count, part in enumerate(path, start=1))
        if (before := set_at.setdefault(place, line)) != line:
            return _joined(path), line, before
        while not is_table and len(place := place[:-1]) and place not in set_at:
            set_at[place] = line
    return None


def _written_key(statement: str, path: tuple[str, ...]) -> tuple[str, ...]:
    """The key of a statement, without those of a table that is its value."""
    try:
        return parse_key(statement.partition("=")[0])
    except ValueError:  # a name in quotes that holds such a sign
        return path


def end_of_keys(text: str) -> int:
    """After how many lines the last key stands that is in no table; 0 when there is none."""
    end = 0
    for line, count, path, is_table in _statements(text):
        if is_table:
            break
        end = line - 1 + count if path else end
    return end


def parse_key(key: str) -> tuple[str, ...]:
    """The parts of a dotted key as it is written in TOML; `ValueError` when it is none."""
    if not key.strip() or "\n" in key or "=" in key:
        raise ValueError(key)
    return _path(tomllib.loads(f"{key} = 0"))


def _statements(text: str) -> Iterator[tuple[int, int, tuple[str, ...], bool]]:
    """Each header and each key: its line, how many lines it has, its full path, whether it is a header."""
    table: tuple[str, ...] = ()
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        content, used = _statement(lines[at : at + _MAX_LINES])
        path = _path(content) if content else ()
        if path and lines[at].lstrip().startswith("["):
            table = path
            yield at + 1, used, table, True
        elif path:
            yield at + 1, used, (*table, *path), False
        at += used


def _statement(lines: list[str]) -> tuple[dict[str, Any], int]:
    """The statement that begins with the first line, and how many lines it has."""
    most = len(lines) if any(mark in lines[0] for mark in _GOES_ON) else 1
    for count in range(1, most + 1):
        try:
            return tomllib.loads("\n".join(lines[:count])), count
        except (tomllib.TOMLDecodeError, RecursionError):
            continue
    return {}, 1


def _path(content: dict[str, Any]) -> tuple[str, ...]:
    """The keys down to the value of one statement."""
    path: list[str] = []
    inner: object = content
    while isinstance(inner, dict) and len(cast("dict[str, object]", inner)) == 1:
        ((key, inner),) = cast("dict[str, object]", inner).items()
        path.append(key)
    return tuple(path)


def _joined(path: tuple[str, ...]) -> str:
    key = ""
    for part in path:
        key = join_key(key, part)
    return key


def _parent(key: str) -> str:
    try:
        return _joined(parse_key(key)[:-1])
    except ValueError:
        return ""
