"""HTTP of the SDK, by the rules of all our HTTP: the same proxies, exceptions from them, and certificates.
Only the broker loads this module.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

import httpx2
from mcp.shared._httpx_utils import MCP_DEFAULT_SSE_READ_TIMEOUT, MCP_DEFAULT_TIMEOUT

from mainspring.net.http import trusted
from mainspring.net.proxies import proxy_for

_TIMEOUT = httpx2.Timeout(MCP_DEFAULT_TIMEOUT, read=MCP_DEFAULT_SSE_READ_TIMEOUT)


class HttpWays(httpx2.AsyncBaseTransport):
    """Sends each request directly, or through the proxy that `environment` names for its address. `refusal`
    is the status of the last answer, if it was an error: the SDK tells it of some requests only."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.refusal = 0
        self._environment = environment
        self._ways: dict[str, httpx2.AsyncHTTPTransport] = {}

    def client(self, **options: Any) -> httpx2.AsyncClient:
        """A client as the SDK makes them."""
        given: dict[str, Any] = {"timeout": _TIMEOUT}
        given |= {name: value for name, value in options.items() if value is not None}
        return httpx2.AsyncClient(transport=self, trust_env=False, **given)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        proxy = proxy_for(str(request.url), self._environment)
        if proxy not in self._ways:
            outer = trusted() if proxy.startswith("https:") else None
            given = httpx2.Proxy(proxy, ssl_context=outer) if proxy else None
            self._ways[proxy] = httpx2.AsyncHTTPTransport(verify=trusted(), proxy=given)
        response = await self._ways[proxy].handle_async_request(request)
        self.refusal = response.status_code if response.is_error else 0
        return response

    async def aclose(self) -> None:
        for way in self._ways.values():
            await way.aclose()


def unreachable(error: httpx2.TransportError) -> str:
    """Why a server could not be asked, as the end of a sentence about it."""
    place = ""
    if (request := getattr(error, "_request", None)) is not None:
        place = (
            f" at {request.url.scheme}://{request.url.netloc.decode('ascii', 'replace').rpartition('@')[2]}"
        )
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return (
                f"the certificate{place} is not trusted: {cause.verify_message}; SSL_CERT_FILE names further"
                " certificates to trust"
            )
        cause = cause.__cause__ or cause.__context__
    why = str(error) or type(error).__name__
    match error:
        case httpx2.ProxyError():
            return f"the proxy on the way to it refused: {why}"
        case httpx2.ConnectError() | httpx2.ConnectTimeout():
            return f"it cannot be reached{place} ({why}); check the network and the proxy"
        case _:
            return why
