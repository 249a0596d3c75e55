"""Plugins that are folders: commands, agents, skills, hooks and MCP servers as files, in the layout of Claude
Code's plugins (`.claude-plugin/plugin.json` is read when it is there, and not needed).

Here files are read as data. What is in a folder is used once a person approved it as it is: the text of the
approval is all that the folder holds. A folder with links, or with more than can be shown, is refused, and so
is a project's with a repository in it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from mainspring.approvals.trust import TrustSubject
from mainspring.disk.untrusted import read_untrusted
from mainspring.errors import ConfigError
from mainspring.events.decoding import DECODE_ERRORS
from mainspring.mcp.entries import FileEntry, read_entries, servers_in
from mainspring.mcp.settings import FILE_NAME
from mainspring.plugins.loading import is_plugin_name

MANIFEST = Path(".claude-plugin") / "plugin.json"
ROOT_VARIABLES = ("CLAUDE_PLUGIN_ROOT", "MAINSPRING_PLUGIN_ROOT")
_MAX_FILES = 500
_MAX_BYTES = 8 << 20
_SHOWN_BYTES = 32 * 1024
_NOT_SHOWN = frozenset({".git"})

_Paths = str | tuple[str, ...]


class _Manifest(msgspec.Struct, frozen=True, rename="camel"):
    """What we use of `plugin.json`. Paths are added to the usual folders."""

    name: str = ""
    version: str = ""
    description: str = ""
    commands: _Paths = ()
    agents: _Paths = ()
    skills: _Paths = ()
    hooks: str | dict[str, Any] = ""
    mcp_servers: str | dict[str, Any] = ""


class PluginFolder(msgspec.Struct, frozen=True, kw_only=True):
    """`commands`, `agents` and `skills` are folders, `hooks` is a file in the form of settings with hooks.
    `problem` says why it cannot be used."""

    name: str
    path: Path
    is_projects: bool
    version: str = ""
    description: str = ""
    commands: tuple[Path, ...] = ()
    agents: tuple[Path, ...] = ()
    skills: tuple[Path, ...] = ()
    hooks: Path | None = None
    servers: tuple[FileEntry, ...] = ()
    text: str = ""
    problem: str = ""

    @property
    def subject(self) -> TrustSubject:
        return TrustSubject(kind="plugin", path=str(self.path), name=self.name, text=self.text)

    @property
    def variables(self) -> dict[str, str]:
        """What stands for the folder in its own files."""
        return dict.fromkeys(ROOT_VARIABLES, str(self.path))


def find_folders(shelves: Mapping[Path, bool]) -> list[PluginFolder]:
    """The plugins in these folders, the first of a name; a folder's value says whether it is a project's."""
    found: dict[str, PluginFolder] = {}
    for shelf, is_projects in shelves.items():
        for path in sorted(shelf.iterdir()) if shelf.is_dir() else ():
            if path.is_dir() and not path.name.startswith("."):
                read = read_folder(path, is_projects=is_projects)
                found.setdefault(read.name, read)
    return list(found.values())


def read_folder(path: Path, *, is_projects: bool = False) -> PluginFolder:
    """What a folder holds; one whose files are as they were is not read again by the same process."""
    return _read_folder(path, is_projects, _state(path))


def _state(path: Path) -> tuple[tuple[str, int, int, int], ...]:
    """What changes when a file does: inode, size, and the time of its last change, which nobody can set."""
    found: list[tuple[str, int, int, int]] = []
    for folder, folders, files in os.walk(path):
        names = (*sorted(folders), *files)
        folders[:] = sorted(set(folders) - _NOT_SHOWN)
        for name in names:
            place = os.path.join(folder, name)  # noqa: PTH118 - asked by every session
            status = os.lstat(place)
            found.append((place, status.st_ino, status.st_size, status.st_ctime_ns))
        if len(found) > 2 * _MAX_FILES:
            break
    return tuple(found)


@lru_cache(maxsize=256)
def _read_folder(path: Path, is_projects: bool, _: tuple[tuple[str, int, int, int], ...]) -> PluginFolder:  # noqa: FBT001
    name = path.name
    try:
        text = _text_of(path, is_projects=is_projects)
        manifest = _manifest(path)
        name = manifest.name or path.name
        if not is_plugin_name(name):
            raise ConfigError("its name must have lower-case letters, digits and hyphens, at most 64")
        return PluginFolder(
            name=name,
            path=path,
            is_projects=is_projects,
            version=manifest.version,
            description=manifest.description,
            commands=tuple(_places(path, "commands", manifest.commands)),
            agents=tuple(_places(path, "agents", manifest.agents)),
            skills=tuple(_places(path, "skills", manifest.skills)),
            hooks=_hooks(path, manifest),
            servers=_servers(path, manifest),
            text=text,
        )
    except (ConfigError, OSError) as error:
        problem = error.message if isinstance(error, ConfigError) else str(error.strerror or error)
        return PluginFolder(name=name, path=path, is_projects=is_projects, problem=problem.rstrip("."))


def _manifest(path: Path) -> _Manifest:
    try:
        return msgspec.json.decode(_read(path, path / MANIFEST), type=_Manifest)
    except FileNotFoundError:
        return _Manifest()
    except DECODE_ERRORS as error:
        raise ConfigError(f"{MANIFEST} is not valid: {error}") from error


def _places(path: Path, usual: str, more: _Paths) -> Iterator[Path]:
    for name in dict.fromkeys((usual, *((more,) if isinstance(more, str) else more))):
        place = Path(os.path.normpath(path / name))
        if not place.is_relative_to(path):
            raise ConfigError(f"{MANIFEST} names {name}, which is outside the plugin")
        if not _NOT_SHOWN.isdisjoint(part.casefold() for part in place.relative_to(path).parts):
            raise ConfigError(f"{MANIFEST} names {name}, which is not shown to whoever approves the plugin")
        if place.exists():
            yield place


def _hooks(path: Path, manifest: _Manifest) -> Path | None:
    if isinstance(manifest.hooks, dict):
        return path / MANIFEST
    return next(_places(path, manifest.hooks or "hooks/hooks.json", ()), None)


def _servers(path: Path, manifest: _Manifest) -> tuple[FileEntry, ...]:
    given = manifest.mcp_servers
    if isinstance(given, dict):
        content = given if "mcpServers" in given else {"mcpServers": given}
        return servers_in(content, file=str(path / MANIFEST))
    files = _places(path, FILE_NAME, given or ())
    return tuple(entry for file in files for entry in read_entries(file, root=path))


def _text_of(path: Path, *, is_projects: bool) -> str:
    """All that is in the folder, as a person approves it."""
    parts: list[str] = []
    left = _MAX_BYTES
    for file in _files(path, is_projects=is_projects):
        data = _read(path, file)
        left -= len(data)
        if left < 0 or len(parts) >= _MAX_FILES:
            most = f"{_MAX_FILES} files or {_MAX_BYTES >> 20} MiB"
            raise ConfigError(f"it has more than {most}")
        shown = data.decode("utf-8", "replace") if len(data) <= _SHOWN_BYTES and b"\0" not in data else ""
        head = f"== {file.relative_to(path)} ({len(data):,} bytes, sha256:{hashlib.sha256(data).hexdigest()})"
        parts += [f"{head}\n{shown}"]
    return "\n".join(parts)


def _files(path: Path, *, is_projects: bool) -> Iterator[Path]:
    for folder, folders, files in os.walk(path):
        if is_projects and (hidden := sorted(_NOT_SHOWN.intersection(folders))):
            place = (Path(folder) / hidden[0]).relative_to(path)
            raise ConfigError(f"it has the folder {place}, which is not shown to whoever approves it")
        folders[:] = sorted(set(folders) - _NOT_SHOWN)
        for name in (*folders, *sorted(files)):
            if (Path(folder) / name).is_symlink():
                place = (Path(folder) / name).relative_to(path)
                raise ConfigError(f"{place} is a link, and may lead out of the plugin")
        yield from (Path(folder) / name for name in sorted(files))


def _read(root: Path, file: Path) -> bytes:
    return read_untrusted(file, max_bytes=_MAX_BYTES, root=root)
