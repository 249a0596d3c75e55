"""The agent's side of the protocol: each request is checked, done by an operation, and answered.

What is wrong is answered with a sentence and a remedy; a fault in one request leaves the others alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from acp import PROTOCOL_VERSION, RequestError, schema
from acp.connection import Connection
from pydantic import BaseModel, ValidationError

from mainspring import __version__
from mainspring.app import build as app
from mainspring.app.dispatch import CommandCall, dispatched, local_permission
from mainspring.app.operations.answers import Approver
from mainspring.app.operations.deletion import delete_sessions, plan_deletion
from mainspring.app.operations.forks import fork
from mainspring.app.operations.sessions import folder_of, sessions_page
from mainspring.errors import MainspringError, UnknownSession, UsageError
from mainspring.events import Effort, Limits, TurnEnded
from mainspring.events.moments import date_of
from mainspring.protocols.acp import options
from mainspring.protocols.acp.client import AcpClient
from mainspring.protocols.acp.hosted import HostedSession
from mainspring.protocols.acp.messages import LineMessages
from mainspring.protocols.acp.servers import with_servers
from mainspring.protocols.acp.updates import FACE
from mainspring.protocols.lines import StandardLines
from mainspring.settings import Config

_STOP_REASONS: dict[str, schema.StopReason] = {
    "interrupted": "cancelled",
    "limit": "max_turn_requests",
    "budget": "max_tokens",
}
"""How a turn ended, as far as it is not just the end of a turn."""
_OPERATIONS = {
    "session/new": "run",
    "session/load": "resume",
    "session/resume": "resume",
    "session/fork": "fork",
    "session/list": "sessions",
    "session/delete": "sessions delete",
    "session/set_mode": "mode",
    "session/set_config_option": "model",
    "session/prompt": "say",
    "session/cancel": "stop",
}
"""What a method does, in the words of the command line."""


class AcpOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What every session gets that does not say otherwise."""

    models: tuple[str, ...] = ()
    effort: Effort | None = None
    mode: str = ""
    sandbox: str = ""
    engine: str = ""
    limits: Limits = Limits()
    allow_unpriced: bool = False


async def serve_acp(config: Config, given: AcpOptions) -> None:
    """Speaks the protocol on standard input and output until the client is gone."""
    async with StandardLines() as lines, asyncio.TaskGroup() as group:
        agent = AcpAgent(config, given, group)
        messages = LineMessages(lines)
        connection = Connection(agent.answer, messages, listening=False)
        agent.connection = connection
        try:
            await connection.main_loop()
            await agent.close()
            await messages.answered()
        finally:
            await agent.close()
            await connection.close()


class AcpAgent:
    """`group` is where sessions are held."""

    def __init__(self, config: Config, given: AcpOptions, group: asyncio.TaskGroup) -> None:
        self.connection: Connection | None = None
        self._config = config
        self._given = given
        self._group = group
        self._client: AcpClient | None = None
        self._sessions: dict[str, HostedSession] = {}
        self._methods: dict[str, tuple[type[BaseModel], Callable[[Any], Awaitable[Any]]]] = {
            "initialize": (schema.InitializeRequest, self._initialize),
            "authenticate": (schema.AuthenticateRequest, self._authenticate),
            "session/new": (schema.NewSessionRequest, self._new),
            "session/load": (schema.LoadSessionRequest, self._load),
            "session/resume": (schema.ResumeSessionRequest, self._resume),
            "session/fork": (schema.ForkSessionRequest, self._fork),
            "session/list": (schema.ListSessionsRequest, self._list),
            "session/close": (schema.CloseSessionRequest, self._close),
            "session/delete": (schema.DeleteSessionRequest, self._delete),
            "session/set_mode": (schema.SetSessionModeRequest, self._set_mode),
            "session/set_config_option": (schema.SetSessionConfigOptionSelectRequest, self._set_option),
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
            if method not in _OPERATIONS:
                return await do(request)
            async with dispatched(self._config, self._command(method, request)):
                return await do(request)
        except MainspringError as error:
            raise _as_request_error(error) from error

    def _command(self, method: str, request: Any) -> CommandCall:
        told = {name: getattr(request, name, None) for name in ("cwd", "mode_id", "config_id", "value")}
        return CommandCall(
            operation=_OPERATIONS[method],
            permission=local_permission(_OPERATIONS[method]),
            session=getattr(request, "session_id", "") or "",
            folder=getattr(request, "cwd", "") or "",
            arguments={name: str(value) for name, value in told.items() if value},
        )

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
                "loadSession": True,
                "sessionCapabilities": {name: {} for name in ("list", "resume", "fork", "close", "delete")},
                "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
                "mcpCapabilities": {"http": True, "sse": True},
            },
            "authMethods": [],
        }

    async def _authenticate(self, request: schema.AuthenticateRequest) -> dict[str, Any]:
        raise UsageError(
            f"There is no way to log in that is called {request.method_id!r}.",
            remedy="Keys are read from the environment; `mainspring models` shows the variables.",
        )

    async def _new(self, request: schema.NewSessionRequest) -> dict[str, Any]:
        return self._begun(await self._hosted(_folder(request.cwd), servers=request.mcp_servers))

    async def _load(self, request: schema.LoadSessionRequest) -> dict[str, Any]:
        return await self._reopened(request, is_replayed=True)

    async def _resume(self, request: schema.ResumeSessionRequest) -> dict[str, Any]:
        return await self._reopened(request, is_replayed=False)

    async def _fork(self, request: schema.ForkSessionRequest) -> dict[str, Any]:
        folder = _folder(request.cwd)
        is_elsewhere = await folder_of(self._config, request.session_id) != folder.resolve()
        forked = await fork(self._config, request.session_id, folder=folder if is_elsewhere else None)
        return self._begun(await self._hosted(folder, forked.session, servers=request.mcp_servers))

    async def _list(self, request: schema.ListSessionsRequest) -> dict[str, Any]:
        folder = _folder(request.cwd) if request.cwd else None
        page = await sessions_page(self._config, folder, after=request.cursor or "")
        sessions = [
            {
                "sessionId": each.id,
                "cwd": each.folder,
                "title": each.title,
                "updatedAt": date_of(each.updated_us).isoformat(),
            }
            for each in page.sessions
        ]
        return {"sessions": sessions, **({"nextCursor": page.next} if page.next else {})}

    async def _close(self, request: schema.CloseSessionRequest) -> dict[str, Any]:
        await self._found(request.session_id).close()
        del self._sessions[request.session_id]
        return {}

    async def _delete(self, request: schema.DeleteSessionRequest) -> dict[str, Any]:
        try:
            await folder_of(self._config, request.session_id)
        except UnknownSession:
            return {}  # it is gone, which is what was wanted
        if hosted := self._sessions.pop(request.session_id, None):
            await hosted.close()
        plan = await plan_deletion(self._config, [request.session_id], allows_waiting=True)
        deletion = await delete_sessions(self._config, plan)
        if deletion.kept:
            raise UsageError(f"Session {request.session_id} stays: {deletion.kept[0].reason}.")
        return {}

    async def _set_mode(self, request: schema.SetSessionModeRequest) -> dict[str, Any]:
        options.check_mode(request.mode_id)
        await self._found(request.session_id).set_mode(request.mode_id)
        return {}

    async def _set_option(self, request: schema.SetSessionConfigOptionSelectRequest) -> dict[str, Any]:
        hosted = self._found(request.session_id)
        session = await hosted.opened()
        match request.config_id:
            case options.MODE:
                options.check_mode(request.value)
                await hosted.set_mode(request.value)
                session = await hosted.opened()
            case options.MODEL:
                await session.set_model(request.value)
            case options.EFFORT:
                await session.set_effort(options.effort_named(request.value))
            case other:
                raise UsageError(f"There is no option {other!r}.", remedy="Use mode, model or effort.")
        return {"configOptions": options.options_of(session, self._config)}

    async def _prompt(self, request: schema.PromptRequest) -> dict[str, Any]:
        ended = await self._found(request.session_id).prompt(request.prompt)
        return _prompt_result(ended) if ended else {"stopReason": "end_turn"}

    async def _cancel(self, request: schema.CancelNotification) -> None:
        if hosted := self._sessions.get(request.session_id):
            await hosted.cancel()

    async def _reopened(
        self, request: schema.LoadSessionRequest | schema.ResumeSessionRequest, *, is_replayed: bool
    ) -> dict[str, Any]:
        """An earlier session, open from here on; one that is open here already stays so."""
        name, folder = request.session_id, _folder(request.cwd)
        works_in = await folder_of(self._config, name)
        if works_in != folder.resolve():
            raise UsageError(f"Session {name} works in {works_in}, not in {folder}.", remedy="Give that cwd.")
        hosted = self._sessions.get(name)
        if hosted is None or hosted.is_over:
            servers = request.mcp_servers
            hosted = await self._hosted(folder, name, servers=servers, is_replayed=is_replayed)
        elif is_replayed:
            await hosted.tell_past(await hosted.opened())
        await hosted.tell_commands()
        return self._facts(hosted)

    def _begun(self, hosted: HostedSession) -> dict[str, Any]:
        """A session that the client hears of for the first time: all else about it follows this answer."""
        self._group.create_task(hosted.tell_commands())
        return {"sessionId": hosted.id, **self._facts(hosted)}

    def _facts(self, hosted: HostedSession) -> dict[str, Any]:
        modes = options.modes_of(hosted.session)
        return {"modes": modes, "configOptions": options.options_of(hosted.session, self._config)}

    def _found(self, session: str) -> HostedSession:
        if (hosted := self._sessions.get(session)) and not hosted.is_over:
            return hosted
        raise UnknownSession(f"Session {session!r} is not open here.", remedy="Load it first: session/load.")

    async def _hosted(
        self,
        folder: Path,
        session: str = "",
        *,
        servers: Sequence[Any] | None = None,
        is_replayed: bool = False,
    ) -> HostedSession:
        """A session that is open from here on, with the client's MCP servers, which start beside it."""
        assert self._client is not None  # noqa: S101 - nothing else comes before initialize
        config = with_servers(self._config, servers or ())

        def open_session(session: str, mode: str, approver: Approver) -> Any:
            return self._opened(folder, session, mode, approver, config)

        hosted = HostedSession(self._client, config, open_session, session)
        self._group.create_task(hosted.run(is_replayed=is_replayed))
        await hosted.opened()
        self._sessions[hosted.id] = hosted
        return hosted

    def _opened(self, folder: Path, session: str, mode: str, approver: Approver, config: Config) -> Any:
        given = self._given
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
            config=config,
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
