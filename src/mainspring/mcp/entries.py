"""Reads `.mcp.json` and its kin as other tools write them (`mcpServers`, or `servers` of VS Code).

What is wrong is told with the line where it stands. Keys that are not known are left alone: other tools have
more of them.
"""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import msgspec

from mainspring.disk.untrusted import read_untrusted_text
from mainspring.errors import ConfigError
from mainspring.mcp.settings import McpServerSettings
from mainspring.patterns import lazy_pattern

_MAX_BYTES = 1 << 20
_TRANSPORTS = {
    "stdio": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamableHttp": "http",
    "streamable_http": "http",
    "sse": "sse",
}
_COMMENT = lazy_pattern(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)


class FileEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One server of a file; `text` is its entry, in one form for equal content."""

    name: str
    file: str
    text: str
    settings: McpServerSettings


class _Entry(msgspec.Struct, frozen=True, rename="camel"):
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str | int | float | bool] = {}
    url: str = ""
    http_url: str = ""
    server_url: str = ""
    headers: dict[str, str] = {}
    type: str = ""
    transport: str = ""
    timeout: float | None = None
    always_load: bool = False
    disabled: bool = False
    enabled: bool = True


class _Doubled(ValueError):
    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def read_entries(file: Path, *, root: Path | None = None, is_comments: bool = False) -> tuple[FileEntry, ...]:
    """The servers of a file, none when it is not there; `ConfigError` with a line when it is not valid."""
    try:
        text = read_untrusted_text(file, max_bytes=_MAX_BYTES, root=root)
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}.", remedy=_REMEDY) from error
    return parse_entries(
        _COMMENT.sub(lambda found: found[1] or "", text) if is_comments else text, file=str(file)
    )


_REMEDY = "Correct this file, or delete it; its servers are not used until then."


def parse_entries(text: str, *, file: str) -> tuple[FileEntry, ...]:
    json = import_module("json")
    try:
        content: Any = json.loads(text.removeprefix("\ufeff"), object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise ConfigError(f"{file} is not valid JSON: {where}: {error.msg}.", remedy=_REMEDY) from error
    except _Doubled as error:
        line = _line_of(text, error.key, number=2)
        said = f"line {line}: {error.key!r} stands there twice"
        raise ConfigError(f"{file} is not valid: {said}.", remedy="Rename or remove one of them.") from error
    except RecursionError as error:
        raise ConfigError(f"{file} is not valid: it is nested too deeply.", remedy=_REMEDY) from error
    return servers_in(content, file=file, text=text)


def servers_in(content: Any, *, file: str, text: str = "") -> tuple[FileEntry, ...]:
    """The servers that a decoded file names."""
    if not isinstance(content, dict):
        raise ConfigError(f"{file} is not valid: line 1: it must be an object.", remedy=_REMEDY)
    tables = cast("dict[str, Any]", content)
    key = "mcpServers" if "mcpServers" in tables else "servers"
    found = tables.get(key, {})
    if not isinstance(found, dict):
        line = _line_of(text, key)
        raise ConfigError(f"{file} is not valid: line {line}: {key!r} must be an object.", remedy=_REMEDY)
    entries = cast("dict[str, Any]", found)
    return tuple(_entry(name, entry, file=file, text=text) for name, entry in entries.items())


def _entry(name: str, entry: Any, *, file: str, text: str) -> FileEntry:
    try:
        given = msgspec.convert(entry, _Entry)
    except msgspec.ValidationError as error:
        said = f"line {_line_of(text, name)}: the server {name!r}: {error}"
        raise ConfigError(f"{file} is not valid: {said}.", remedy=_REMEDY) from error
    kind = given.type or given.transport
    if kind and kind not in _TRANSPORTS:
        said = f"line {_line_of(text, name)}: the server {name!r} has the unknown type {kind!r}"
        raise ConfigError(f"{file} is not valid: {said}.", remedy="Use stdio, http or sse.")
    canonical = msgspec.json.format(msgspec.json.encode(entry, order="sorted"), indent=2).decode()
    return FileEntry(
        name=name, file=file, text=canonical, settings=_settings(given, _TRANSPORTS.get(kind, ""))
    )


def _settings(given: _Entry, transport: Any) -> McpServerSettings:
    return McpServerSettings(
        command=given.command,
        args=given.args,
        env={name: value if isinstance(value, str) else _as_json(value) for name, value in given.env.items()},
        url=given.url or given.http_url or given.server_url,
        headers=given.headers,
        transport=transport,
        always_load=given.always_load,
        enabled=given.enabled and not given.disabled,
        timeout_s=max(given.timeout / 1000, 0.001) if given.timeout else McpServerSettings().timeout_s,
    )


def _as_json(value: Any) -> str:
    return import_module("json").dumps(value)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _Doubled(key)
        found[key] = value
    return found


def _line_of(text: str, key: str, *, number: int = 1) -> int:
    """The line where a key stands for the first, or a later, time."""
    places = [found.start() for found in re.finditer(re.escape(_as_json(key)) + r"\s*:", text)]
    return text.count("\n", 0, places[min(number, len(places)) - 1]) + 1 if places else 1
