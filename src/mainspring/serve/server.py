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
    log_wrong_token,
    team_permission,
)
from mainspring.app.operations.device_roles import Device, asked_by, device_permission
from mainspring.app.operations.devices import Access
from mainspring.app.operations.issued_tokens import ISSUED
from mainspring.app.operations.page_logins import PAGE_TOKEN
from mainspring.app.operations.presence import note_shown
from mainspring.app.operations.sessions import find_session
from mainspring.app.stores import check_right, check_sees_everything, folders_seen
from mainspring.errors import ConfigError, UnknownSession, UsageError
from mainspring.people.operations import OPERATIONS
from mainspring.serve import openapi
from mainspring.serve.answer_links import AnswerLinks
from mainspring.serve.api import ROUTES
from mainspring.serve.bodies import json_answer, read_json
from mainspring.serve.channels import Channels
from mainspring.serve.chat_api import ChatApi
from mainspring.serve.entrances import ENTRANCES, PUBLIC, Entrances
from mainspring.serve.failures import HANDLERS
from mainspring.serve.fleet import Fleet
from mainspring.serve.guard import Allowed, Guard, client_address, token_of
from mainspring.serve.hub import Hub
from mainspring.serve.metrics import CONTENT_TYPE, ServerMetrics
from mainspring.serve.pages import PAGE_PATHS, page_routes
from mainspring.serve.routes import PREFIX, ApiCall, Route, ServerParts
from mainspring.settings import Config

HEALTH, METRICS = "/healthz", "/metrics"
_DIGITS = 16
_BEAT_S = 15.0
_LOOK_S = 0.25
_NAMING = frozenset({"workspace", "folder", "session"})
"""What a request may name beside its path, of which it then must be allowed."""


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
        links = AnswerLinks(config, self._access, self._hub)
        self._entrances = Entrances(config, self._access, links, is_secure=is_secure)
        self._ending = asyncio.Event()
        self._chats = ChatApi(config, self._hub, chats_in) if chats_in else None

    def app(self, hosts: frozenset[str], *, is_open: bool = False, tunnel: str = "") -> ASGIApp:
        """The application that answers to these names, and to the address of a `tunnel`; with `is_open`
        health and metrics need no token."""
        self._entrances.tunnel = tunnel
        paths = [
            *(
                Path(PREFIX + each.path, partial(self._operation, each), methods=[each.method])
                for each in ROUTES
            ),
            Path(f"{PREFIX}/openapi.json", self._document, methods=["GET"]),
            Path(f"{PREFIX}/sessions/{{session}}/stream", self._session_stream, methods=["GET"]),
            Path(f"{PREFIX}/stream", self._fleet_stream, methods=["GET"]),
            *self._entrances.routes(),
            *page_routes(),
            *(self._chats.routes() if self._chats else ()),
            Path(HEALTH, self._health, methods=["GET"]),
            Path(METRICS, self._metrics, methods=["GET"]),
        ]
        app = Starlette(routes=paths, lifespan=self._lifespan, exception_handlers=HANDLERS)
        public = {
            *PUBLIC,
            *PAGE_PATHS,
            *((HEALTH, METRICS) if is_open else ()),
        }
        allowed = Allowed(
            hosts=frozenset((*hosts, *filter(None, [tunnel.partition("://")[2]]))),
            tunnel=tunnel,
            scheme="https" if self._is_secure else "http",
            public=frozenset(public),
            entrances=frozenset(ENTRANCES),
        )
        wrong = partial(log_wrong_token, self._config, "web")
        return Guard(
            app,
            self._access,
            allowed,
            on_wrong_token=wrong,
            vouched=self._entrances.vouched,
            issued=self._entrances.logins.issued,
        )

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
        return json_answer(result)

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
        return json_answer(openapi.document())

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
        if token.startswith(PAGE_TOKEN):
            return bool(self._entrances.logins.issued(token))
        if device.id == ISSUED:
            return device.until_us is not None and time.time_ns() // 1000 < device.until_us
        return self._access.holder(token) is not None

    def _note_shown(self, session: str) -> None:
        if session and self._config.settings.notify.channels:
            note_shown(self._config, session)

    async def _health(self, _: Request) -> Response:
        return json_answer({"status": "ok"})

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


_DOWNLOAD = {"content-disposition": "attachment"}


async def _next(frames: AsyncGenerator[bytes]) -> bytes | None:
    return await anext(frames, None)


async def _taken(route: Route, request: Request) -> Any:
    if route.method == "POST":
        return await read_json(request, route.takes)
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
