"""Holds the server: which address and names, TLS or not, and until when."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import FrameType

import h11
import msgspec
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from mainspring.app.operations.devices import Access
from mainspring.errors import UsageError
from mainspring.serve.certificate import fingerprint
from mainspring.serve.server import WebServer
from mainspring.serve.tunnel import Tunnel, opened_tunnel
from mainspring.settings import Config

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_STOP_WITHIN_S = 10
_BACKLOG = 1024
REQUEST_WITHIN_S = 15.0


class Listening(msgspec.Struct, frozen=True, kw_only=True):
    """Where to listen, and by which further names the server may be called. Port 0 is any free one. With
    `chats_in` chats that speak OpenAI's protocols get agents that work in that folder."""

    host: str = "127.0.0.1"
    port: int = 8790
    names: tuple[str, ...] = ()
    cert: Path | None = None
    key: Path | None = None
    is_open: bool = False
    chats_in: Path | None = None
    tunnel: str = ""

    @property
    def is_secure(self) -> bool:
        return self.cert is not None

    @property
    def is_exposed(self) -> bool:
        return self.host not in _LOOPBACK


def serve(
    config: Config,
    place: Listening,
    on_ready: Callable[[str, Access, Tunnel | None], None],
    on_tunnel_end: Callable[[str], None] = lambda _: None,
) -> None:
    """Serves the page and its interface until a signal ends it; `on_ready` is told the address, who may come
    in, and the tunnel if there is one."""
    _check(place)
    access = Access(config)
    shown = fingerprint(place.cert) if place.cert else ""
    web = WebServer(config, is_secure=place.is_secure, chats_in=place.chats_in, fingerprint=shown)
    if place.tunnel and (place.is_secure or place.is_exposed):
        raise UsageError(
            "--tunnel is for a server of this machine alone.", remedy="Leave out --host and --cert."
        )
    with _bound(place) as listening, ExitStack() as stack:
        tunnel = None
        if place.tunnel:
            port = listening.getsockname()[1]
            tunnel = stack.enter_context(opened_tunnel(place.tunnel, port, config.environment, on_tunnel_end))

        def ready(address: str, access: Access) -> None:
            stack.enter_context(access.announced(tunnel.address if tunnel else address))
            on_ready(address, access, tunnel)

        outside = tunnel.address if tunnel else ""
        run_app(
            lambda hosts: web.app(hosts, is_open=place.is_open, tunnel=outside),
            access,
            place,
            ready,
            web.end_streams,
            listening,
        )


def run_app(
    app: Callable[[frozenset[str]], ASGIApp],
    access: Access,
    place: Listening,
    on_ready: Callable[[str, Access], None],
    on_end: Callable[[], None] = lambda: None,
    bound: socket.socket | None = None,
) -> None:
    """Serves an application, which is told the names that it may be called by; `on_end` ends its streams.
    A socket that is `bound` already is used."""
    _check(place)
    with bound or _bound(place) as listening:
        port = listening.getsockname()[1]
        scheme = "https" if place.is_secure else "http"
        name = next(iter(place.names), place.host)
        _ = access.token  # made before anybody can ask
        address = f"{scheme}://{_in_url(name)}:{port}"
        server = _Server(
            on_end,
            uvicorn.Config(
                app(_hosts(place, port)),
                http=Impatient,
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                lifespan="on",
                ssl_certfile=place.cert,
                ssl_keyfile=place.key,
                timeout_graceful_shutdown=_STOP_WITHIN_S,
                h11_max_incomplete_event_size=64 * 1024,
            ),
        )
        on_ready(address, access)
        server.run(sockets=[listening])


class Impatient(H11Protocol):
    """Gives up a client that does not send the whole of a request in time; else who sends little by little
    could hold all connections, without a token."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        self._look(None)

    def _look(self, before: object) -> None:
        if self.transport.is_closing():
            return
        now = self.cycle, self.conn.their_state
        if now == before and now[1] in (h11.IDLE, h11.SEND_BODY):
            self.transport.abort()
        else:
            self.loop.call_later(REQUEST_WITHIN_S, self._look, now)


class _Server(uvicorn.Server):
    """Ends its streams before it waits for its connections, which would else last as long as it lets them. It
    looks up once a second, for the date in its headers, and not ten times: all that an idle server does. A
    signal is obeyed at once."""

    def __init__(self, on_end: Callable[[], None], config: uvicorn.Config) -> None:
        super().__init__(config)
        self._on_end = on_end

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._on_end()
        await super().shutdown(sockets)

    async def main_loop(self) -> None:
        self._loop, self._leaving = asyncio.get_running_loop(), asyncio.Event()
        while not await self.on_tick(0):
            try:
                async with asyncio.timeout(1.0):
                    await self._leaving.wait()
            except TimeoutError:
                pass

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        if hasattr(self, "_leaving"):  # else it has not begun, and sees for itself
            self._loop.call_soon_threadsafe(self._leaving.set)


def _hosts(place: Listening, port: int) -> frozenset[str]:
    """What a Host header may say: our own names, with the port unless it is the usual one."""
    usual = 443 if place.is_secure else 80
    names = {_in_url(name.lower()) for name in (*_LOOPBACK, place.host, *place.names)}
    plain = names if port == usual else set[str]()
    return frozenset(plain.union(f"{name}:{port}" for name in names))


def _in_url(name: str) -> str:
    return f"[{name}]" if ":" in name else name


def _bound(place: Listening) -> socket.socket:
    family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((place.host, place.port))
        listening.listen(_BACKLOG)  # who is told the address may come at once, and waits
    except OSError as error:
        listening.close()
        raise UsageError(
            f"Port {place.port} of {place.host} cannot be used: {error.strerror or error}.",
            remedy="Choose another with --port; 0 takes any free one.",
        ) from error
    return listening


def _check(place: Listening) -> None:
    if (place.cert is None) != (place.key is None):
        raise UsageError("--cert and --key belong together.")
    if place.cert is None or place.key is None:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(place.cert, place.key)
    except OSError as error:  # also what is wrong inside the files
        raise UsageError(f"The certificate or its key cannot be used: {error.strerror or error}.") from error
