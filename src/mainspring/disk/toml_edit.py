"""Changes one value in a TOML file, and leaves its comments, order and layout as they are.

What was written is read again and compared with what was wanted, so that a file which is laid out in a way
that cannot be changed is refused and not damaged.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from importlib import import_module
from operator import eq
from typing import Any

from mainspring.disk.toml_lines import end_of_keys


class NotEditable(ValueError):
    """The file is laid out in a way that cannot be changed from here."""


def with_value(text: str, path: Sequence[str], value: object) -> str:
    """The text with a value at a key, which is made with the tables above it where they are missing."""
    wanted = tomllib.loads(text)
    is_new = path[0] not in wanted
    _set(wanted, path, value)
    if is_new and len(path) == 1:
        return _checked(_with_line(text, path[0], value), wanted)
    document = _document(text)
    _set(document, path, value)
    return _checked(document.as_string(), wanted)


def without_value(text: str, path: Sequence[str]) -> str:
    """The text without a key; `KeyError` when it has none."""
    wanted = tomllib.loads(text)
    _delete(wanted, path)
    document = _document(text)
    _delete(document, path)
    return _checked(document.as_string(), wanted, is_same=_same_but_empty)


def value_at(content: Any, path: Sequence[str]) -> Any:
    """The value at a key of read content; `KeyError` when there is none."""
    for part in path:
        if not isinstance(content, dict):
            raise KeyError(part)
        content = content[part]  # pyright: ignore[reportUnknownVariableType]
    return content  # pyright: ignore[reportUnknownVariableType]


def _document(text: str) -> Any:
    return import_module("tomlkit").parse(text)  # it takes 28 ms to load


def _set(content: Any, path: Sequence[str], value: object) -> None:
    *tables, last = path
    for part in tables:
        if part not in content:
            content[part] = {}
        content = content[part]
        if not hasattr(content, "keys"):
            raise NotEditable(part)
    content[last] = value


def _delete(content: Any, path: Sequence[str]) -> None:
    *tables, last = path
    for part in tables:
        content = content[part]
        if not hasattr(content, "keys"):
            raise KeyError(part)
    del content[last]


def _with_line(text: str, key: str, value: object) -> str:
    """The text with one more line after the last key that is in no table: the parser would put it below the
    comment of the first table."""
    document = import_module("tomlkit").document()
    document[key] = value
    lines = text.splitlines(keepends=True)
    at = end_of_keys(text)
    before = "".join(lines[:at])
    gap = "" if not before or before.endswith("\n") else "\n"
    return f"{before}{gap}{document.as_string()}{''.join(lines[at:])}"


def _same_but_empty(found: Any, wanted: Any) -> bool:
    """Whether both say the same; a table that lost its last key may be gone, or stay."""
    return _without_empty(found) == _without_empty(wanted)


def _without_empty(content: Any) -> Any:
    if not isinstance(content, dict):
        return content  # pyright: ignore[reportUnknownVariableType]
    kept = {key: _without_empty(value) for key, value in content.items()}  # pyright: ignore[reportUnknownVariableType]
    return {key: value for key, value in kept.items() if value != {}}  # pyright: ignore[reportUnknownVariableType]


def _checked(text: str, wanted: dict[str, Any], is_same: Callable[[Any, Any], bool] = eq) -> str:
    try:
        is_wanted = is_same(tomllib.loads(text), wanted)
    except tomllib.TOMLDecodeError as error:
        raise NotEditable(str(error)) from error
    if not is_wanted:
        raise NotEditable(text)
    return text
