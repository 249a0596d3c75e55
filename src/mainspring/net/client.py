"""One request to a server that a person named, and its whole answer: through the proxy that the environment
names, with the certificates that it names, bounded in time and size. Nothing is retried or redirected."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from urllib.parse import quote, urlsplit

import msgspec

from mainspring.net import http
from mainspring.net.proxies import proxy_for
from mainspring.net.sse import EventParser, EventTooLarge

_MAX_BYTES = 64 * 1024 * 1024


class WholeAnswer(msgspec.Struct, frozen=True):
    status: int
    headers: dict[str, str]
    body: bytes


async def send_request(
    method: str,
    url: str,
    *,
    environment: Mapping[str, str],
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
    timeout_s: float = 30.0,
) -> WholeAnswer:
    """Raises `OSError` for what goes wrong on the way, `ValueError` for what cannot be sent."""
    async with asyncio.timeout(timeout_s):
        asked = _asked(method, url, environment, headers or {}, body, timeout_s)
        async with asked as (head, connection):
            read = bytearray()
            while (chunk := await connection.read()) is not None:
                read += chunk
                if len(read) > _MAX_BYTES:
                    raise http.NotHttp(f"the answer has more than {_MAX_BYTES} bytes")
            return WholeAnswer(head.status, head.headers, bytes(read))


async def stream_events(
    url: str, *, environment: Mapping[str, str], headers: Mapping[str, str], silence_s: float
) -> AsyncGenerator[tuple[int, bytes]]:
    """The status of an answer with an empty text, then the data of its server-sent events as they come; with
    a status other than 200 its body instead."""
    async with _asked("GET", url, environment, headers, b"", silence_s) as (head, connection):
        yield head.status, b""
        parser, is_stream = EventParser(), head.status == 200
        while (chunk := await connection.read()) is not None:
            try:
                found = parser.feed(chunk) if is_stream else (chunk,)
            except EventTooLarge as error:
                raise http.NotHttp("an event of the stream has no end") from error
            for data in found:
                yield head.status, data


@asynccontextmanager
async def _asked(
    method: str,
    url: str,
    environment: Mapping[str, str],
    headers: Mapping[str, str],
    body: bytes,
    silence_s: float,
) -> AsyncGenerator[tuple[http.ResponseHead, http.Connection]]:
    """The head of the answer, and the connection that its body is read from."""
    parts, proxy_url = urlsplit(url), proxy_for(url, environment)
    proxy = urlsplit(proxy_url) if proxy_url else None
    target = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~")
    if parts.query:
        target += "?" + quote(parts.query, safe="/%:@!$&'()*+,;=~?[]")
    sent = [("host", http.authority(parts)), ("user-agent", "mainspring"), ("connection", "close")]
    sent += [*headers.items(), *http.credentials(parts, "authorization")]
    if method != "GET":
        sent.append(("content-length", str(len(body))))
    if proxy is not None and parts.scheme == "http":
        target = f"http://{http.authority(parts)}{target}"
        sent += http.credentials(proxy, "proxy-authorization")
    asked = http.request(method, target, sent)
    connection = await http.connect(parts, proxy, silence_s=silence_s)
    try:
        yield await connection.exchange(asked, body), connection
    finally:
        connection.abort()
        await connection.gone()
