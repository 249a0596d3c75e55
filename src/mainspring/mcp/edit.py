"""Adds servers to `config.toml` or to `.mcp.json`, and takes them out; everything else stays as it stands."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from mainspring.disk.files import locked, make_folder, write_private
from mainspring.disk.untrusted import read_untrusted_text
from mainspring.errors import ConfigError, UsageError
from mainspring.mcp.entries import parse_entries
from mainspring.mcp.settings import McpServerSettings

_MAX_BYTES = 1 << 20
_TABLES = ("mcp", "servers")


def add_to_settings(file: Path, name: str, settings: McpServerSettings) -> None:
    """Writes `[mcp.servers.NAME]`; `UsageError` when there is one."""
    fields: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(settings))
    with locked(file):
        text = _text_of(file)
        if name in _servers(text, file):
            raise UsageError(f"There is a server {name!r} already.", remedy=f"mainspring mcp remove {name}")
        _replace(file, lambda edit: edit.with_value(text, (*_TABLES, name), fields))


def remove_from_settings(file: Path, name: str) -> bool:
    """Takes the tables of a server out; False when there is none."""
    with locked(file):
        text = _text_of(file)
        if name not in _servers(text, file):
            return False
        _replace(file, lambda edit: edit.without_value(text, (*_TABLES, name)))
        return True


def add_to_project(file: Path, name: str, entry: Mapping[str, Any]) -> None:
    """Writes a server into `.mcp.json`."""
    content = _project(file)
    if name in content.setdefault("mcpServers", {}):
        raise UsageError(
            f"{file} has a server {name!r} already.", remedy=f"mainspring mcp remove --project {name}"
        )
    content["mcpServers"][name] = dict(entry)
    _write_project(file, content)


def remove_from_project(file: Path, name: str) -> bool:
    content = _project(file)
    if content.get("mcpServers", {}).pop(name, None) is None:
        return False
    _write_project(file, content)
    return True


def _project(file: Path) -> dict[str, Any]:
    text = _text_of(file)
    if not text:
        return {}
    parse_entries(text, file=str(file))
    return json.loads(text)


def _write_project(file: Path, content: Mapping[str, Any]) -> None:
    file.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _replace(file: Path, change: Callable[[Any], str]) -> None:
    edit = import_module("mainspring.disk.toml_edit")
    try:
        text = change(edit)
    except edit.NotEditable as error:
        raise ConfigError(
            f"{file} writes its servers in a way that cannot be changed from here.",
            remedy="Edit [mcp.servers] in this file.",
        ) from error
    make_folder(file.parent)
    write_private(file, text.encode())


def _servers(text: str, file: Path) -> dict[str, Any]:
    tomllib = import_module("tomllib")
    try:
        return tomllib.loads(text).get("mcp", {}).get("servers", {})
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file} is not valid: {error}.", remedy="Edit this file.") from error


def _text_of(file: Path) -> str:
    try:
        return read_untrusted_text(file, max_bytes=_MAX_BYTES)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}.") from error
