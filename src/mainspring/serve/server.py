"""The ASGI application: the table of operations, streams, pairing and the page, behind the guard."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path as FilePath
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route as Path
from starlette.types import ASGIApp

from mainspring.app.operations.devices import Access, Device, may
from mainspring.app.operations.presence import note_shown
from mainspring.app.operations.sessions import find_session, list_sessions
from mainspring.errors import JournalOwned, JournalUnwritable, MainspringError, UnknownSession, UsageError
from mainspring.events.escaping import escape_json
from mainspring.serve import openapi
from mainspring.serve.answer_links import FILES, AnswerLinks, LinkAnswer, LinkCode, link_file
from mainspring.serve.api import ROUTES
from mainspring.serve.channels import Channels
from mainspring.serve.chat_api import ChatApi
from mainspring.serve.fleet import Fleet
from mainspring.serve.guard import COOKIE, Allowed, Guard, page_key, refused, token_of
from mainspring.serve.hub import Hub
from mainspring.serve.pages import PAGE_PATHS, page_routes
from mainspring.serve.routes import PREFIX, ApiCall, Route, ServerParts
from mainspring.settings import Config

LOGIN, PAIR, LOGOUT = f"{PREFIX}/login", f"{PREFIX}/pair", f"{PREFIX}/logout"
LINK, LINK_ANSWER = f"{PREFIX}/link", f"{PREFIX}/link/answer"
HEALTH, METRICS = "/healthz", "/metrics"
_LINK_PATHS = {"/answer": FILES[0], **{f"/answer/{name}": name for name in FILES[1:]}}
_COOKIE_AGE_S = 365 * 24 * 3600
_BEAT_S = 15.0
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES)
_log = logging.getLogger(__name__)
_LOOK_S = 0.25
_DIGITS = 16


class Entered(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    token: str


class PairingAsked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    code: str
    name: str = "a device"


class WebServer:
    """Everything that a running server has. `routes` is what a test crawls."""

    def __init__(
        self,
        config: Config,
        *,
        is_secure: bool = False,
        chats_in: FilePath | None = None,
        fingerprint: str = "",
    ) -> None:
        self._config = config
        self._is_secure = is_secure
        self._access = Access(config)
        self._hub = Hub()
        self._fleet = Fleet(config)
        self._channels = Channels(config, self._hub)
        self._server = ServerParts(
            config=config, hub=self._hub, fleet=self._fleet, access=self._access, fingerprint=fingerprint
        )
        self._links = AnswerLinks(config, self._access, self._hub)
        self._ending, self._tunnel = asyncio.Event(), ""
        self._chats = ChatApi(config, self._hub, chats_in) if chats_in else None

    def app(self, hosts: frozenset[str], *, is_open: bool = False, tunnel: str = "") -> ASGIApp:
        """The application that answers to these names, and to the address of a `tunnel`; with `is_open`
        health and metrics need no token."""
        self._tunnel = tunnel
        paths = [
            *(
                Path(PREFIX + each.path, partial(self._operation, each), methods=[each.method])
                for each in ROUTES
            ),
            Path(f"{PREFIX}/openapi.json", self._document, methods=["GET"]),
            Path(f"{PREFIX}/sessions/{{session}}/stream", self._session_stream, methods=["GET"]),
            Path(f"{PREFIX}/stream", self._fleet_stream, methods=["GET"]),
            Path(LOGIN, self._login, methods=["POST"]),
            Path(PAIR, self._pair, methods=["POST"]),
            Path(LOGOUT, self._logout, methods=["POST"]),
            Path(LINK, self._link, methods=["POST"]),
            Path(LINK_ANSWER, self._link_answer, methods=["POST"]),
            *(Path(path, partial(_link_file, name), methods=["GET"]) for path, name in _LINK_PATHS.items()),
            *page_routes(),
            *(self._chats.routes() if self._chats else ()),
            Path(HEALTH, self._health, methods=["GET"]),
            Path(METRICS, self._metrics, methods=["GET"]),
        ]
        app = Starlette(routes=paths, lifespan=self._lifespan, exception_handlers=_HANDLERS)
        public = {
            LOGIN,
            PAIR,
            LOGOUT,
            LINK,
            LINK_ANSWER,
            *PAGE_PATHS,
            *_LINK_PATHS,
            *((HEALTH, METRICS) if is_open else ()),
        }
        allowed = Allowed(
            hosts=frozenset((*hosts, *filter(None, [tunnel.partition("://")[2]]))),
            tunnel=tunnel,
            scheme="https" if self._is_secure else "http",
            public=frozenset(public),
            entrances=frozenset((LOGIN, PAIR, LINK, LINK_ANSWER)),
        )
        return Guard(app, self._access, allowed)

    def end_streams(self) -> None:
        """Lets every stream end in a moment; a page takes its own up again when a server is there."""
        self._ending.set()

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncGenerator[None]:
        async with self._hub:
            try:
                yield
            finally:
                self._ending.set()
                await self._channels.close()

    async def _operation(self, route: Route, request: Request) -> Response:
        device: Device = request.state.device
        if not may(device.role, route.role):
            return refused(403, f"{device.name} is paired to {device.role}; this needs {route.role}.")
        taken = await _taken(route, request)
        session = request.path_params.get("session", "")
        asked = ApiCall(
            server=self._server,
            config=self._asking(device),
            device=device,
            taken=taken,
            session=await find_session(self._config, session) if session else "",
        )
        result = await route.answer(asked)
        if isinstance(result, bytes):
            return Response(result, media_type="application/octet-stream", headers=_DOWNLOAD)
        return _json(result)

    def _asking(self, device: Device) -> Config:
        """The settings, with who asks."""
        origin = msgspec.structs.replace(self._config.origin, device=device.name, token=device.id, face="web")
        return msgspec.structs.replace(self._config, origin=origin)

    async def _document(self, _: Request) -> Response:
        return _json(openapi.document())

    async def _session_stream(self, request: Request) -> Response:
        session = await find_session(self._config, request.path_params["session"])
        given = request.headers.get("last-event-id") or request.query_params.get("after", "0")
        if not given.isdecimal() or len(given) > _DIGITS:
            raise UsageError("`after` must be the number of an event.")
        is_view = "view" in request.query_params
        frames = self._channels.follow(session, int(given), is_view=is_view)
        return self._stream(request, frames, shown=session if is_view else "")

    async def _fleet_stream(self, request: Request) -> Response:
        return self._stream(request, self._fleet.follow())

    def _stream(self, request: Request, frames: AsyncGenerator[bytes], shown: str = "") -> Response:
        """`shown` is the session that a person sees at the page for as long as the stream is open."""
        token = token_of(request.headers)
        return StreamingResponse(
            self._while_allowed(token, frames, shown),
            media_type="text/event-stream",
            headers={"x-accel-buffering": "no"},
        )

    async def _while_allowed(
        self, token: str, frames: AsyncGenerator[bytes], shown: str
    ) -> AsyncGenerator[bytes]:
        """The frames, with a sign of life now and then, until the token is revoked or the server ends."""
        loop = asyncio.get_running_loop()
        version, beat = self._access.version, loop.time()
        coming = asyncio.create_task(_next(frames))
        try:
            yield b"retry: 1000\n\n"
            while not self._ending.is_set():
                await asyncio.wait({coming}, timeout=_LOOK_S)
                if (now := self._access.version) != version:
                    version = now
                    if self._access.holder(token) is None:
                        return
                if coming.done():
                    if (data := coming.result()) is None:
                        return
                    coming, beat = asyncio.create_task(_next(frames)), loop.time()
                    yield data
                    self._note_shown(shown)
                elif loop.time() - beat >= _BEAT_S:
                    self._note_shown(shown)
                    beat = loop.time()
                    yield b": alive\n\n"
        finally:
            coming.cancel()
            await asyncio.wait({coming})
            await frames.aclose()

    def _note_shown(self, session: str) -> None:
        if session and self._config.settings.notify.channels:
            note_shown(self._config, session)

    async def _login(self, request: Request) -> Response:
        token = (await _body(request, Entered)).token
        device = self._access.holder(token)
        if device is None:
            return refused(
                401, "This token is not known.", remedy="`mainspring serve` prints the server's own."
            )
        return self._with_cookie(request, {"name": device.name, "role": device.role}, token)

    async def _pair(self, request: Request) -> Response:
        given = await _body(request, PairingAsked)
        paired = self._access.pair(given.code, given.name)
        if paired is None:
            return refused(
                401,
                "This code is not known, was used, or is too old.",
                remedy="Pair again: codes last 90 seconds.",
            )
        told = {"name": paired.device.name, "role": paired.device.role, "token": paired.token}
        return self._with_cookie(request, told, paired.token)

    async def _link(self, request: Request) -> Response:
        found = await self._links.show((await _body(request, LinkCode)).code)
        return _bad_link() if found is None else _json(found)

    async def _link_answer(self, request: Request) -> Response:
        return _json({}) if await self._links.answer(await _body(request, LinkAnswer)) else _bad_link()

    async def _logout(self, _: Request) -> Response:
        response = _json({})
        response.delete_cookie(COOKIE, path="/")
        return response

    def _with_cookie(self, request: Request, told: dict[str, str], token: str) -> Response:
        """The answer to a login, with the key that the page keeps; through a tunnel it is https outside."""
        response = _json({**told, "key": page_key(token)})
        is_tunnel = request.headers.get("host", "").lower() == self._tunnel.partition("://")[2]
        response.set_cookie(
            COOKIE,
            token,
            max_age=_COOKIE_AGE_S,
            path="/",
            secure=self._is_secure or (is_tunnel and self._tunnel.startswith("https:")),
            httponly=True,
            samesite="strict",
        )
        return response

    async def _health(self, _: Request) -> Response:
        return _json({"status": "ok"})

    async def _metrics(self, _: Request) -> Response:
        rows = await list_sessions(self._config)
        by_state: dict[str, int] = {}
        for row in rows:
            by_state[row.state] = by_state.get(row.state, 0) + 1
        waiting = len(await self._fleet.questions(rows))
        lines = [
            "# TYPE mainspring_sessions gauge",
            *(f'mainspring_sessions{{state="{state}"}} {count}' for state, count in sorted(by_state.items())),
            "# TYPE mainspring_questions_open gauge",
            f"mainspring_questions_open {waiting}",
            "# TYPE mainspring_sessions_here gauge",
            f"mainspring_sessions_here {len(self._hub.running)}",
            "# TYPE mainspring_cost_usd_total counter",
            f"mainspring_cost_usd_total {sum(row.cost_usd for row in rows):.6f}",
        ]
        return Response("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")


def _bad_link() -> Response:
    return refused(401, "This link was used, or is too old.", remedy="Answer at the page or a terminal.")


async def _link_file(name: str, _: Request) -> Response:
    data, kind = link_file(name)
    return Response(data, media_type=kind)


_DOWNLOAD = {"content-disposition": "attachment"}


async def _next(frames: AsyncGenerator[bytes]) -> bytes | None:
    return await anext(frames, None)


async def _taken(route: Route, request: Request) -> Any:
    if route.method == "POST":
        return await _body(request, route.takes)
    try:
        return msgspec.convert(dict(request.query_params), route.takes, strict=False)
    except msgspec.ValidationError as error:
        raise UsageError(f"The query is not valid: {error}.") from error


async def _body(request: Request, kind: type[Any]) -> Any:
    data = await request.body()
    if data and request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise UsageError("The body must be JSON.", remedy="Send it with `Content-Type: application/json`.")
    try:
        return msgspec.json.decode(data or b"{}", type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"The body is not valid: {error}.") from error


def _json(value: Any) -> Response:
    return Response(escape_json(msgspec.json.encode(value, enc_hook=str)), media_type="application/json")


_STATUS: tuple[tuple[type[MainspringError], int], ...] = (
    (UnknownSession, 404),
    (UsageError, 400),
    (JournalOwned, 409),
    (JournalUnwritable, 507),
    (MainspringError, 500),
)


async def _failed(_: Request, error: Exception) -> Response:
    assert isinstance(error, MainspringError)  # noqa: S101 - it is registered for these
    status = next(status for kind, status in _STATUS if isinstance(error, kind))
    return refused(status, error.message, remedy=error.remedy)


async def _disk(_: Request, error: Exception) -> Response:
    """Outside of journals: what is full, or may not be written, says so; anything else is a fault of ours."""
    if isinstance(error, OSError) and error.errno in _DISK:
        said = f"The disk of the server cannot take it: {error.strerror}."
        return refused(507, said, remedy="Free some space there, and try again.")
    _log.error("A request has failed.", exc_info=error)
    return refused(500, "The server has failed at this.", remedy="Its log says why.")


async def _gone(_: Request, __: Exception) -> Response:
    return refused(413, "The body is too large, or the client has gone.")


async def _unknown(_: Request, __: Exception) -> Response:
    return refused(404, "There is no such path here.", remedy=f"{PREFIX}/openapi.json lists them.")


async def _wrong_method(_: Request, __: Exception) -> Response:
    return refused(405, "This path takes another method.")


_HANDLERS: dict[Any, Callable[[Request, Exception], Awaitable[Response]]] = {
    MainspringError: _failed,
    OSError: _disk,
    Exception: _disk,
    ClientDisconnect: _gone,
    404: _unknown,
    405: _wrong_method,
}
