"""Servers over HTTP: both transports of the SDK's own server, and a login that a person makes."""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
import ssl
import stat
import subprocess
import sys
import threading
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from mainspring.app.mcp import servers_in
from mainspring.app.operations.mcp_login import log_in, log_out
from mainspring.app.operations.mcp_servers import ask_offers, rows
from mainspring.errors import UsageError
from mainspring.mcp.settings import McpServerSettings
from mainspring.mcp.tokens import read_tokens, token_file
from tests.mcp.conftest import PEER, Desk, call


@contextmanager
def served(kind: str) -> Iterator[str]:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    process = subprocess.Popen([sys.executable, str(PEER), kind, str(port)], stderr=subprocess.DEVNULL)
    try:
        while True:
            assert process.poll() is None
            with socket.socket() as tried:
                tried.settimeout(10)
                if tried.connect_ex(("127.0.0.1", port)) == 0:
                    break
        yield f"http://127.0.0.1:{port}/{'sse' if kind == 'sse' else 'mcp'}"
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("kind", ["http", "sse"])
def test_a_server_over_http_is_called_like_any_other(desk: Desk, kind: str) -> None:
    with served(kind) as url:
        desk.servers = {"web": McpServerSettings(url=url, transport=kind)}  # pyright: ignore[reportArgumentType]
        asyncio.run(desk.ask(call("mcp__web__add", a=4, b=4), call("mcp__web__large", megabytes=1), "done"))
    added, large = asyncio.run(desk.ended())
    assert (added.outcome, added.output) == ("ok", "sum 8")
    assert large.outcome == ("ok" if kind == "http" else large.outcome)


def test_an_address_where_nobody_answers_is_told(desk: Desk) -> None:
    desk.servers = {"web": McpServerSettings(url="http://127.0.0.1:9/mcp")}
    (server,) = servers_in(desk.workspace, desk.config).servers
    with pytest.raises(UsageError, match="web"):
        asyncio.run(ask_offers(desk.config, desk.workspace, server))


class Guarded(BaseHTTPRequestHandler):
    """A server that wants a token, and the authorization server that gives it; tokens last as long as a test wants."""

    lasts_s = 3600
    scheme = "http"
    good: ClassVar[set[str]] = set()
    refreshed = registered = 0
    clients: ClassVar[set[str]] = set()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
        return

    def do_GET(self) -> None:
        base, place = f"{self.scheme}://{self.headers['Host']}", urlsplit(self.path)
        if place.path.startswith("/.well-known/oauth-protected-resource"):
            self._json({"resource": f"{base}/mcp", "authorization_servers": [base]})
        elif place.path.startswith("/.well-known/oauth-authorization-server"):
            names = {
                f"{name}_endpoint": f"{base}/{name}" for name in ("authorization", "token", "registration")
            }
            more = {"response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"]}
            self._json({"issuer": base, **names, **more})
        elif place.path == "/authorization":
            given = parse_qs(place.query)
            back = urlencode({"code": "c0de", "state": given["state"][0]})
            self.send_response(302)
            self.send_header("Location", f"{given['redirect_uri'][0]}?{back}")
            self.end_headers()
        else:
            self.send_error(404 if place.path != "/mcp" else 405)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        if self.path == "/registration":
            type(self).registered += 1
            self._json({**json.loads(body), "client_id": "us"}, 201)
        elif self.path == "/token":
            kind = parse_qs(body.decode())["grant_type"][0]
            self.clients.add(self.headers.get("Authorization", ""))
            type(self).refreshed += kind == "refresh_token"
            token = secrets.token_hex(8)
            self.good.add(token)
            more = {"token_type": "Bearer", "expires_in": self.lasts_s, "refresh_token": "again"}
            self._json({"access_token": token, **more})
        elif self.headers.get("Authorization", "").removeprefix("Bearer ") not in self.good:
            self.send_response(401)
            self.send_header("WWW-Authenticate", "Bearer")
            self.send_header("Content-Length", "0")
            self.end_headers()
        else:
            self._answer(json.loads(body))

    def _answer(self, message: dict[str, Any]) -> None:
        if "id" not in message:
            self.send_response(202)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        results: dict[str, Any] = {
            "initialize": {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "guarded", "version": "1"},
            },
            "tools/list": {"tools": [{"name": "open", "inputSchema": {"type": "object"}}]},
        }
        if message["method"] in results:
            self._json({"jsonrpc": "2.0", "id": message["id"], "result": results[message["method"]]})
        else:
            error = {"code": -32601, "message": "Method not found"}
            self._json({"jsonrpc": "2.0", "id": message["id"], "error": error})

    def _json(self, value: Any, status: int = 200) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def guarded(lasts_s: int, certificate: Path | None = None) -> Iterator[tuple[str, type[Guarded]]]:
    """Its address, and what it counts; with a certificate it is encrypted."""
    scheme = "https" if certificate else "http"
    own = {"lasts_s": lasts_s, "scheme": scheme, "good": set(), "clients": set(), "refreshed": 0}
    handler = type("Handler", (Guarded,), own)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, certificate.with_suffix(".key"))
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"{scheme}://127.0.0.1:{server.server_port}/mcp", handler
    finally:
        server.shutdown()
        server.server_close()


def visit(url: str) -> None:
    """A person who says yes."""
    threading.Thread(target=lambda: urllib.request.urlopen(url).read()).start()


def test_a_server_that_wants_a_login_says_so_until_a_person_logged_in(desk: Desk) -> None:
    with guarded(3600) as (url, handler):
        desk.servers = {"web": McpServerSettings(url=url)}
        (server,) = servers_in(desk.workspace, desk.config).servers
        with pytest.raises(UsageError) as error:
            asyncio.run(ask_offers(desk.config, desk.workspace, server))
        assert "mcp login web" in error.value.remedy
        assert [row.state for row in rows(desk.config, desk.workspace)[0]] == ["needs-auth"]

        asyncio.run(log_in(desk.config, desk.workspace, "web", visit))
        path = token_file(desk.config.home, server.sha256)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert len(asyncio.run(ask_offers(desk.config, desk.workspace, server)).tools) == 1
        assert [row.state for row in rows(desk.config, desk.workspace)[0]] == ["known"]
        assert handler.refreshed == 0

        assert log_out(desk.config, desk.workspace, "web")
        assert not log_out(desk.config, desk.workspace, "web")
        with pytest.raises(UsageError):
            asyncio.run(ask_offers(desk.config, desk.workspace, server))


def test_a_client_that_was_registered_by_hand_is_used_as_it_is(desk: Desk) -> None:
    with guarded(3600) as (url, handler):
        desk.servers = {"web": McpServerSettings(url=url, client_id="mine", client_secret="s3cret")}
        asyncio.run(log_in(desk.config, desk.workspace, "web", visit))
        (server,) = servers_in(desk.workspace, desk.config).servers
        assert asyncio.run(ask_offers(desk.config, desk.workspace, server)).tools
        assert handler.registered == 0
        assert handler.clients == {f"Basic {b64encode(b'mine:s3cret').decode()}"}


def test_a_token_is_refreshed_before_it_ends(desk: Desk) -> None:
    with guarded(30) as (url, handler):  # within the minute in which a token counts as ended
        desk.servers = {"web": McpServerSettings(url=url)}
        (server,) = servers_in(desk.workspace, desk.config).servers
        asyncio.run(log_in(desk.config, desk.workspace, "web", visit))
        before = read_tokens(token_file(desk.config.home, server.sha256)).tokens
        assert asyncio.run(ask_offers(desk.config, desk.workspace, server)).tools
        assert handler.refreshed > 0
        assert read_tokens(token_file(desk.config.home, server.sha256)).tokens != before
