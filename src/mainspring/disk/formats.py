"""Versions of the files that we keep: an older one is read, a newer one is refused and left as it is.

A file names its version in `format_version`; one without it counts as version 1. Caches are no matter of this
module: a cache of another version is made again. Files that people write (TOML) may have one too, and a key
of theirs that is not known is named with the nearest one that is.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from mainspring.errors import ConfigError, FileTooNew
from mainspring.events.decoding import DECODE_ERRORS

KEY = "format_version"
_MARK = "\ufeff"  # some editors put it in front of a text
_Kind = TypeVar("_Kind")


class _Versioned(msgspec.Struct):
    format_version: int = 1


_DECODE = msgspec.json.Decoder(_Versioned).decode


def refuse_newer(file: Path | str, version: int, known: int) -> None:
    """`FileTooNew` when a file has a later version than the one that is known."""
    if version > known:
        raise FileTooNew(
            f"{file} has format version {version}, and this program reads up to {known};"
            " the file was left as it is.",
            remedy="Upgrade mainspring.",
        )


def refuse_newer_json(file: Path | str, data: bytes, known: int) -> None:
    """The same for the content of a JSON file. A list has no room for a version and counts as 1; damage is
    for the reader of the file to report."""
    try:
        version = _DECODE(data).format_version
    except DECODE_ERRORS:
        return
    refuse_newer(file, version, known)


def read_toml(text: str, kind: type[_Kind], *, file: Path, known: int) -> _Kind:
    """The content of a file that people write; `ConfigError` when it is not valid."""
    return convert_toml(toml_content(text, file=file, known=known), kind, file=file, text=text)


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of a text; `ValueError` when it is not TOML that can be read."""
    tomllib = import_module("tomllib")  # most have no such file
    try:
        return tomllib.loads(text.removeprefix(_MARK))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def toml_content(text: str, *, file: Path, known: int) -> dict[str, Any]:
    """What stands in such a file, before it is compared with what may stand there."""
    try:
        content = parse_toml(text)
    except ValueError as error:
        found = import_module("mainspring.disk.toml_lines").find_repeated(text)
        said = f"`{found[0]}` is set in line {found[2]} and again (at line {found[1]})" if found else error
        raise ConfigError(f"{file} is not valid: {said}.", remedy="Edit this file.") from error
    version = content.pop(KEY, 1)
    if not isinstance(version, int):
        raise ConfigError(f"{file} is not valid: {KEY} must be a whole number.", remedy="Edit this file.")
    refuse_newer(file, version, known)
    return content


def convert_toml(content: dict[str, Any], kind: type[_Kind], *, file: Path, text: str) -> _Kind:
    """The values of a file; `ConfigError` with the line, in this text, of the first that is wrong."""
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        wrong = next(import_module("mainspring.disk.settings_errors").wrong_settings(content, kind), None)
        said = wrong.said if wrong else f"{error}."
        where = _line(text, wrong.key) if wrong else ""
        raise ConfigError(f"{file} is not valid: {said}{where}", remedy="Edit this file.") from error


def invalid_setting(file: Path, text: str, key: str, said: str) -> ConfigError:
    """The error about a value that has the right type and is wrong all the same."""
    return ConfigError(f"{file} is not valid: `{key}` {said}.{_line(text, key)}", remedy="Edit this file.")


def _line(text: str, key: str) -> str:
    line = import_module("mainspring.disk.toml_lines").line_of(text, key)
    return f" It stands in line {line}." if line else ""
