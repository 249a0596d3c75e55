"""One HTTP/1.1 connection: h11 knows the protocol, asyncio the sockets.

A general client takes three times the processor time for a small exchange, and 60 ms to load. Silence, the
time for a whole exchange and the memory that it takes are bounded; nothing is retried. What goes wrong with a
server is an `OSError`, a request that cannot be sent a `ValueError`.
"""

from __future__ import annotations

import asyncio
import base64
import math
import os
import select
import socket
import ssl
import time
import zlib
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from typing import SupportsIndex, cast
from urllib.parse import SplitResult, unquote

import h11
import msgspec

from mainspring.net.hosts import is_address

_READ_BYTES = 256 * 1024
_HEAD_BYTES = 256 * 1024
_KEPT_ALIVE_S = 240.0
_DRAIN_S = 0.5
_ENCODINGS = frozenset({"gzip", "x-gzip", "deflate"})
_GZIP = b"\x1f\x8b"
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


class TooLong(TimeoutError):
    """Bytes came, but the exchange was not over in time."""


class CannotUnpack(OSError):
    """The body is packed in a way that is not known here, or damaged."""


class ResponseHead(msgspec.Struct, frozen=True):
    """The beginning of an answer; names of headers are in small letters."""

    status: int
    headers: dict[str, str]


def request(method: str, target: str, headers: Headers) -> h11.Request:
    """Raises `ValueError` for what cannot be sent, `UnicodeEncodeError` for characters that no header has."""
    try:
        return h11.Request(method=method, target=target, headers=headers)
    except h11.LocalProtocolError as error:
        raise ValueError(str(error)) from error


class _Reader(asyncio.StreamReader):
    """Knows whether everything that came was read."""

    def __init__(self, *, limit: int, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit=limit, loop=loop)
        self._unread_bytes = 0

    @property
    def is_empty(self) -> bool:
        return self._unread_bytes == 0

    def feed_data(self, data: Iterable[SupportsIndex]) -> None:
        self._unread_bytes += len(cast("bytes", data))
        super().feed_data(data)

    async def read(self, n: int = -1) -> bytes:
        data = await super().read(n)
        self._unread_bytes -= len(data)
        return data


class Connection:
    def __init__(self, reader: _Reader, writer: asyncio.StreamWriter, silence_s: float) -> None:
        self._reader = reader
        self._writer = writer
        self._silence_s = silence_s
        self._protocol = h11.Connection(h11.CLIENT, max_incomplete_event_size=_HEAD_BYTES)
        self._unpacker: _Unpacker | None = None
        self._is_over = False
        self._deadline = math.inf
        self._idle_since = 0.0

    @classmethod
    async def opened(
        cls, host: str, port: int, *, tls: ssl.SSLContext | None, name: str = "", silence_s: float
    ) -> Connection:
        """`name` is whose certificate is expected, when the host is only an address of it."""
        loop = asyncio.get_running_loop()
        reader = _Reader(limit=_READ_BYTES, loop=loop)
        transport, protocol = await loop.create_connection(
            lambda: asyncio.StreamReaderProtocol(reader, loop=loop),
            *(host, port),
            ssl=tls,
            server_hostname=(name or host) if tls else None,
            # With one address there is nothing to race, and a race that is cancelled can leave a socket open.
            happy_eyeballs_delay=None if is_address(host) else 0.25,
        )
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
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

    async def exchange(
        self, asked: h11.Request, body: bytes = b"", *, total_s: float = math.inf
    ) -> ResponseHead:
        """Sends a request, and gives the head of the answer; `total_s` is for all of the answer."""
        self._deadline = time.monotonic() + total_s
        self._is_over = False
        protocol = self._protocol
        head = protocol.send(asked) or b""
        data = protocol.send(h11.Data(data=body)) if body else b""
        protocol.send(h11.EndOfMessage())
        # Sent while we listen: a server may refuse before it has heard everything.
        self._writer.writelines((head, data or b""))
        while not isinstance(event := await self._event(), h11.Response):
            if not isinstance(event, h11.InformationalResponse):
                raise NotHttp("the connection was closed")
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers}
        encoding = headers.get("content-encoding", "").strip().lower()
        self._unpacker = None if encoding in ("", "identity") else _Unpacker(encoding)
        return ResponseHead(event.status_code, headers)

    async def read(self) -> bytes | None:
        """Some more of the answer's body, unpacked; None at its end."""
        unpacker = self._unpacker
        if unpacker is None:
            return await self._packed()
        try:
            while not (data := unpacker.take()):
                packed = await self._packed()
                if packed is None:
                    return unpacker.end() or None
                unpacker.feed(packed)
        except zlib.error as error:
            raise CannotUnpack(str(error)) from error
        return data

    async def drain(self) -> None:
        """Reads what follows after all that matters, mostly a few bytes that are here already: without them
        the connection cannot be used again."""
        if self._is_over:
            return
        with suppress(OSError):
            async with asyncio.timeout(_DRAIN_S):
                while await self.read() is not None:
                    pass

    async def _event(self) -> h11.Event | type[h11.NEED_DATA | h11.PAUSED]:
        try:
            while (event := self._protocol.next_event()) is h11.NEED_DATA:
                self._protocol.receive_data(await self._received())
        except h11.RemoteProtocolError as error:
            raise NotHttp(str(error)) from error
        return event

    async def _packed(self) -> bytes | None:
        """All that is here of the body, once some is; None at its end."""
        if self._is_over:
            return None
        event, pieces = await self._event(), list[bytes]()
        with suppress(h11.RemoteProtocolError):  # raised again by whoever reads on
            while isinstance(event, h11.Data):
                pieces.append(bytes(event.data))
                event = self._protocol.next_event()
        self._is_over = event is not h11.NEED_DATA and not isinstance(event, h11.Data)
        return b"".join(pieces) if pieces else None

    async def _received(self) -> bytes:
        """What comes next; silence is when nothing comes and nothing of what we say is taken."""
        while True:
            left_s = self._deadline - time.monotonic()
            unsent = self._writer.transport.get_write_buffer_size()
            if left_s <= 0:
                raise TooLong
            try:
                async with asyncio.timeout(min(self._silence_s, left_s)):
                    return await self._reader.read(_READ_BYTES)
            except TimeoutError:
                is_taken = self._writer.transport.get_write_buffer_size() < unsent
                if left_s > self._silence_s and not is_taken:
                    raise

    def is_reusable(self) -> bool:
        """Whether another request may follow; makes ready for it."""
        if self._protocol.trailing_data[0]:  # would be taken for the next answer
            return False
        try:
            self._protocol.start_next_cycle()
        except h11.LocalProtocolError:
            return False
        self._idle_since = time.monotonic()
        return True

    async def is_fresh(self) -> bool:
        """Whether a connection that was idle can be expected to work: it is not old, and nothing came,
        neither its end nor an answer that nobody asked for (some servers send one before they hang up)."""
        if time.monotonic() - self._idle_since > _KEPT_ALIVE_S:
            return False
        if self._has_news():
            for _ in range(2):  # turns of the event loop: in the first it hears what came, after it we do
                await asyncio.sleep(0)
        is_quiet = self._reader.is_empty and self._reader.exception() is None
        return is_quiet and not self._reader.at_eof() and not self._writer.is_closing()

    def _has_news(self) -> bool:
        """Whether something came that the event loop has not heard of yet."""
        handle: int = self._writer.get_extra_info("socket").fileno()
        if handle < 0:
            return False
        waiting = select.poll()
        waiting.register(handle, select.POLLIN)
        return bool(waiting.poll(0))

    def abort(self) -> None:
        self._writer.transport.abort()

    async def gone(self) -> None:
        with suppress(OSError):
            await self._writer.wait_closed()


async def connect(url: SplitResult, proxy: SplitResult | None, *, silence_s: float) -> Connection:
    """A connection to the server that a URL names, through a proxy if there is one."""
    host, port = place(url)
    tls = await tls_for(url)
    if proxy is None:
        return await Connection.opened(host, port, tls=tls, silence_s=silence_s)
    outer = await tls_for(proxy)
    connection = await Connection.opened(*place(proxy), tls=outer, silence_s=silence_s)
    try:
        if tls is not None:
            known = credentials(proxy, "proxy-authorization")
            await connection.tunnel(host, port, tls=tls, credentials=known)
    except BaseException:
        connection.abort()
        raise
    return connection


async def tls_for(url: SplitResult) -> ssl.SSLContext | None:
    """The TLS context for https; None for http."""
    return await asyncio.to_thread(trusted) if url.scheme == "https" else None


@cache
def trusted() -> ssl.SSLContext:
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


class _Unpacker:
    """Unpacks in small pieces: what is sent as a few bytes may be gigabytes."""

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding
        self._packed = b""
        self._begin()

    def feed(self, packed: bytes) -> None:
        if self._encoding not in _ENCODINGS:
            raise CannotUnpack(f"packed as {self._encoding}")
        self._packed += packed
        self._is_whole = False

    def take(self) -> bytes:
        """Some of what was fed, nothing when more is needed; raises `zlib.error`."""
        unpacked = b""
        while self._packed and not unpacked:
            unpacked = self._stream.decompress(self._packed, _READ_BYTES)
            self._packed = self._stream.unconsumed_tail
            if self._stream.eof:
                self._packed = self._next_member(self._stream.unused_data)
        return unpacked

    def end(self) -> bytes:
        """The last piece; raises `CannotUnpack` when something is missing."""
        rest = self._stream.flush()
        if not self._is_whole and not self._stream.eof:
            raise CannotUnpack("cut short")
        self._is_whole = True
        return rest

    def _next_member(self, packed: bytes) -> bytes:
        """Goes on with what follows a whole one, if that is packed too."""
        self._begin()
        return packed if packed.startswith(_GZIP) else b""

    def _begin(self) -> None:
        self._stream = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
        self._is_whole = True
