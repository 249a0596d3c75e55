"""One HTTP/1.1 connection: h11 knows the protocol, asyncio the sockets.

A general client takes three times the processor time for a small exchange, and 60 ms to load. Silence is
bounded; nothing is retried. What goes wrong with a server is an `OSError`, a request that cannot be sent a
`ValueError`.
"""

from __future__ import annotations

import asyncio
import base64
import os
import socket
import ssl
import time
import zlib
from contextlib import suppress
from functools import cache
from typing import Protocol
from urllib.parse import SplitResult, unquote

import h11
import msgspec

_READ_BYTES = 256 * 1024
_HEAD_BYTES = 256 * 1024
_KEPT_ALIVE_S = 240.0
_DRAIN_S = 0.5
_PORTS = {"http": 80, "https": 443}
# Where systems keep their certificates, for a Python that was built to look elsewhere.
_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)

Headers = list[tuple[str, str]]


class NotHttp(ConnectionError):
    """What came is cut short, or not the protocol."""


class CannotUnpack(OSError):
    """The body is packed in a way that is not known here, or damaged."""


class Head(msgspec.Struct, frozen=True):
    """The beginning of an answer; names of headers are in small letters."""

    status: int
    headers: dict[str, str]


class _Unpacker(Protocol):
    def decompress(self, data: bytes, /) -> bytes: ...

    def flush(self) -> bytes: ...


def request(method: str, target: str, headers: Headers) -> h11.Request:
    """Raises `ValueError` for what cannot be sent, `UnicodeEncodeError` for characters that no header has."""
    try:
        return h11.Request(method=method, target=target, headers=headers)
    except h11.LocalProtocolError as error:
        raise ValueError(str(error)) from error


class Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, silence_s: float) -> None:
        self._reader = reader
        self._writer = writer
        self._silence_s = silence_s
        self._protocol = h11.Connection(h11.CLIENT, max_incomplete_event_size=_HEAD_BYTES)
        self._unpacker: _Unpacker | None = None
        self._idle_since = 0.0

    @classmethod
    async def opened(
        cls, host: str, port: int, *, tls: ssl.SSLContext | None, name: str = "", silence_s: float
    ) -> Connection:
        """`name` is whose certificate is expected, when the host is only an address of it."""
        reader, writer = await asyncio.open_connection(
            *(host, port),
            ssl=tls,
            server_hostname=(name or host) if tls else None,
            limit=_READ_BYTES,
            happy_eyeballs_delay=0.25,
        )
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return cls(reader, writer, silence_s)

    async def tunnel(self, host: str, port: int, *, tls: ssl.SSLContext, credentials: Headers) -> None:
        """Has a proxy connect us to a server, and talks to that from now on."""
        there = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        head = await self.exchange(request("CONNECT", there, [("host", there), *credentials]))
        if not 200 <= head.status < 300:
            raise ConnectionRefusedError(f"the proxy answered {head.status}")
        await self._writer.start_tls(tls, server_hostname=host)
        self._protocol = h11.Connection(h11.CLIENT, max_incomplete_event_size=_HEAD_BYTES)

    async def exchange(self, asked: h11.Request, body: bytes = b"") -> Head:
        """Sends a request, and gives the head of the answer."""
        protocol = self._protocol
        head = protocol.send(asked) or b""
        data = protocol.send(h11.Data(data=body)) if body else b""
        protocol.send(h11.EndOfMessage())
        self._writer.writelines((head, data or b""))
        with suppress(ConnectionError):  # a server may refuse before it has heard everything
            async with asyncio.timeout(self._silence_s):
                await self._writer.drain()
        while not isinstance(event := await self._event(), h11.Response):
            if not isinstance(event, h11.InformationalResponse):
                raise NotHttp("the connection was closed")
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers}
        self._unpacker = _unpacker(headers.get("content-encoding", "").strip().lower())
        return Head(event.status_code, headers)

    async def read(self) -> bytes | None:
        """Some more of the answer's body, unpacked; None at its end."""
        event = await self._event()
        data = bytes(event.data) if isinstance(event, h11.Data) else None
        if self._unpacker is None:
            return data
        try:
            return self._unpacker.flush() or None if data is None else self._unpacker.decompress(data)
        except zlib.error as error:
            raise CannotUnpack(str(error)) from error

    async def drain(self) -> None:
        """Reads what follows after all that matters, mostly a few bytes that are here already: without them
        the connection cannot be used again."""
        with suppress(OSError):
            async with asyncio.timeout(_DRAIN_S):
                while await self.read() is not None:
                    pass

    async def _event(self) -> h11.Event | type[h11.NEED_DATA | h11.PAUSED]:
        try:
            while (event := self._protocol.next_event()) is h11.NEED_DATA:
                async with asyncio.timeout(self._silence_s):
                    received = await self._reader.read(_READ_BYTES)
                self._protocol.receive_data(received)
        except h11.RemoteProtocolError as error:
            raise NotHttp(str(error)) from error
        return event

    def is_reusable(self) -> bool:
        """Whether another request may follow; makes ready for it."""
        try:
            self._protocol.start_next_cycle()
        except h11.LocalProtocolError:
            return False
        self._idle_since = time.monotonic()
        return True

    def is_fresh(self) -> bool:
        """Whether a connection that was idle can be expected to work."""
        is_old = time.monotonic() - self._idle_since > _KEPT_ALIVE_S
        return not is_old and not self._reader.at_eof() and not self._writer.is_closing()

    def abort(self) -> None:
        self._writer.transport.abort()

    async def gone(self) -> None:
        with suppress(OSError):
            await self._writer.wait_closed()


@cache
def certificates() -> ssl.SSLContext:
    """Whom we trust: what the system does, or SSL_CERT_FILE and SSL_CERT_DIR. Takes 30 ms, once."""
    context = ssl.create_default_context()
    paths = ssl.get_default_verify_paths()
    bundle = next(filter(os.path.isfile, _BUNDLES), None)
    if not (paths.cafile or paths.capath) and bundle:
        context.load_verify_locations(bundle)
    context.set_alpn_protocols(["http/1.1"])
    return context


def place(url: SplitResult) -> tuple[str, int]:
    """Host and port; raises `ValueError` when this is not the address of a server."""
    if url.scheme not in _PORTS or not url.hostname:
        raise ValueError(f"{url.geturl()} is not an address of HTTP")
    return url.hostname, url.port or _PORTS[url.scheme]


def authority(url: SplitResult) -> str:
    """Host and port as they are sent; raises `ValueError` for a name that no host can have."""
    name = url.netloc.rpartition("@")[2]
    return name if name.isascii() else name.encode("idna").decode()


def credentials(url: SplitResult, header: str) -> Headers:
    """The header for the user and password in a URL, if it has them."""
    if url.username is None:
        return []
    pair = f"{unquote(url.username)}:{unquote(url.password or '')}".encode()
    return [(header, f"Basic {base64.b64encode(pair).decode()}")]


def _unpacker(encoding: str) -> _Unpacker | None:
    match encoding:
        case "" | "identity":
            return None
        case "gzip" | "x-gzip" | "deflate":
            return zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
        case _:
            raise CannotUnpack(f"packed as {encoding}")
