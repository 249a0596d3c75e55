"""One HTTP conversation with a model server, for every wire: bytes go out, stream items come in.

The client is made at the first request and kept, so that connections are reused. Silence, total time and size
of a reply are bounded. Nothing here retries, and nothing foreign escapes: what goes wrong is a `ModelError`.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import ssl
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from functools import cache, lru_cache
from importlib import import_module
from typing import Protocol
from urllib.parse import urlsplit

import httpx2
import msgspec

from mainspring.errors import AuthFailed, BadRequest, ModelError, ModelTimeout, NetworkFailed
from mainspring.models import StreamItem
from mainspring.models.failures import Endpoint, dropped, not_the_protocol, refused
from mainspring.models.sse import EventParser, EventTooLarge

_DRAIN_S = 0.5
_KEPT_ALIVE_S = 240.0
LOADED_LATE = ("httpcore2", "anyio._backends._asyncio")
"""What carries requests, which httpx2 loads at the first one."""


class Bounds(msgspec.Struct, frozen=True):
    """`silence_s` is the longest wait for the next byte, also for the first; `total_s` for a whole reply."""

    connect_s: float = 15.0
    silence_s: float = 300.0
    total_s: float = 3600.0
    max_bytes: int = 256 * 1024 * 1024


class Reader(Protocol):
    """Reads one reply of one wire."""

    @property
    def is_done(self) -> bool:
        """Whether the protocol says that nothing follows."""
        ...

    def feed(self, data: bytes) -> Sequence[StreamItem]:
        """The items in one event, or in a whole JSON reply; raises `ModelError`, or what decoding raises."""
        ...

    def end(self) -> Sequence[StreamItem]:
        """The last items, `Finished` at the end; raises `ModelError` when the reply is not complete."""
        ...


class Channel:
    def __init__(self, endpoint: Endpoint, headers: dict[str, str], bounds: Bounds | None = None) -> None:
        self._endpoint = endpoint
        self._headers = {"accept-encoding": "identity", "content-type": "application/json", **headers}
        self._bounds = bounds or Bounds()
        self._client: httpx2.AsyncClient | None = None
        _load_ahead()

    async def stream(self, path: str, body: bytes, reader: Reader) -> AsyncGenerator[StreamItem]:
        """Sends a request and reads its reply."""
        try:
            response = await self._ask("POST", path, body)
            try:
                kind = response.headers.get("content-type", "")
                intake = _Intake(reader, self._endpoint, self._bounds, kind)
                async with aclosing(_chunks(response)) as chunks:
                    async for chunk in chunks:
                        for item in intake.take(chunk):
                            yield item
                        if reader.is_done:
                            await _drain(chunks)
                            break
            finally:
                await response.aclose()
            for item in intake.end():
                yield item
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise self._mapped(error) from error

    async def get(self, path: str) -> bytes:
        """The whole answer to a plain question."""
        try:
            response = await self._ask("GET", path, b"")
            return await self._whole(response)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise self._mapped(error) from error

    async def close(self) -> None:
        if self._client is not None:
            client, self._client = self._client, None
            await client.aclose()

    async def _ask(self, method: str, path: str, body: bytes) -> httpx2.Response:
        if self._client is None:
            try:
                self._client = self._open()
            except UnicodeEncodeError as error:
                raise AuthFailed(
                    f"The key for {self._endpoint.provider} has characters that no key has.",
                    remedy=f"Set {self._endpoint.key_variable or 'it'} again.",
                ) from error
        url = _url(f"{self._endpoint.base_url}{path}")
        request = self._client.build_request(method, url, content=body)
        response = await self._client.send(request, stream=True)
        if response.status_code == 200:
            return response
        said = await self._whole(response)
        raise refused(self._endpoint, response.status_code, said, response.headers)

    async def _whole(self, response: httpx2.Response) -> bytes:
        bounded = _Bounded(self._endpoint, self._bounds)
        received: list[bytes] = []
        async with aclosing(_chunks(response)) as chunks:
            async for chunk in chunks:
                bounded.count(chunk)
                received.append(chunk)
        return b"".join(received)

    def _open(self) -> httpx2.AsyncClient:
        # A server on this machine is never behind a proxy, and plain HTTP needs no certificates.
        parts = urlsplit(self._endpoint.base_url)
        is_here = is_loopback(parts.hostname or "")
        bounds = self._bounds
        return httpx2.AsyncClient(
            headers=self._headers,
            timeout=httpx2.Timeout(bounds.silence_s, connect=bounds.connect_s, pool=bounds.connect_s),
            limits=httpx2.Limits(keepalive_expiry=_KEPT_ALIVE_S),
            trust_env=not is_here,
            verify=False if is_here and parts.scheme == "http" else _certificates(),
        )

    def _mapped(self, error: httpx2.HTTPError | httpx2.InvalidURL) -> ModelError:
        provider, url = self._endpoint.provider, self._endpoint.base_url
        match error:
            case httpx2.ConnectTimeout() | httpx2.ConnectError() | httpx2.ProxyError():
                remedy = "Start the server there." if self._endpoint.is_local else "Check the network."
                return NetworkFailed(f"{provider} cannot be reached at {url}.", remedy=remedy)
            case httpx2.TimeoutException():
                return ModelTimeout(
                    f"{provider} was silent for {self._bounds.silence_s:g} s.",
                    remedy="Try again later, or choose another model.",
                )
            case httpx2.UnsupportedProtocol() | httpx2.InvalidURL() | httpx2.LocalProtocolError():
                return BadRequest(f"{url} cannot be asked.", remedy="Check the base URL and the key.")
            case httpx2.DecodingError():
                return not_the_protocol(self._endpoint, "bytes that cannot be unpacked")
            case _:
                return dropped(self._endpoint)


class _Bounded:
    """Counts what came, and when."""

    def __init__(self, endpoint: Endpoint, bounds: Bounds) -> None:
        self._endpoint = endpoint
        self._bounds = bounds
        self._left = bounds.max_bytes
        self._deadline = time.monotonic() + bounds.total_s

    def count(self, chunk: bytes) -> None:
        self._left -= len(chunk)
        if self._left < 0:
            raise not_the_protocol(self._endpoint, f"more than {self._bounds.max_bytes} bytes")
        if time.monotonic() > self._deadline:
            raise ModelTimeout(
                f"{self._endpoint.provider} did not end its reply within {self._bounds.total_s:g} s.",
                remedy="Ask for less at a time, or choose another model.",
            )


class _Intake:
    """From the bytes of a reply to the items in them: server-sent events, or one JSON document."""

    def __init__(self, reader: Reader, endpoint: Endpoint, bounds: Bounds, content_type: str) -> None:
        kind = content_type.partition(";")[0].strip().lower()
        if kind == "text/html":
            raise not_the_protocol(endpoint, "a web page")
        self._reader = reader
        self._endpoint = endpoint
        self._bounded = _Bounded(endpoint, bounds)
        self._parser = None if kind == "application/json" else EventParser()
        self._document: list[bytes] = []

    def take(self, chunk: bytes) -> list[StreamItem]:
        self._bounded.count(chunk)
        if self._parser is None:
            self._document.append(chunk)
            return []
        try:
            return self._read(self._parser.feed(chunk))
        except EventTooLarge as error:
            raise not_the_protocol(self._endpoint, "an event without an end") from error

    def end(self) -> list[StreamItem]:
        items: list[StreamItem] = []
        if not self._reader.is_done:
            rest = self._parser.flush() if self._parser is not None else [b"".join(self._document)]
            items = self._read(rest)
        items.extend(self._reader.end())
        return items

    def _read(self, events: list[bytes]) -> list[StreamItem]:
        items: list[StreamItem] = []
        for data in events:
            try:
                items.extend(self._feed(data))
            except (msgspec.MsgspecError, RecursionError) as error:
                raise not_the_protocol(self._endpoint, data[:200].decode("utf-8", "replace")) from error
        return items

    def _feed(self, data: bytes) -> Sequence[StreamItem]:
        try:
            return self._reader.feed(data)
        except (UnicodeDecodeError, msgspec.DecodeError):
            mended = _mended(data)
            if mended == data:
                raise
            return self._reader.feed(mended)


# Half of a character that is written as two escapes.
_HALF = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)


def _mended(data: bytes) -> bytes:
    """An event with whole characters only: small servers cut tokens inside them."""
    return _HALF.sub(b"\\\\ufffd", data.decode("utf-8", "replace").encode())


@cache
def _load_ahead() -> None:
    # The first request would load these, for 30 ms: meanwhile others wait for the disk.
    threading.Thread(target=lambda: [import_module(name) for name in LOADED_LATE]).start()


@lru_cache(maxsize=64)
def _url(text: str) -> httpx2.URL:
    return httpx2.URL(text)


@cache
def _certificates() -> ssl.SSLContext:
    # Loading them takes 30 ms: once for all models.
    return httpx2.create_ssl_context()


def _chunks(response: httpx2.Response) -> AsyncGenerator[bytes, None]:
    return response.aiter_bytes() if "content-encoding" in response.headers else response.aiter_raw()


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    # A connection can be used again only when its reply was read to the end, which mostly is here already.
    try:
        async with asyncio.timeout(_DRAIN_S):
            async for _ in chunks:
                pass
    except (TimeoutError, httpx2.HTTPError):
        return


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
