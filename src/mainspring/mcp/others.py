"""Servers that other programs are set up with: Claude Code, Codex and VS Code. Read as data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, cast, get_args

from mainspring.disk.formats import parse_toml
from mainspring.disk.untrusted import read_untrusted_text
from mainspring.errors import ConfigError
from mainspring.mcp.entries import FileEntry, read_entries, servers_in

OtherProgram = Literal["claude", "codex", "vscode"]
OTHER_PROGRAMS: tuple[OtherProgram, ...] = get_args(OtherProgram)
_MAX_BYTES = 16 << 20


def servers_of(
    program: OtherProgram, *, home: Path, workspace: Path, environment: Mapping[str, str]
) -> tuple[FileEntry, ...]:
    """The servers that a program knows for work in a folder; `ConfigError` when a file is not valid."""
    match program:
        case "claude":
            return _of_claude(home, workspace)
        case "codex":
            return _of_codex(Path(environment.get("CODEX_HOME") or home / ".codex") / "config.toml")
        case "vscode":
            files = (workspace / ".vscode" / "mcp.json", *_vscode_files(home))
            return tuple(entry for file in files for entry in read_entries(file, is_comments=True))


def _vscode_files(home: Path) -> list[Path]:
    folders = (home / ".config", home / "Library" / "Application Support")
    return [folder / name / "User" / "mcp.json" for folder in folders for name in ("Code", "Code - Insiders")]


def _of_claude(home: Path, workspace: Path) -> tuple[FileEntry, ...]:
    file = home / ".claude.json"
    content = _read_json(file)
    local = _table(_table(content.get("projects")).get(str(workspace)))
    tables = [table for table in (local, content) if "mcpServers" in table]
    return tuple(entry for table in tables for entry in servers_in(table, file=str(file)))


def _table(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _read_json(file: Path) -> dict[str, Any]:
    text = _text(file)
    try:
        found: Any = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{file} is not valid JSON: {error}.") from error
    return _table(found)


def _of_codex(file: Path) -> tuple[FileEntry, ...]:
    try:
        content = parse_toml(_text(file))
    except ValueError as error:
        raise ConfigError(f"{file} is not valid: {error}.") from error
    servers = {name: _from_codex(entry) for name, entry in content.get("mcp_servers", {}).items()}
    return servers_in({"mcpServers": servers}, file=str(file))


def _from_codex(entry: Any) -> Any:
    """Codex names variables whose values are headers, and counts time in seconds."""
    if not isinstance(entry, dict):
        return entry
    given = dict(_table(entry))
    headers = dict(given.pop("http_headers", {}))
    headers |= {name: f"${{{variable}}}" for name, variable in given.pop("env_http_headers", {}).items()}
    if variable := given.pop("bearer_token_env_var", ""):
        headers["Authorization"] = f"Bearer ${{{variable}}}"
    if seconds := given.pop("tool_timeout_sec", None):
        given["timeout"] = seconds * 1000
    return {**given, **({"headers": headers} if headers else {})}


def _text(file: Path) -> str:
    try:
        return read_untrusted_text(file, max_bytes=_MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}.") from error
