"""What a user can say about MCP servers: `[mcp]` in `config.toml`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import msgspec

FILE_NAME = ".mcp.json"
"""The file of a project that names servers."""
_Seconds = Annotated[float, msgspec.Meta(gt=0, le=24 * 3600)]
ServerTransport = Literal["", "stdio", "http", "sse"]


class McpServerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One server: a `command` that speaks on its standard streams, or a `url`. `${VAR}` and `${VAR:-default}`
    stand for variables of mainspring's environment."""

    command: str = ""
    """The program of a server that speaks on its standard streams."""
    args: tuple[str, ...] = ()
    """Its arguments."""
    env: dict[str, str] = {}
    """Environment variables that it gets; no others but the usual ones (PATH, HOME, LANG, …)."""
    url: str = ""
    """The address of a server that is reached over HTTP."""
    headers: dict[str, str] = {}
    """Headers of each request to it."""
    client_id: str = ""
    """The id of a client that was registered with its authorization server by hand, or the https address of
    its metadata; empty: mainspring registers itself when you log in."""
    client_secret: str = ""
    """The secret of that client, if it has one."""
    transport: ServerTransport = ""
    """stdio, http or sse; empty: stdio with a command, http with a url."""
    timeout_s: _Seconds = 60.0
    """Maximum duration of a call without progress, in seconds."""
    start_timeout_s: _Seconds = 60.0
    """Seconds after which a server that does not answer counts as failed."""
    always_load: bool = False
    """Show the schemas of its tools in every request, however many there are."""
    network: bool = True
    """Whether a command may use the network. Without it, its tools count as contained by the sandbox."""
    writable: tuple[str, ...] = ()
    """Folders outside the workspace that a command may write."""
    enabled: bool = True
    """Use this server; false: keep its settings only."""

    @property
    def kind(self) -> Literal["stdio", "http", "sse"]:
        return self.transport or ("http" if self.url else "stdio")


class McpSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """MCP servers and how their tools are shown (`[mcp]` in `config.toml`)."""

    servers: dict[str, McpServerSettings] = {}
    """Servers by name: `[mcp.servers.NAME]`."""
    project_servers: bool = True
    """Use servers that a project's `.mcp.json` names, once a person approved them."""
    find_tools_above: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.05
    """Share of the context window above which tools of servers are found with `find_tools` instead of being
    shown in every request."""


def has_servers(workspace: Path, settings: McpSettings) -> bool:
    """Whether anything has to be looked at; asked by every session."""
    return bool(settings.servers) or (settings.project_servers and os.path.lexists(workspace / FILE_NAME))
