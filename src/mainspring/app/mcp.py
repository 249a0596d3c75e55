"""Builds the servers of a session, or of a command, from settings: which may be used, and where they run."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec

from mainspring.app.plugins import usable_folders
from mainspring.app.policies import confine, confinement_of
from mainspring.approvals import Mode
from mainspring.approvals.trust import TrustFile
from mainspring.mcp.hub import McpHub
from mainspring.mcp.servers import McpServer, ServerList, list_servers
from mainspring.sandbox import Sandbox
from mainspring.secrets.vault import is_telling
from mainspring.settings import Config


class UsableServers(msgspec.Struct, frozen=True, kw_only=True):
    """The servers of a workspace that may be started, and a sentence for each that may not."""

    servers: tuple[McpServer, ...] = ()
    warnings: tuple[str, ...] = ()


def servers_in(workspace: Path, config: Config) -> ServerList:
    source = str(config.folder / "config.toml")
    more = [
        (entry, folder.variables)
        for folder in usable_folders(config, workspace)[0]
        for entry in folder.servers
    ]
    return list_servers(workspace, config.settings.mcp, config.environment, source=source, more=more)


def why_unusable(server: McpServer, config: Config) -> str:
    """Why a server is not started; empty when it may be."""
    if server.problem:
        return server.problem
    if not server.settings.enabled:
        return "it is disabled"
    if server.subject and (state := TrustFile(config.home).state(server.subject)) != "trusted":
        return "it changed since it was approved" if state == "changed" else "nobody has approved it yet"
    return ""


def usable_servers(workspace: Path, config: Config) -> UsableServers:
    found = servers_in(workspace, config)
    warnings = [str(found.problem)] if found.problem else []
    usable: list[McpServer] = []
    for server in found.servers:
        why = why_unusable(server, config)
        if not why:
            usable.append(server)
        elif server.settings.enabled:
            remedy = (
                f" See `mainspring trust add {server.name}`." if server.subject and not server.problem else ""
            )
            warnings.append(f"The MCP server {server.name} is not used: {why}.{remedy}")
    return UsableServers(servers=tuple(usable), warnings=tuple(warnings))


def build_hub(
    servers: Sequence[McpServer], workspace: Path, mode: Mode, config: Config, sandbox: Sandbox | str = ""
) -> McpHub:
    policy = confinement_of(workspace, mode, config)
    rung = sandbox if isinstance(sandbox, str) else ""
    return McpHub(
        servers,
        home=config.home,
        environment=config.environment,
        policy=policy,
        choose_sandbox=partial(confine, rung, policy, config),
    )


def secrets_of(servers: Sequence[McpServer]) -> dict[str, str]:
    """What servers are given as variables and headers that looks like a secret, by name."""
    found: dict[str, str] = {}
    for server in servers:
        secret = ("client_secret", server.settings.client_secret)
        for name, value in (*server.settings.env.items(), *server.settings.headers.items(), secret):
            word = value.rpartition(" ")[2]
            if is_telling(word):
                found[f"{server.label}_{name}".replace("-", "_")] = word
    return found
