"""Logging in to MCP servers, and out: a person visits an address, and comes back to a port of ours."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from mainspring.app.browser_return import VISIT_WITHIN_S, browser_return
from mainspring.app.mcp import build_hub
from mainspring.app.operations.mcp_servers import server_named
from mainspring.app.policies import DEFAULT_MODE
from mainspring.errors import UsageError
from mainspring.mcp.link import McpFailed
from mainspring.mcp.tokens import forget_login, token_file
from mainspring.settings import Config


async def log_in(config: Config, workspace: Path, name: str, visit: Callable[[str], None]) -> None:
    """Logs in to a server; `visit` shows a person the address. An earlier login is forgotten."""
    server = server_named(config, workspace, name)
    if server.settings.kind == "stdio":
        raise UsageError(f"The MCP server {name} is a command; it has no login.")
    forget_login(config.home, server.sha256)
    async with browser_return() as back:

        async def go(url: str) -> dict[str, str]:
            visit(url)
            return await back.came

        hub = build_hub([server], workspace, DEFAULT_MODE, config)
        (entry,) = hub.entries.values()
        try:
            async with asyncio.timeout(VISIT_WITHIN_S):
                await hub.log_in(entry, back.url, go)
        except McpFailed as error:
            raise UsageError(f"The login to {name} failed: {error.message}.") from error
        except TimeoutError as error:
            raise UsageError(f"Nobody came back from the login to {name} in time.") from error
        finally:
            await hub.close()


def log_out(config: Config, workspace: Path, name: str) -> bool:
    """Forgets the tokens of a server; False when there were none."""
    path = token_file(config.home, server_named(config, workspace, name).sha256)
    is_there = path.exists()
    path.unlink(missing_ok=True)
    return is_there
