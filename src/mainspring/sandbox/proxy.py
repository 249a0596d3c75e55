"""The only way out of a sandbox whose network is a list of hosts: an HTTP proxy on a Unix socket.

It connects where the list allows, by CONNECT or plain HTTP. A name that resolves to a private or local
address is refused, unless the list names that very host: a list of names must not open the intranet.
"""

from __future__ import annotations

import asyncio
import ipaddress
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from urllib.parse import urlsplit

from mainspring.net.hosts import is_address

MAX_HEAD = 64 * 1024
HEAD_WITHIN_S = 30.0
USUAL_PORTS = (80, 443)
PIECE = 64 * 1024


class ProxyRefused(Exception):
    """Told to the client as a reply of status 403 or 502."""


def allows(hosts: tuple[str, ...], host: str, port: int) -> bool:
    """A pattern without a port means the usual ones."""
    for pattern in hosts:
        name, _, wanted = pattern.partition(":")
        is_port = port == int(wanted) if wanted else port in USUAL_PORTS
        if is_port and fnmatchcase(host.casefold().rstrip("."), name.casefold()):
            return True
    return False


class Proxy:
    def __init__(self, hosts: tuple[str, ...], path: Path) -> None:
        self._hosts = hosts
        self.path = path
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_unix_server(self._serve, self.path, limit=MAX_HEAD)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(HEAD_WITHIN_S):
                head = await reader.readuntil(b"\r\n\r\n")
            method, target, rest = _request(head)
            host, port = _address(method, target)
            far_reader, far_writer = await self._connect(host, port)
        except ProxyRefused as refusal:
            writer.write(f"HTTP/1.1 403 Forbidden\r\nConnection: close\r\n\r\n{refusal}\n".encode())
            await _end(writer)
            return
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            await _end(writer)
            return
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            url = urlsplit(target)
            path = (url.path or "/") + (f"?{url.query}" if url.query else "")
            far_writer.write(f"{method} {path} {rest}".encode("latin-1"))
        async with asyncio.TaskGroup() as group:
            group.create_task(_copy(reader, far_writer))
            group.create_task(_copy(far_reader, writer))
        await _end(far_writer)
        await _end(writer)

    async def _connect(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if not allows(self._hosts, host, port):
            raise ProxyRefused(f"mainspring: {host}:{port} is not on the list of hosts that may be reached")
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=1)
        addresses = [str(address[4][0]) for address in found]
        is_named = any(pattern.partition(":")[0].casefold() == host.casefold() for pattern in self._hosts)
        is_local_name = host == "localhost" or is_address(host)
        for address in addresses:
            is_public = ipaddress.ip_address(address).is_global
            if is_public or (is_named and is_local_name):
                return await asyncio.open_connection(address, port)
        raise ProxyRefused(f"mainspring: {host} resolves to a private address")


def _request(head: bytes) -> tuple[str, str, str]:
    """Method, target, and all that follows them."""
    method, _, rest = head.decode("latin-1").partition(" ")
    target, _, rest = rest.partition(" ")
    if not target or "\n" in target:
        raise ProxyRefused("mainspring: this is not a request to a proxy")
    return method.upper(), target, rest


def _address(method: str, target: str) -> tuple[str, int]:
    url = urlsplit(f"//{target}" if method == "CONNECT" else target)
    try:
        port = url.port or 80
    except ValueError as error:
        raise ProxyRefused("mainspring: no such port") from error
    if not url.hostname or (method != "CONNECT" and url.scheme != "http"):
        raise ProxyRefused("mainspring: this is not a request to a proxy")
    return url.hostname, port


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(PIECE):
            writer.write(data)
            await writer.drain()
        writer.write_eof()


async def _end(writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        await writer.drain()
        writer.close()
        await writer.wait_closed()
