"""Logging in to MCP servers, and out: a person visits an address, and comes back to a port of ours."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from mainspring.app.mcp import build_hub
from mainspring.app.operations.mcp_servers import server_named
from mainspring.app.policies import DEFAULT_MODE
from mainspring.errors import UsageError
from mainspring.mcp.link import McpFailed
from mainspring.mcp.tokens import forget_login, token_file
from mainspring.settings import Config

_HOST = "127.0.0.1"
_PATH = "/callback"
_MAX_HEAD = 16 * 1024
_VISIT_WITHIN_S = 600.0
_PAGE = b"You can close this page and go back to mainspring."


async def log_in(config: Config, workspace: Path, name: str, visit: Callable[[str], None]) -> None:
    """Logs in to a server; `visit` shows a person the address. An earlier login is forgotten."""
    server = server_named(config, workspace, name)
    if server.settings.kind == "stdio":
        raise UsageError(f"The MCP server {name} is a command; it has no login.")
    forget_login(config.home, server.sha256)
    came: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, ValueError, EOFError, asyncio.LimitOverrunError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            target = urlsplit([*head.split(" "), ""][1])
            is_ours = target.path == _PATH
            if is_ours and not came.done():
                came.set_result(dict(parse_qsl(target.query)))
            status, page = ("200 OK", _PAGE) if is_ours else ("404 Not Found", b"")
            start = f"HTTP/1.1 {status}\r\nContent-Length: {len(page)}\r\nConnection: close\r\n\r\n"
            writer.write(start.encode() + page)
            await writer.drain()
        writer.close()

    async def go(url: str) -> dict[str, str]:
        visit(url)
        return await came

    async with await asyncio.start_server(serve, _HOST, 0, limit=_MAX_HEAD) as listening:
        port = listening.sockets[0].getsockname()[1]
        hub = build_hub([server], workspace, DEFAULT_MODE, config)
        (entry,) = hub.entries.values()
        try:
            async with asyncio.timeout(_VISIT_WITHIN_S):
                await hub.log_in(entry, f"http://{_HOST}:{port}{_PATH}", go)
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
