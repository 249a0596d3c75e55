"""Exchanges with one model server over connections that are kept, directly or through a proxy.

Nothing here retries, and nothing foreign escapes: what goes wrong is a `ModelError`.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from urllib.parse import quote, urlsplit

import h11
import msgspec

from mainspring.disk.log import is_logging, log
from mainspring.errors import AuthFailed, BadRequest, ModelError, ModelTimeout, NetworkFailed
from mainspring.models.failures import Endpoint, dropped, not_the_protocol
from mainspring.net import http


class TransportLimits(msgspec.Struct, frozen=True):
    """`silence_s` is the longest wait for the next byte, also for the first; `total_s` for a whole reply."""

    connect_s: float = 15.0
    silence_s: float = 300.0
    total_s: float = 3600.0
    max_bytes: int = 256 * 1024 * 1024


class Transport:
    """Each exchange has a connection of its own while it lasts."""

    def __init__(
        self, endpoint: Endpoint, headers: dict[str, str], bounds: TransportLimits, proxy: str = ""
    ) -> None:
        self._endpoint = endpoint
        self._bounds = bounds
        self._url = urlsplit(endpoint.base_url)
        self._proxy = urlsplit(proxy) if proxy else None
        self._headers = list(headers.items())
        self._idle: list[http.Connection] = []

    async def ask(self, method: str, path: str, body: bytes) -> ServerResponse:
        """Sends one request; returns when the head of its answer is here."""
        asked = self._request(method, path, body)
        started = time.monotonic()
        if is_logging():
            log(
                "request",
                method=method,
                host=self._url.hostname,
                path=path.partition("?")[0],
                bytes=len(body),
            )
        connection = await self._kept() or await self._connect()
        try:
            head = await connection.exchange(asked, body, total_s=self._bounds.total_s)
        except OSError as error:
            connection.abort()
            raise self.explained(error) from error
        except BaseException:
            connection.abort()
            raise
        if is_logging():
            log("response", status=head.status, after_s=round(time.monotonic() - started, 3))
        return ServerResponse(self, connection, head, self._bounds.max_bytes)

    def too_large(self) -> ModelError:
        return not_the_protocol(self._endpoint, f"more than {self._bounds.max_bytes} bytes")

    def give_back(self, connection: http.Connection) -> None:
        if connection.is_reusable():
            self._idle.append(connection)
        else:
            connection.abort()

    async def close(self) -> None:
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.abort()
            await connection.gone()

    def explained(self, error: OSError) -> ModelError:
        """What went wrong on the way, as the error that it means."""
        if is_logging():
            log("connection failed", error=type(error).__name__, says=error)
        match error:
            case http.TooLong():
                return ModelTimeout(
                    f"{self._endpoint.provider} did not end its reply within {self._bounds.total_s:g} s.",
                    remedy="Ask for less at a time, or choose another model.",
                )
            case TimeoutError():
                return ModelTimeout(
                    f"{self._endpoint.provider} sent nothing for {self._bounds.silence_s:g} s.",
                    remedy="Try again later, or choose another model.",
                )
            case http.CannotUnpack():
                return not_the_protocol(self._endpoint, "bytes that cannot be unpacked")
            case _:
                return dropped(self._endpoint)

    async def _kept(self) -> http.Connection | None:
        while self._idle:
            connection = self._idle.pop()
            is_fresh = False
            try:
                is_fresh = await connection.is_fresh()
            finally:
                if not is_fresh:
                    connection.abort()
            if is_fresh:
                return connection
        return None

    def _request(self, method: str, path: str, body: bytes) -> h11.Request:
        url, proxy = self._url, self._proxy
        target = f"{url.path}{path}"
        if url.query:
            target += f"{'&' if '?' in path else '?'}{url.query}"
        target = quote(target, safe="/%:@!$&'()*+,;=~?[]")
        try:
            host = http.authority(url)
            headers = [("host", host), *self._headers, ("content-length", str(len(body)))]
            headers += http.credentials(url, "authorization")
            if proxy is not None and url.scheme == "http":
                target = f"http://{host}{target}"
                headers += http.credentials(proxy, "proxy-authorization")
            return http.request(method, target, headers)
        except UnicodeEncodeError as error:
            variable = self._endpoint.key_variable or "it"
            raise AuthFailed(
                f"{self._endpoint.provider} has an invalid key: some characters cannot be in an HTTP header.",
                remedy=f"Set {variable} again.",
            ) from error
        except ValueError as error:
            raise self._not_an_address() from error

    async def _connect(self) -> http.Connection:
        try:
            http.place(self._url)
        except ValueError as error:
            raise self._not_an_address() from error
        try:
            async with asyncio.timeout(self._bounds.connect_s):
                return await http.connect(self._url, self._proxy, silence_s=self._bounds.silence_s)
        except ssl.SSLCertVerificationError as error:
            provider, why = self._endpoint.provider, error.verify_message
            raise NetworkFailed(
                f"{provider} has a certificate that is not trusted: {why}.",
                remedy="Check the address; SSL_CERT_FILE names further certificates to trust.",
            ) from error
        except (OSError, ValueError) as error:
            way = f" through the proxy {self._proxy.hostname}" if self._proxy is not None else ""
            raise NetworkFailed(
                f"{self._endpoint.provider} cannot be reached at {self._endpoint.base_url}{way}.",
                remedy="Start the server there." if self._endpoint.is_local else "Check the network.",
            ) from error

    def _not_an_address(self) -> BadRequest:
        return BadRequest(
            f"{self._endpoint.base_url} cannot be asked.", remedy="Check the base URL and the key."
        )


class ServerResponse:
    """What a server answers: its head is here, its body is still to be read; `release` it in any case."""

    def __init__(
        self, transport: Transport, connection: http.Connection, head: http.ResponseHead, max_bytes: int
    ) -> None:
        self.status = head.status
        self.headers = head.headers
        self._transport = transport
        self._connection = connection
        self._left_bytes = max_bytes
        self._read_bytes = 0

    async def read(self) -> bytes | None:
        """Some more of the body, None at its end."""
        try:
            chunk = await self._connection.read()
        except OSError as error:
            raise self._transport.explained(error) from error
        self._left_bytes -= len(chunk or b"")
        self._read_bytes += len(chunk or b"")
        if self._left_bytes < 0:
            raise self._transport.too_large()
        return chunk

    async def drain(self) -> None:
        await self._connection.drain()

    def release(self) -> None:
        if is_logging():
            log("response read", bytes=self._read_bytes)
        self._transport.give_back(self._connection)
