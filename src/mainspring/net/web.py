"""Fetches a page from the public internet, and only from there.

The name is resolved once, every address it has is checked, and the connection goes to a checked address while
the certificate is checked against the name; so neither a private address, nor a redirect, nor a name that
changes its address between check and use leads into the machine or its network. Bounded in bytes and time.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable
from urllib.parse import SplitResult, quote, urljoin, urlsplit

import msgspec

from mainspring.errors import MainspringError
from mainspring.net import http
from mainspring.patterns import lazy_pattern

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MAX_REDIRECTS = 5
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_HEADERS = [
    ("user-agent", "mainspring"),
    ("accept", "text/html,text/plain,application/json;q=0.9,*/*;q=0.5"),
    ("accept-encoding", "gzip"),
    ("connection", "close"),
]
_CHARSET = lazy_pattern(r"charset=[\"']?([\w.:-]+)", re.IGNORECASE)


class FetchFailed(MainspringError):
    """The page was not had; the message says why."""


class WebPage(msgspec.Struct, frozen=True, kw_only=True):
    """What came. `url` is where it came from in the end; `is_cut` says that there was more."""

    url: str
    status: int
    media_type: str
    charset: str
    data: bytes
    is_cut: bool = False


def is_public(address: Address) -> bool:
    """Whether an address belongs to the open internet. Addresses that carry another one are judged by it."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if address.teredo:
            return False
        if inner is not None:
            return is_public(inner)
    return address.is_global and not address.is_multicast and not address.is_reserved


async def resolve(host: str, port: int) -> list[str]:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise FetchFailed(f"The host {host} cannot be found.") from error
    return list(dict.fromkeys(str(item[4][0]) for item in found))


class Web:
    """`is_allowed` and `resolve` are given by tests, which have no internet."""

    def __init__(
        self,
        *,
        is_allowed: Callable[[Address], bool] = is_public,
        resolve: Callable[[str, int], Awaitable[list[str]]] = resolve,
        timeout_s: float = 30.0,
        max_bytes: int = 4 * 1024 * 1024,
    ) -> None:
        self._is_allowed = is_allowed
        self._resolve = resolve
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes

    async def fetch(self, url: str) -> WebPage:
        """Follows redirects, each checked like the first address. Raises `FetchFailed`."""
        try:
            async with asyncio.timeout(self._timeout_s):
                for _ in range(_MAX_REDIRECTS + 1):
                    page = await self._get(url)
                    if isinstance(page, WebPage):
                        return page
                    url = page
        except TimeoutError as error:
            raise FetchFailed(f"{url} did not answer within {self._timeout_s:g} s.") from error
        except (OSError, ValueError) as error:
            raise FetchFailed(f"{url} could not be fetched: {error or type(error).__name__}.") from error
        raise FetchFailed(f"{url} redirects more than {_MAX_REDIRECTS} times.")

    async def _get(self, url: str) -> WebPage | str:
        """The page, or where it says that it is."""
        host, port = host_of(url)
        address = await self._checked(host, port)
        parts = urlsplit(url)
        asked = http.request("GET", _target(parts), [("host", http.authority(parts)), *_HEADERS])
        tls = await http.tls_for(parts)
        # Never through a proxy: it would resolve the name again, out of our sight.
        connection = await http.Connection.opened(
            address, port, tls=tls, name=host, silence_s=self._timeout_s
        )
        try:
            head = await connection.exchange(asked)
            target = head.headers.get("location")
            if head.status in _REDIRECTS and target:
                return urljoin(url, target)
            return await self._read(url, head, connection)
        finally:
            connection.abort()
            await connection.gone()

    async def _checked(self, host: str, port: int) -> str:
        """An address of the host; none of its addresses may be forbidden."""
        found = await self._resolve(host, port)
        for text in found:
            if not self._is_allowed(ipaddress.ip_address(text.partition("%")[0])):
                raise FetchFailed(f"{host} is not on the public internet ({text}), so it is not fetched.")
        if not found:
            raise FetchFailed(f"The host {host} has no address.")
        return found[0]

    async def _read(self, url: str, head: http.ResponseHead, connection: http.Connection) -> WebPage:
        parts: list[bytes] = []
        size = 0
        while size <= self._max_bytes and (chunk := await connection.read()) is not None:
            parts.append(chunk)
            size += len(chunk)
        kind = head.headers.get("content-type", "")
        charset = _CHARSET.search(kind)
        return WebPage(
            url=url,
            status=head.status,
            media_type=kind.partition(";")[0].strip().lower(),
            charset=charset[1] if charset else "",
            data=b"".join(parts)[: self._max_bytes],
            is_cut=size > self._max_bytes,
        )


def host_of(url: str) -> tuple[str, int]:
    """The host and port that a URL names; raises `FetchFailed` when it is not one to fetch."""
    try:
        parts = urlsplit(url)
        found = http.place(parts)
    except ValueError as error:
        raise FetchFailed(
            f"{url[:200]} is not a web address: it must be http:// or https:// and a host."
        ) from error
    if parts.username is not None:
        raise FetchFailed("A URL with a user name in it is not fetched.")
    return found


def _target(parts: SplitResult) -> str:
    path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~")
    return f"{path}?{quote(parts.query, safe='/%:@!$&()*+,;=~?[]')}" if parts.query else path
