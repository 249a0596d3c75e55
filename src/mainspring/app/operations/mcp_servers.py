"""MCP servers for every face: which there are and how they stand, adding, removing and importing them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from mainspring.app.mcp import build_hub, servers_in, why_unusable
from mainspring.app.operations.trust import approve
from mainspring.app.policies import DEFAULT_MODE
from mainspring.errors import ConfigError, UsageError
from mainspring.mcp.edit import add_to_project, add_to_settings, remove_from_project, remove_from_settings
from mainspring.mcp.link import McpFailed
from mainspring.mcp.manifest import load_manifest
from mainspring.mcp.others import OtherProgram, servers_of
from mainspring.mcp.recipes import known_server
from mainspring.mcp.servers import McpServer, list_servers
from mainspring.mcp.settings import FILE_NAME, McpServerSettings
from mainspring.mcp.status import StatusFile
from mainspring.mcp.wire import Offers
from mainspring.settings import Config
from mainspring.waits.describe import duration


class McpRow(msgspec.Struct, frozen=True, kw_only=True):
    """How a server stands. `state` is one of: disabled, invalid, unapproved, configured, known, starting,
    ready, needs-auth, failed."""

    name: str
    state: str
    scope: str
    source: str
    target: str
    detail: str = ""
    tools: int | None = None


class McpImported(msgspec.Struct, frozen=True, kw_only=True):
    """Names of servers that were taken over, and of those that were there already."""

    added: tuple[str, ...] = ()
    present: tuple[str, ...] = ()


def server_named(config: Config, workspace: Path, name: str) -> McpServer:
    """The server of this name that is in use; raises when there is none, or it cannot be used."""
    found = servers_in(workspace, config)
    named = [server for server in found.servers if server.name == name]
    if not named:
        if found.problem:
            raise found.problem
        raise UsageError(f"There is no MCP server {name!r}.", remedy="`mainspring mcp list` lists them.")
    server = named[0]
    if why := why_unusable(server, config):
        raise UsageError(f"The MCP server {name} cannot be used: {why}.", remedy=_remedy(server))
    return server


def _remedy(server: McpServer) -> str:
    is_waiting = server.subject is not None and not server.problem and server.settings.enabled
    return (
        f"Look at it and approve it: mainspring trust add {server.name}"
        if is_waiting
        else f"See {server.source}."
    )


def target_of(server: McpServer) -> str:
    """The command or address of a server, without what fills its variables in: arguments may be secret."""
    settings = server.settings
    return settings.url.partition("?")[0] if settings.url else " ".join((settings.command, *settings.args))


def add_server(
    config: Config, name: str, settings: McpServerSettings, *, workspace: Path | None = None
) -> None:
    """Adds a server to the user's settings or, with a workspace, to its `.mcp.json`; whoever adds it there
    has seen it, so it is approved."""
    checked = list_servers(Path("/nonexistent"), _only(config, {name: settings}), config.environment)
    if (problem := checked.servers[0].problem) and "is not set" not in problem:
        raise UsageError(f"The server {name!r} cannot be added: {problem}.")
    if workspace is None:
        add_to_settings(config.folder / "config.toml", name, settings)
        return
    add_to_project(workspace / FILE_NAME, name, _entry(settings))
    found = [server for server in servers_in(workspace, config).servers if server.name == name]
    for server in found:
        if server.subject:
            approve(config, server.subject)


def add_known_server(config: Config, name: str, workspace: Path, *, always_load: bool = False) -> None:
    """Adds a server that is known by its name to the user's settings."""
    known = known_server(name, workspace, config.environment)
    add_server(config, name, msgspec.structs.replace(known, always_load=always_load))


def remove_server(config: Config, name: str, *, workspace: Path | None = None) -> None:
    file = config.folder / "config.toml" if workspace is None else workspace / FILE_NAME
    is_removed = remove_from_settings(file, name) if workspace is None else remove_from_project(file, name)
    if not is_removed:
        raise UsageError(f"{file} has no server {name!r}.", remedy="`mainspring mcp list` lists them.")


def import_servers(config: Config, program: OtherProgram, workspace: Path) -> McpImported:
    """Takes the servers of another program over into the user's settings."""
    home = Path(config.variable("HOME") or "/")
    entries = servers_of(program, home=home, workspace=workspace, environment=config.environment)
    if not entries:
        raise UsageError(f"No MCP servers of {program} were found.", remedy=f"Looked for them in {home}.")
    added: list[str] = []
    present = set(config.settings.mcp.servers)
    for entry in entries:
        if entry.name not in present:
            add_server(config, entry.name, entry.settings)
            present.add(entry.name)
            added.append(entry.name)
    left = tuple(dict.fromkeys(entry.name for entry in entries if entry.name not in added))
    return McpImported(added=tuple(added), present=left)


def rows(config: Config, workspace: Path) -> tuple[list[McpRow], ConfigError | None]:
    """Each server with its state; and what is wrong with a file."""
    found = servers_in(workspace, config)
    return [_row(config, server) for server in found.servers], found.problem


def _row(config: Config, server: McpServer) -> McpRow:
    row = McpRow(
        name=server.name,
        state="configured",
        scope=server.scope,
        source=server.source,
        target=target_of(server),
    )
    why = why_unusable(server, config)
    if why:
        state = "invalid" if server.problem else "unapproved" if server.settings.enabled else "disabled"
        return msgspec.structs.replace(row, state=state, detail=why)
    manifest, status = load_manifest(config.home, server), StatusFile(config.home, server).read()
    known = "known" if manifest else "configured"
    tools = len(manifest.offers.tools) if manifest else None
    if status is None:
        return msgspec.structs.replace(row, state=known, tools=tools)
    elapsed = f"for {duration(max(time.time() - status.since, 0))}"
    detail = "; ".join(filter(None, (elapsed, status.detail)))
    return msgspec.structs.replace(row, state=status.state, tools=tools, detail=detail)


class McpTest(msgspec.Struct, frozen=True, kw_only=True):
    """What a server said when it was asked just now, and how long that took."""

    server: str
    protocol: str
    name: str
    version: str
    tools: int
    prompts: int
    resources: int
    duration_s: float


async def test_server(config: Config, workspace: Path, name: str) -> McpTest:
    """Starts a server, asks what it offers, and ends it; `UsageError` says why that failed."""
    server = server_named(config, workspace, name)
    began = time.monotonic()
    offers = await ask_offers(config, workspace, server)
    return McpTest(
        server=name,
        protocol=offers.protocol,
        name=offers.name,
        version=offers.version,
        tools=len(offers.tools),
        prompts=len(offers.prompts),
        resources=len(offers.resources) + len(offers.templates),
        duration_s=time.monotonic() - began,
    )


async def ask_offers(config: Config, workspace: Path, server: McpServer) -> Offers:
    """What a server offers now; its manifest is kept."""
    hub = build_hub([server], workspace, DEFAULT_MODE, config)
    (entry,) = hub.entries.values()
    try:
        await hub.ready(entry, within_s=server.settings.start_timeout_s + 5)
    except McpFailed as error:
        remedy = f"mainspring mcp login {server.name}" if error.reason == "auth" else f"See {server.source}."
        raise UsageError(f"The MCP server {server.name} failed: {error.message}.", remedy=remedy) from error
    finally:
        await hub.close()
    return entry.offers


async def offered_tools(
    config: Config, workspace: Path, name: str, *, is_fresh: bool
) -> list[dict[str, Any]]:
    """The tools of a server as it describes them, known from before or asked for now."""
    server = server_named(config, workspace, name)
    manifest = None if is_fresh else load_manifest(config.home, server)
    offers = manifest.offers if manifest else await ask_offers(config, workspace, server)
    return offers.tools


def _only(config: Config, servers: Mapping[str, McpServerSettings]) -> Any:
    return msgspec.structs.replace(config.settings.mcp, servers=dict(servers), project_servers=False)


def _entry(settings: McpServerSettings) -> dict[str, Any]:
    """A server as `.mcp.json` has it."""
    entry: dict[str, Any] = {"type": settings.kind}
    for field in ("command", "args", "env", "url", "headers"):
        if value := getattr(settings, field):
            entry[field] = value
    if settings.timeout_s != McpServerSettings().timeout_s:
        entry["timeout"] = round(settings.timeout_s * 1000)
    if settings.always_load:
        entry["alwaysLoad"] = True
    return entry


def pairs(given: Sequence[str], what: str) -> dict[str, str]:
    """`NAME=VALUE` words as a table."""
    found: dict[str, str] = {}
    for word in given:
        name, sign, value = word.partition("=")
        if not sign or not name:
            raise UsageError(f"{word!r} is not a {what}.", remedy="Write NAME=VALUE.")
        found[name] = value
    return found
