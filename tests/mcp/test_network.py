"""MCP over HTTP, its logins included, on a network as people have it: proxies, exceptions from them, certificates of
one's own, and no network at all."""

from __future__ import annotations

import asyncio
import socket
import socketserver
import ssl
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.error import HTTPError

import pytest

from mainspring.app.mcp import servers_in
from mainspring.app.operations.mcp_login import log_in
from mainspring.app.operations.mcp_servers import ask_offers
from mainspring.errors import UsageError
from mainspring.mcp.settings import McpServerSettings
from tests.mcp.conftest import Desk
from tests.mcp.test_http import guarded, served
from tests.models.wires.test_transport import CERTIFICATE

DEAD = "http://127.0.0.1:9"


class _Proxied(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        first = self.rfile.readline()
        method, target, _ = first.decode().split()
        head = [line for line in iter(self.rfile.readline, b"\r\n") if line]
        self.server.seen.append(f"{method} {target}")  # pyright: ignore[reportAttributeAccessIssue]
        with socket.create_connection(("127.0.0.1", self.server.port)) as there:  # pyright: ignore[reportAttributeAccessIssue]
            if method == "CONNECT":
                self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                path = "/" + target.split("/", 3)[3]
                kept = [line for line in head if not line.lower().startswith((b"host:", b"connection:"))]
                host = f"Host: {self.server.host or target.split('/')[2]}\r\n"  # pyright: ignore[reportAttributeAccessIssue]
                start = f"{method} {path} HTTP/1.1\r\n{host}Connection: close\r\n"
                there.sendall(start.encode() + b"".join(kept) + b"\r\n")
            back = threading.Thread(target=self._pass, args=(there.recv, self.wfile.write))
            back.start()
            self._pass(self.rfile.read1, there.sendall)
            with suppress(OSError):
                there.shutdown(socket.SHUT_WR)
            back.join()

    def _pass(self, read: Any, write: Any) -> None:
        with suppress(OSError):
            while data := read(65536):
                write(data)
            self.connection.shutdown(socket.SHUT_WR)


class Proxy(socketserver.ThreadingTCPServer):
    """Connects everybody to one port, and remembers what they asked for. `host` is told to the server there as its
    own name, instead of the one that was asked for."""

    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Proxied)
        self.port = port
        self.host = ""
        self.seen: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def proxy_to(url: str) -> Iterator[Proxy]:
    """A proxy behind which there is only the server at this address."""
    with Proxy(int(url.split(":")[2].split("/", maxsplit=1)[0])) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        yield proxy
        proxy.shutdown()


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        return None


def visitor(proxy: Proxy | None = None) -> Any:
    """A person who says yes, with a browser that uses the proxy for everything but this machine."""
    way = urllib.request.ProxyHandler({"http": proxy.url, "https": proxy.url} if proxy else {})
    trusting = urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=str(CERTIFICATE)))

    def browse(url: str) -> None:
        try:
            urllib.request.build_opener(way, trusting, _Stay()).open(url)
        except HTTPError as moved:
            moved.close()
            urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
                moved.headers["Location"]
            ).close()

    return lambda url: threading.Thread(target=browse, args=(url,)).start()


def offers(desk: Desk, url: str, **environment: str) -> int:
    """How many tools a server at this address offers."""
    desk.environment = environment
    desk.servers = {"web": McpServerSettings(url=url, transport="sse" if url.endswith("/sse") else "")}
    (server,) = servers_in(desk.workspace, desk.config).servers
    return len(asyncio.run(ask_offers(desk.config, desk.workspace, server)).tools)


def problem(desk: Desk, url: str, **environment: str) -> str:
    with pytest.raises(UsageError) as failed:
        offers(desk, url, **environment)
    return failed.value.message


def test_a_server_and_its_login_are_asked_through_the_proxy(desk: Desk) -> None:
    with guarded(3600) as (url, _), proxy_to(url) as proxy:
        desk.environment = {"HTTP_PROXY": proxy.url}
        desk.servers = {"web": McpServerSettings(url="http://mcp.test/mcp")}
        asyncio.run(log_in(desk.config, desk.workspace, "web", visitor(proxy)))
        assert offers(desk, "http://mcp.test/mcp", HTTP_PROXY=proxy.url) == 1
        for path in ("mcp", "registration", "token", ".well-known/oauth-protected-resource/mcp"):
            assert any(f" http://mcp.test/{path}" in each for each in proxy.seen), path


def test_an_encrypted_server_is_asked_through_a_tunnel_with_certificates_of_ones_own(desk: Desk) -> None:
    with guarded(3600, CERTIFICATE) as (url, _), proxy_to(url) as proxy:
        own = {"HTTPS_PROXY": proxy.url, "SSL_CERT_FILE": str(CERTIFICATE)}
        desk.environment = own
        desk.servers = {"web": McpServerSettings(url="https://model.test/mcp")}
        asyncio.run(log_in(desk.config, desk.workspace, "web", visitor(proxy)))
        assert offers(desk, "https://model.test/mcp", **own) == 1
        assert set(proxy.seen) == {"CONNECT model.test:443"}


def test_a_certificate_that_nobody_vouches_for_is_refused_with_the_remedy(desk: Desk) -> None:
    with guarded(3600, CERTIFICATE) as (url, _):
        url = url.replace("127.0.0.1", "localhost")
        assert "SSL_CERT_FILE" in problem(desk, url)
        assert "a person must log in" in problem(desk, url, SSL_CERT_FILE=str(CERTIFICATE))


def test_exceptions_and_this_machine_are_asked_directly(desk: Desk) -> None:
    with guarded(3600) as (url, handler), proxy_to(url) as proxy:
        handler.good.add("")  # it wants no login
        here = url.replace("127.0.0.1", "0.0.0.0")
        assert offers(desk, here, HTTP_PROXY=proxy.url) == 1
        assert proxy.seen
        proxy.seen.clear()
        assert offers(desk, here, HTTP_PROXY=proxy.url, NO_PROXY="other.test,0.0.0.0") == 1
        assert offers(desk, url, ALL_PROXY=proxy.url) == 1
        assert proxy.seen == []


def test_events_of_a_server_come_through_the_proxy(desk: Desk) -> None:
    with served("sse") as url, proxy_to(url) as proxy:
        proxy.host = f"127.0.0.1:{proxy.port}"
        assert offers(desk, "http://mcp.test/sse", HTTP_PROXY=proxy.url) > 1
        assert proxy.seen[0] == "GET http://mcp.test/sse"


def test_an_address_that_is_wrong_is_told_with_the_status(desk: Desk) -> None:
    with served("http") as url:
        assert "it answered 404" in problem(desk, f"{url}/sse")
        assert "it answered 404" in problem(desk, f"{url}/other")


def test_without_a_network_there_is_a_sentence(desk: Desk) -> None:
    assert f"it cannot be reached at {DEAD}" in problem(desk, f"{DEAD}/mcp")
    told = problem(desk, "https://user:word@mcp.test/mcp", HTTPS_PROXY=DEAD)
    assert "it cannot be reached at https://mcp.test" in told
    assert "check the network and the proxy" in told
    assert "HTTP_PROXY" in problem(desk, "http://mcp.test/mcp", HTTP_PROXY="socks5://127.0.0.1:9")
    desk.environment = {"HTTPS_PROXY": DEAD}
    desk.servers = {"web": McpServerSettings(url="https://mcp.test/mcp")}
    with pytest.raises(UsageError, match=r"cannot be reached at https://mcp\.test"):
        asyncio.run(log_in(desk.config, desk.workspace, "web", visitor()))
