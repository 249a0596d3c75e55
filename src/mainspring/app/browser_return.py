"""A port of this machine to which a browser comes back from a login elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from urllib.parse import parse_qsl, urlsplit

import msgspec

from mainspring.errors import UsageError

VISIT_WITHIN_S = 600.0
_HOST = "127.0.0.1"
_PATH = "/callback"
_MAX_HEAD = 16 * 1024
_PAGE = b"You can close this page and go back to mainspring."


class BrowserReturn(msgspec.Struct, frozen=True):
    """Where a browser is to come back to, and with what it came."""

    url: str
    came: asyncio.Future[dict[str, str]]


@asynccontextmanager
async def browser_return(
    port: int = 0, *, is_ours: Callable[[dict[str, str]], bool] = lambda _: True
) -> AsyncGenerator[BrowserReturn]:
    """Listens while the block runs. A visit that is not ours is turned away, and changes nothing."""
    came: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, ValueError, EOFError, asyncio.LimitOverrunError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            target = urlsplit([*head.split(" "), ""][1])
            given = dict(parse_qsl(target.query))
            is_meant = target.path == _PATH and is_ours(given)
            if is_meant and not came.done():
                came.set_result(given)
            status, page = ("200 OK", _PAGE) if is_meant else ("404 Not Found", b"")
            start = f"HTTP/1.1 {status}\r\nContent-Length: {len(page)}\r\nConnection: close\r\n\r\n"
            writer.write(start.encode() + page)
            await writer.drain()
        writer.close()

    try:
        server = await asyncio.start_server(serve, _HOST, port, limit=_MAX_HEAD)
    except OSError as error:
        raise UsageError(
            f"Port {port} of this machine, to which the browser would come back, is taken.",
            remedy="End what uses it, or choose another port.",
        ) from error
    async with server:
        taken = server.sockets[0].getsockname()[1]
        yield BrowserReturn(f"http://{_HOST}:{taken}{_PATH}", came)
