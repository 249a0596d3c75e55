"""The agent's side of the protocol: each request is checked, done by an operation, and answered.

What is wrong is answered with a sentence and a remedy; a fault in one request leaves the others alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
from acp import PROTOCOL_VERSION, RequestError, schema
from acp.connection import Connection
from pydantic import BaseModel, ValidationError

from mainspring import __version__
from mainspring.app import build as app
from mainspring.app.operations.answers import Approver
from mainspring.errors import MainspringError, UnknownSession, UsageError
from mainspring.events import Effort, Limits, TurnEnded
from mainspring.protocols.acp.client import AcpClient
from mainspring.protocols.acp.hosted import HostedSession
from mainspring.protocols.acp.messages import LineMessages
from mainspring.protocols.acp.updates import FACE
from mainspring.protocols.lines import StandardLines
from mainspring.settings import Config

_STOP_REASONS: dict[str, schema.StopReason] = {
    "interrupted": "cancelled",
    "limit": "max_turn_requests",
    "budget": "max_tokens",
}
"""How a turn ended, as far as it is not just the end of a turn."""


class AcpOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What every session gets that does not say otherwise."""

    models: tuple[str, ...] = ()
    effort: Effort | None = None
    mode: str = ""
    sandbox: str = ""
    engine: str = ""
    limits: Limits = Limits()
    allow_unpriced: bool = False


async def serve_acp(config: Config, options: AcpOptions) -> None:
    """Speaks the protocol on standard input and output until the client is gone."""
    async with StandardLines() as lines, asyncio.TaskGroup() as group:
        agent = AcpAgent(config, options, group)
        connection = Connection(agent.answer, LineMessages(lines), listening=False)
        agent.connection = connection
        try:
            await connection.main_loop()
        finally:
            await agent.close()
            await connection.close()


class AcpAgent:
    """`group` is where sessions are held."""

    def __init__(self, config: Config, options: AcpOptions, group: asyncio.TaskGroup) -> None:
        self.connection: Connection | None = None
        self._config = config
        self._options = options
        self._group = group
        self._client: AcpClient | None = None
        self._sessions: dict[str, HostedSession] = {}
        self._methods: dict[str, tuple[type[BaseModel], Callable[[Any], Awaitable[Any]]]] = {
            "initialize": (schema.InitializeRequest, self._initialize),
            "authenticate": (schema.AuthenticateRequest, self._authenticate),
            "session/new": (schema.NewSessionRequest, self._new),
            "session/prompt": (schema.PromptRequest, self._prompt),
            "session/cancel": (schema.CancelNotification, self._cancel),
        }

    async def answer(self, method: str, params: Any, is_notification: bool) -> Any:  # noqa: FBT001 - theirs
        """The result of a request, as the protocol's package wants it."""
        known = self._methods.get(method)
        if known is None:
            if is_notification:
                return None
            raise RequestError(-32601, f"There is no method {method}.", {"method": method})
        if self._client is None and method != "initialize":
            raise RequestError(-32600, f"{method} came before initialize.")
        model, do = known
        try:
            request = model.model_validate({} if params is None else params)
        except ValidationError as error:
            raise _invalid(method, error) from error
        try:
            return await do(request)
        except MainspringError as error:
            raise _as_request_error(error) from error

    async def close(self) -> None:
        """Ends every session on record."""
        for hosted in list(self._sessions.values()):
            await hosted.close()

    async def _initialize(self, hello: schema.InitializeRequest) -> dict[str, Any]:
        assert self.connection is not None  # noqa: S101 - set before it listens
        self._client = AcpClient(self.connection, hello)
        origin = msgspec.structs.replace(self._config.origin, face=FACE, program=self._client.name)
        self._config = msgspec.structs.replace(self._config, origin=origin)
        return {
            "protocolVersion": PROTOCOL_VERSION,
            "agentInfo": {"name": "mainspring", "title": "mainspring", "version": __version__},
            "agentCapabilities": {
                "loadSession": False,
                "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
                "mcpCapabilities": {"http": False, "sse": False},
            },
            "authMethods": [],
        }

    async def _authenticate(self, request: schema.AuthenticateRequest) -> dict[str, Any]:
        raise UsageError(
            f"There is no way to log in that is called {request.method_id!r}.",
            remedy="Keys are read from the environment; `mainspring models` shows the variables.",
        )

    async def _new(self, request: schema.NewSessionRequest) -> dict[str, Any]:
        hosted = await self._hosted(_folder(request.cwd))
        return {"sessionId": hosted.id}

    async def _prompt(self, request: schema.PromptRequest) -> dict[str, Any]:
        ended = await self._found(request.session_id).prompt(request.prompt)
        return _prompt_result(ended)

    async def _cancel(self, request: schema.CancelNotification) -> None:
        if hosted := self._sessions.get(request.session_id):
            await hosted.cancel()

    def _found(self, session: str) -> HostedSession:
        if hosted := self._sessions.get(session):
            return hosted
        raise UnknownSession(f"Session {session!r} is not open here.", remedy="Load it first: session/load.")

    async def _hosted(self, folder: Path, session: str = "") -> HostedSession:
        """A session that is open from here on."""
        assert self._client is not None  # noqa: S101 - nothing else comes before initialize

        def open_session(session: str, mode: str, approver: Approver) -> Any:
            return self._opened(folder, session, mode, approver)

        hosted = HostedSession(self._client, self._config, open_session, session)
        self._group.create_task(hosted.run())
        await hosted.opened()
        self._sessions[hosted.id] = hosted
        return hosted

    def _opened(self, folder: Path, session: str, mode: str, approver: Approver) -> Any:
        given = self._options
        is_new = not session
        return app.open(
            folder,
            session=session,
            engine=given.engine if is_new else "",
            model=next(iter(given.models), "") if is_new else "",
            fallback=given.models[1:] if is_new else (),
            effort=given.effort if is_new else None,
            mode=mode or (given.mode if is_new else ""),
            sandbox=given.sandbox,
            limits=given.limits,
            allow_unpriced=given.allow_unpriced,
            approver=approver,
            config=self._config,
        )


def _prompt_result(ended: TurnEnded) -> dict[str, Any]:
    if ended.ending == "failed":
        raise RequestError(-32603, ended.detail or "The turn failed.", {"remedy": ended.remedy})
    used = ended.usage
    return {
        "stopReason": _STOP_REASONS.get(ended.ending, "end_turn"),
        "usage": {
            "totalTokens": used.total_tokens,
            "inputTokens": used.input_tokens - used.cached_tokens - used.cache_write_tokens,
            "outputTokens": used.output_tokens - used.reasoning_tokens,
            "thoughtTokens": used.reasoning_tokens,
            "cachedReadTokens": used.cached_tokens,
            "cachedWriteTokens": used.cache_write_tokens,
        },
    }


def _folder(cwd: str) -> Path:
    path = Path(cwd)
    if not path.is_absolute():
        raise UsageError(f"cwd is {cwd!r}.", remedy="Give an absolute path.")
    return path


def _invalid(method: str, error: ValidationError) -> RequestError:
    faults = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]
    return RequestError(-32602, f"The params of {method} are not valid: {faults[0]}.", {"errors": faults})


def _as_request_error(error: MainspringError) -> RequestError:
    if isinstance(error, UnknownSession):
        code = -32002
    elif isinstance(error, UsageError):
        code = -32602
    else:
        code = -32603
    return RequestError(code, f"{error.message} {error.remedy}".strip(), {"remedy": error.remedy})
