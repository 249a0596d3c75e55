"""One request to a server that a person named, and its whole answer: through the proxy that the environment
names, with the certificates that it names, bounded in time and size. Nothing is retried or redirected."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from urllib.parse import quote, urlsplit

import msgspec

from mainspring.net import http
from mainspring.net.proxies import proxy_for

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
    parts, proxy_url = urlsplit(url), proxy_for(url, environment)
    proxy = urlsplit(proxy_url) if proxy_url else None
    target = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~")
    if parts.query:
        target += "?" + quote(parts.query, safe="/%:@!$&'()*+,;=~?[]")
    sent = [("host", http.authority(parts)), ("user-agent", "mainspring"), ("connection", "close")]
    sent += [*(headers or {}).items(), *http.credentials(parts, "authorization")]
    if method != "GET":
        sent.append(("content-length", str(len(body))))
    if proxy is not None and parts.scheme == "http":
        target = f"http://{http.authority(parts)}{target}"
        sent += http.credentials(proxy, "proxy-authorization")
    asked = http.request(method, target, sent)
    async with asyncio.timeout(timeout_s):
        connection = await http.connect(parts, proxy, silence_s=timeout_s)
        try:
            head = await connection.exchange(asked, body)
            read = bytearray()
            while (chunk := await connection.read()) is not None:
                read += chunk
                if len(read) > _MAX_BYTES:
                    raise http.NotHttp(f"the answer has more than {_MAX_BYTES} bytes")
            return WholeAnswer(head.status, head.headers, bytes(read))
        finally:
            connection.abort()
            await connection.gone()
