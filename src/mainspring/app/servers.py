"""The MCP servers of a session that is being opened, if any: what deals with them is loaded then."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from mainspring.app.toolset import DEFAULT_TOOLS, ToolChoice
from mainspring.approvals import Mode
from mainspring.engines import builtin
from mainspring.mcp.settings import has_servers
from mainspring.sandbox import Sandbox
from mainspring.settings import Config
from mainspring.turns.runtime import Runtime

if TYPE_CHECKING:
    from mainspring.app.mcp_tools import SessionServers
    from mainspring.plugins.folders import PluginFolder


def servers_of(
    tools: Sequence[ToolChoice],
    engine: str,
    place: Path,
    mode: Mode,
    sandbox: Sandbox | str,
    config: Config,
    plugins: Sequence[PluginFolder] = (),
) -> SessionServers | None:
    """The servers of a session that takes its own turns with the usual tools; None when it has none."""
    if tools is not DEFAULT_TOOLS or engine != builtin.NAME:
        return None
    if not has_servers(place, config.settings.mcp) and not any(each.servers for each in plugins):
        return None
    return import_module("mainspring.app.mcp_tools").open_servers(place, mode, sandbox, config)


@asynccontextmanager
async def servers_beside(servers: SessionServers | None, runtime: Runtime) -> AsyncGenerator[None]:
    """Servers live while their session is open, and what becomes of them is shown there."""
    if servers is None:
        yield
        return
    runtime.recorder.vault.know(servers.secrets)
    servers.tell(runtime.show)
    async with servers:
        yield
