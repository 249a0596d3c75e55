"""Which servers there are: those of the user's settings and those of a project's `.mcp.json`, with what is
wrong with each. Files are read as data; nothing is started here.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from mainspring.approvals.trust import TrustSubject
from mainspring.disk.untrusted import read_untrusted
from mainspring.errors import ConfigError
from mainspring.mcp.entries import FileEntry, read_entries
from mainspring.mcp.settings import FILE_NAME, McpServerSettings, McpSettings
from mainspring.patterns import lazy_pattern
from mainspring.secrets.variables import fill_variables

_NAME = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_MAX_CODE = 4 << 20
_TOO_LARGE = "larger than 4 MiB"
_FILLED = ("command", "args", "env", "url", "headers", "client_id", "client_secret")


class McpServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server as it would be started: variables are filled in. `problem` says why it cannot be used; a
    project's server has a `subject` that a person must have approved."""

    name: str
    settings: McpServerSettings
    source: str
    scope: Literal["user", "project"]
    problem: str = ""
    subject: TrustSubject | None = None

    @property
    def label(self) -> str:
        """The name as it stands in names of tools."""
        return label_of(self.name)

    @property
    def sha256(self) -> str:
        """The hash that its manifest is kept by: of all that decides what it answers, variables filled in."""
        content = msgspec.json.encode((self.name, self.settings), order="deterministic")
        return hashlib.sha256(content).hexdigest()


class ServerList(msgspec.Struct, frozen=True, kw_only=True):
    """All servers for work in a folder, by name, and what is wrong with a file of theirs."""

    servers: tuple[McpServer, ...] = ()
    problem: ConfigError | None = None


def label_of(name: str) -> str:
    """A server's name in the names of its tools, which have letters, digits, _ and - only."""
    return re.sub(r"[^A-Za-z0-9_-]|__+", "_", name).strip("_") or "server"


def list_servers(
    workspace: Path,
    settings: McpSettings,
    environment: Mapping[str, str],
    *,
    source: str = "config.toml",
    more: Sequence[tuple[FileEntry, Mapping[str, str]]] = (),
) -> ServerList:
    """The user's servers, then the project's, then `more` with variables of their own, which were approved
    elsewhere; of two with the same name the first counts."""
    found = [_filled(name, given, environment, source) for name, given in settings.servers.items()]
    problem: ConfigError | None = None
    try:
        entries = read_entries(workspace / FILE_NAME, root=workspace) if settings.project_servers else ()
    except ConfigError as error:
        entries, problem = (), error
    found += [_of_project(entry, workspace, environment) for entry in entries]
    found += [
        _filled(entry.name, entry.settings, {**environment, **variables}, entry.file)
        for entry, variables in more
    ]
    return ServerList(servers=tuple(_without_doubles(found)), problem=problem)


def _without_doubles(found: list[McpServer]) -> list[McpServer]:
    taken: dict[str, McpServer] = {}
    kept: list[McpServer] = []
    for server in found:
        first = taken.setdefault(server.label, server)
        if first is not server:
            text = f"the server {first.name} of {first.source} has the same name; that one is used"
            server = msgspec.structs.replace(server, problem=text)
        kept.append(server)
    return kept


def _of_project(entry: FileEntry, workspace: Path, environment: Mapping[str, str]) -> McpServer:
    server = _filled(entry.name, entry.settings, environment, entry.file)
    text = "\n".join([entry.text, *_code_lines(entry.settings, workspace)])
    subject = TrustSubject(kind="mcp", path=entry.file, name=entry.name, text=text)
    return msgspec.structs.replace(server, scope="project", subject=subject)


def _code_lines(settings: McpServerSettings, workspace: Path) -> list[str]:
    """The hashes of files in the workspace that the command names: code that agents can write."""
    lines: list[str] = []
    for word in (settings.command, *settings.args):
        path = workspace / word
        if not word or not path.is_file() or not path.resolve().is_relative_to(workspace.resolve()):
            continue
        try:
            sha256 = hashlib.sha256(read_untrusted(path, max_bytes=_MAX_CODE, root=workspace)).hexdigest()
        except OSError as error:
            sha256 = error.strerror or _TOO_LARGE
        lines.append(f"# {word}: {sha256}")
    return lines


def _filled(name: str, given: McpServerSettings, environment: Mapping[str, str], source: str) -> McpServer:
    """A server with variables in the place of their names."""
    words, missing = fill_variables({field: getattr(given, field) for field in _FILLED}, environment)
    settings = msgspec.structs.replace(given, **words)
    problem = _problem(name, settings)
    if missing and not problem:
        example = f"${{{missing[0]}:-default}}"
        problem = f"the variable {', '.join(missing)} is not set; set it, or write {example}"
    return McpServer(name=name, settings=settings, source=source, scope="user", problem=problem)


def _problem(name: str, settings: McpServerSettings) -> str:
    if not _NAME.fullmatch(name):
        return "its name must have at most 64 letters, digits, - . or _, and begin with a letter or digit"
    if bool(settings.command) == bool(settings.url):
        return "it needs either a command or a url"
    if (settings.kind == "stdio") != bool(settings.command):
        return f"the transport {settings.kind} needs a {'command' if settings.kind == 'stdio' else 'url'}"
    if settings.url and not re.match(r"https?://[^/\s]", settings.url):
        return "its url must begin with http:// or https://"
    return ""
