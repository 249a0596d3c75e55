"""The ASGI application: the table of operations, streams, pairing and the page, behind the guard."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from functools import partial
from pathlib import Path as FilePath
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route as Path
from starlette.types import ASGIApp

from mainspring.app.dispatch import (
    CommandCall,
    begin_command,
    dispatched,
    log_command,
    log_wrong_token,
    team_permission,
)
from mainspring.app.operations.device_roles import Device, asked_by, device_permission
from mainspring.app.operations.devices import Access
from mainspring.app.operations.issued_tokens import ISSUED, issued_tokens
from mainspring.app.operations.presence import note_shown
from mainspring.app.operations.sessions import find_session
from mainspring.app.stores import check_right, check_sees_everything, folders_seen
from mainspring.errors import ConfigError, UnknownSession, UsageError
from mainspring.events.escaping import escape_json
from mainspring.people.operations import OPERATIONS
from mainspring.people.roles import Permission
from mainspring.serve import openapi
from mainspring.serve.answer_links import FILES, AnswerLinks, LinkAnswer, LinkCode, link_file
from mainspring.serve.api import ROUTES
from mainspring.serve.channels import Channels
from mainspring.serve.chat_api import ChatApi
from mainspring.serve.failures import HANDLERS
from mainspring.serve.fleet import Fleet
from mainspring.serve.guard import COOKIE, Allowed, Guard, client_address, page_key, refused, token_of
from mainspring.serve.hub import Hub
from mainspring.serve.metrics import CONTENT_TYPE, ServerMetrics
from mainspring.serve.pages import PAGE_PATHS, page_routes
from mainspring.serve.routes import PREFIX, ApiCall, Route, ServerParts
from mainspring.settings import Config

LOGIN, PAIR, LOGOUT = f"{PREFIX}/login", f"{PREFIX}/pair", f"{PREFIX}/logout"
LINK, LINK_ANSWER = f"{PREFIX}/link", f"{PREFIX}/link/answer"
HEALTH, METRICS = "/healthz", "/metrics"
_LINK_PATHS = {"/answer": FILES[0], **{f"/answer/{name}": name for name in FILES[1:]}}
_COOKIE_AGE_S, _DIGITS = 365 * 24 * 3600, 16
_BEAT_S = 15.0
_LOOK_S = 0.25
_NAMING = frozenset({"workspace", "folder", "session"})
"""What a request may name beside its path, of which it then must be allowed."""


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
        self._numbers = ServerMetrics(config, self._hub)
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
        app = Starlette(routes=paths, lifespan=self._lifespan, exception_handlers=HANDLERS)
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
        wrong = partial(log_wrong_token, self._config, "web")
        return Guard(app, self._access, allowed, on_wrong_token=wrong, vouched=issued_tokens(self._config))

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
        config = self._asking(device)
        call = CommandCall(
            operation=route.operation,
            permission=device_permission(device, route.operation),
            address=client_address(request.scope),
            session=request.path_params.get("session", ""),
        )
        if not await self._may_be_read(route, config, call):  # what it is about is not even looked at
            await begin_command(config, call)
        taken = await _taken(route, request)
        call = _about(call, taken, is_look=route.method == "GET")
        session = await self._session(config, call) if call.session else ""
        asked = ApiCall(server=self._server, config=config, device=device, taken=taken, session=session)
        told = msgspec.structs.replace(call, session=session, arguments=msgspec.to_builtins(taken))
        async with dispatched(config, told):
            result = await route.answer(asked)
        if isinstance(result, bytes):
            return Response(result, media_type="application/octet-stream", headers=_DOWNLOAD)
        return _json(result)

    def _asking(self, device: Device) -> Config:
        """The settings, with who asks."""
        return asked_by(self._config, device, "web")

    async def _may_be_read(self, route: Route, config: Config, call: CommandCall) -> bool:
        """Whether a request is read at all; one that names what it is about has to be."""
        if not call.permission.is_allowed or not _NAMING.isdisjoint(route.takes.__struct_fields__):
            return call.permission.is_allowed
        said = await team_permission(config, call)
        return said is None or said.is_allowed

    async def _session(self, config: Config, call: CommandCall) -> str:
        """The session that a command is about; one that whoever asks may not see is refused on record."""
        try:
            return await find_session(config, call.session)
        except UnknownSession:
            await begin_command(config, call)
            raise

    async def _document(self, _: Request) -> Response:
        return _json(openapi.document())

    async def _session_stream(self, request: Request) -> Response:
        config = self._asking(device := request.state.device)
        call = CommandCall(
            operation="tail",
            permission=device_permission(device, "tail"),
            address=client_address(request.scope),
            session=request.path_params["session"],
        )
        session = await self._session(config, call)
        await begin_command(config, msgspec.structs.replace(call, session=session))
        given = request.headers.get("last-event-id") or request.query_params.get("after", "0")
        if not given.isdecimal() or len(given) > _DIGITS:
            raise UsageError("`after` must be the number of an event.")
        is_view = "view" in request.query_params
        frames = while_seen(config, session, self._channels.follow(session, int(given), is_view=is_view))
        return self._stream(request, frames, shown=session if is_view else "")

    async def _fleet_stream(self, request: Request) -> Response:
        config = self._asking(request.state.device)
        return self._stream(request, self._fleet.follow(partial(folders_seen, config)))

    def _stream(self, request: Request, frames: AsyncGenerator[bytes], shown: str = "") -> Response:
        """`shown` is the session that a person sees at the page for as long as the stream is open."""
        token, device = token_of(request.headers), request.state.device
        return StreamingResponse(
            self._while_allowed(token, device, frames, shown),
            media_type="text/event-stream",
            headers={"x-accel-buffering": "no"},
        )

    async def _while_allowed(
        self, token: str, device: Device, frames: AsyncGenerator[bytes], shown: str
    ) -> AsyncGenerator[bytes]:
        """The frames, with a sign of life now and then, until the token is no good or the server ends."""
        loop = asyncio.get_running_loop()
        beat = loop.time()
        coming = asyncio.create_task(_next(frames))
        try:
            yield b"retry: 1000\n\n"
            while not self._ending.is_set():
                await asyncio.wait({coming}, timeout=_LOOK_S)
                if not self._is_good(token, device):
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

    def _is_good(self, token: str, device: Device) -> bool:
        """Whether a token that was good still is."""
        if device.id == ISSUED:
            return device.until_us is not None and time.time_ns() // 1000 < device.until_us
        return self._access.holder(token) is not None

    def _note_shown(self, session: str) -> None:
        if session and self._config.settings.notify.channels:
            note_shown(self._config, session)

    async def _login(self, request: Request) -> Response:
        token = (await _body(request, Entered)).token
        device = self._access.holder(token)
        if device is None:
            await log_wrong_token(self._config, "web", client_address(request.scope), LOGIN)
            return refused(
                401, "This token is not known.", remedy="`mainspring serve` prints the server's own."
            )
        return self._with_cookie(request, {"name": device.name, "role": device.role}, token)

    async def _pair(self, request: Request) -> Response:
        given = await _body(request, PairingAsked)
        paired = self._access.pair(given.code, given.name)
        if paired is None:
            await log_wrong_token(self._config, "web", client_address(request.scope), PAIR)
            return refused(
                401,
                "This code is not known, was used, or is too old.",
                remedy="Pair again: codes last 90 seconds.",
            )
        await log_command(
            self._asking(paired.device),
            CommandCall(
                operation="devices pair",
                permission=Permission(is_allowed=True, rule="a code that an owner made"),
                address=client_address(request.scope),
                arguments={"name": paired.device.name, "role": paired.device.role},
            ),
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

    async def _metrics(self, request: Request) -> Response:
        if device := request.state.device:  # else everybody may, whoever started the server said
            permission, address = device_permission(device, "usage"), client_address(request.scope)
            asked = CommandCall(operation="usage", permission=permission, address=address)
            async with dispatched(config := self._asking(device), asked):
                await check_sees_everything(config, "Metrics are")
        return Response(await self._numbers.text(), media_type=CONTENT_TYPE)


async def while_seen(
    config: Config, session: str, frames: AsyncGenerator[bytes], *, every_s: float = _LOOK_S
) -> AsyncGenerator[bytes]:
    """The frames about a session, until whoever asked for them may no longer see it."""
    loop, looked_s = asyncio.get_running_loop(), float("-inf")
    async with aclosing(frames):
        async for frame in frames:
            if loop.time() - looked_s >= every_s:
                try:
                    await check_right(config, session, "see")
                except (UnknownSession, ConfigError):
                    return
                looked_s = loop.time()
            yield frame


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


def _about(call: CommandCall, taken: Any, *, is_look: bool) -> CommandCall:
    """The command with what its request names: a session or a folder to work in, or one to look at."""
    folder = getattr(taken, "workspace", "") or getattr(taken, "folder", "")
    if is_look and OPERATIONS[call.operation] == "see":
        return msgspec.structs.replace(call, looks_at=folder)
    session = call.session or getattr(taken, "session", "")
    return msgspec.structs.replace(call, folder=folder, session=session)


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
