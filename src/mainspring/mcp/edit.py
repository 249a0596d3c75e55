"""Adds servers to `config.toml` or to `.mcp.json`, and takes them out, leaving everything else as it stands.

A table is written at the end of the file and removed by its lines. What was written is read again before it
takes the file's place, so that a file which is laid out in another way is refused, not damaged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
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
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def add_to_settings(file: Path, name: str, settings: McpServerSettings) -> None:
    """Writes `[mcp.servers.NAME]`; `UsageError` when there is one."""
    fields: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(settings))
    with locked(file):
        text = _text_of(file)
        before = _servers(text, file)
        if name in before:
            raise UsageError(f"There is a server {name!r} already.", remedy=f"mainspring mcp remove {name}")
        lines = [f"[mcp.servers.{_key(name)}]"]
        lines += [f"{key} = {_value(value)}" for key, value in fields.items()]
        added = f"{text.rstrip()}\n\n" if text.strip() else ""
        _replace(file, added + "\n".join(lines) + "\n", {**before, name: fields})


def remove_from_settings(file: Path, name: str) -> bool:
    """Takes the tables of a server out; False when there is none."""
    with locked(file):
        text = _text_of(file)
        before = _servers(text, file)
        if name not in before:
            return False
        ours = re.compile(rf"\s*\[mcp\.servers\.(?:{re.escape(name)}|{re.escape(_key(name))})(?:\.[^\]]*)?\]")
        kept: list[str] = []
        is_ours = False
        for line in text.splitlines(keepends=True):
            if line.lstrip().startswith("["):
                is_ours = bool(ours.match(line))
            if not is_ours:
                kept.append(line)
        after = {key: value for key, value in before.items() if key != name}
        _replace(file, "".join(kept).rstrip() + "\n", after)
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


def _replace(file: Path, text: str, wanted: Mapping[str, Any]) -> None:
    if _servers(text, file) != wanted:
        raise ConfigError(
            f"{file} writes its servers in a way that cannot be changed from here.",
            remedy="Edit [mcp.servers] in this file.",
        )
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


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else json.dumps(name)


def _value(value: Any) -> str:
    """A value as TOML writes it; strings of JSON are strings of TOML."""
    if isinstance(value, dict):
        pairs = [f"{_key(key)} = {_value(inner)}" for key, inner in value.items()]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        return "{ " + ", ".join(pairs) + " }" if pairs else "{}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"  # pyright: ignore[reportUnknownArgumentType]
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
