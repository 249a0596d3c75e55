"""In which line of a TOML file a key stands. The parser of the standard library does not say."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any, cast

from mainspring.disk.settings_errors import join_key

_MAX_LINES = 200
"""Lines of one statement, such as a list over several lines."""


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
    for count in range(1, len(lines) + 1):
        try:
            return tomllib.loads("\n".join(lines[:count])), count
        except tomllib.TOMLDecodeError:
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
