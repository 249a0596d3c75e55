"""Our tools on the protocol's own package: both of its versions, over whatever carries it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import anyio
import mcp_types as types
import msgspec
from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server

from mainspring import __version__
from mainspring.app.dispatch import CommandCall, begin_command, dispatched
from mainspring.app.operations.device_roles import OWNER, Device, asked_by, at_most, device_permission
from mainspring.errors import MainspringError
from mainspring.serve.hub import Hub
from mainspring.serve.mcp import tasks
from mainspring.serve.mcp.caller import Caller
from mainspring.serve.mcp.tools import TOOLS, ServedTool, ToolCall, found_session, last_seq, turn_since
from mainspring.serve.mcp.values import SessionNamed, Watched
from mainspring.settings import Config

_NAME = "mainspring"
_ABOUT = (
    "Agents that work in folders of this machine. `start_session` gives one a task; `watch` waits for it and"
    " says what it asks; `answer` and `say` go on. Goals run in the background until their checks pass."
)
_READS = "watch"
_TASKS = frozenset({"start_session", "say", "answer"})
"""What takes as long as a turn does."""


class OfferedTools:
    """`sdk` is what a transport runs."""

    def __init__(self, config: Config, caller: Caller, hub: Hub, tools: Sequence[ServedTool] = TOOLS) -> None:
        self._config = config
        self._caller = caller
        self._hub = hub
        self._tools = {tool.name: tool for tool in tools}
        self._shown = [_shown(tool) for tool in tools]
        self.sdk: Server[Any] = Server(
            _NAME,
            version=__version__,
            title=_NAME,
            instructions=_ABOUT,
            on_list_tools=self._list,
            on_call_tool=self._call,
        )
        self.sdk.extensions[tasks.EXTENSION] = {}
        self.sdk.add_request_handler("tasks/get", tasks.TaskNamed, self._get_task)
        self.sdk.add_request_handler("tasks/cancel", tasks.TaskNamed, self._cancel_task)
        self.sdk.add_request_handler("tasks/update", tasks.TaskNamed, self._update_task)

    async def _list(self, _: ServerRequestContext[Any], __: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=self._shown)

    async def _call(self, context: ServerRequestContext[Any], asked: types.CallToolRequestParams) -> Any:
        tool = self._tools.get(asked.name)
        if tool is None:
            return _failed(f"There is no tool {asked.name!r}. The tools are {', '.join(self._tools)}.")
        device = OWNER if context.request is None else context.request.state.device
        try:
            taken = msgspec.convert(asked.arguments or {}, tool.takes)
        except msgspec.ValidationError as error:
            return _failed(f"The arguments of {tool.name} are not valid: {error}.")
        try:
            async with dispatched(self._asking(device, context), self._command(tool, device, asked)):
                return await _unbroken(self._answer(tool, taken, device, context))
        except MainspringError as error:
            return _failed(f"{error.message} {error.remedy}".strip())

    async def _answer(
        self, tool: ServedTool, taken: Any, device: Device, context: ServerRequestContext[Any]
    ) -> Any:
        """The result of a call; of one that wants to wait, a task, when the client knows these."""
        is_task = tool.name in _TASKS and taken.wait_s > 0 and tasks.knows_tasks(context)
        taken = msgspec.structs.replace(taken, wait_s=0.0) if is_task else taken
        call = await self._asked(tool, taken, device, context)
        after = await last_seq(call) if is_task else 0
        value = await tool.answer(call)
        if is_task and isinstance(value, Watched) and await tasks.is_working(call.config, value):
            task = tasks.begun(value.session, after)
            return tasks.task_result(task, "working", resultType="task")
        return _result(value)

    async def _asked(
        self, tool: ServedTool, taken: Any, device: Device, context: ServerRequestContext[Any]
    ) -> ToolCall:
        async def progress(count: float, line: str) -> None:
            await context.session.report_progress(count, None, line)

        call = ToolCall(
            hub=self._hub,
            caller=self._caller,
            config=self._asking(device, context),
            taken=taken,
            progress=progress,
        )
        return msgspec.structs.replace(call, session=await found_session(call, tool.role))

    async def _get_task(self, context: ServerRequestContext[Any], asked: tasks.TaskNamed) -> dict[str, Any]:
        task, call = await self._of_task("watch", context, asked)
        watched = await turn_since(call, call.session, task.after)
        if await tasks.is_working(call.config, watched):
            message = watched.lines[-1] if watched.lines else ""
            return tasks.task_result(task, "working", **({"statusMessage": message} if message else {}))
        if watched.state == "interrupted":
            return tasks.task_result(task, "cancelled")
        result = _result(watched).model_dump(by_alias=True, mode="json", exclude_none=True)
        return tasks.task_result(task, "completed", result=result)

    async def _cancel_task(
        self, context: ServerRequestContext[Any], asked: tasks.TaskNamed
    ) -> dict[str, Any]:
        _, call = await self._of_task("stop", context, asked)
        await self._tools["stop"].answer(call)
        return {}

    async def _update_task(
        self, context: ServerRequestContext[Any], asked: tasks.TaskNamed
    ) -> dict[str, Any]:
        """Our tasks never ask for input: a question of the session ends the task, and `answer` answers it."""
        await self._of_task("watch", context, asked)
        return {}

    async def _of_task(
        self, tool: str, context: ServerRequestContext[Any], asked: tasks.TaskNamed
    ) -> tuple[tasks.TaskId, ToolCall]:
        """A task and its session, for whoever may do with it what a tool does."""
        tasks.check_knows(context)
        device = OWNER if context.request is None else context.request.state.device
        try:
            task = tasks.task_named(asked.task_id)
            told = msgspec.structs.replace(self._command(self._tools[tool], device), session=task.session)
            await begin_command(self._asking(device, context), told)
            taken = SessionNamed(session=task.session)
            return task, await self._asked(self._tools[tool], taken, device, context)
        except MainspringError as error:
            raise MCPError(
                code=types.INVALID_PARAMS, message=f"{error.message} {error.remedy}".strip()
            ) from error

    def _command(
        self, tool: ServedTool, device: Device, asked: types.CallToolRequestParams | None = None
    ) -> CommandCall:
        arguments = dict(asked.arguments or {}) if asked else {}
        return CommandCall(
            operation=tool.operation,
            permission=device_permission(at_most(device, self._caller.role), tool.operation),
            session=str(arguments.pop("session", "")),
            folder=str(self._caller.folder.resolve() / str(arguments.get("workspace") or "")),
            arguments=arguments,
        )

    def _asking(self, device: Device, context: ServerRequestContext[Any]) -> Config:
        """The settings, with who asks."""
        client = context.session.client_params
        program = client.client_info.name if client and client.client_info else ""
        return asked_by(self._config, at_most(device, self._caller.role), "mcp", program)


async def _unbroken(work: Any) -> Any:
    """The result of work that may be cancelled and then ends in its own time: what the protocol's package
    cancels, it cancels again at each step of cleaning up."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait({task})
        raise


def _shown(tool: ServedTool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=input_schema(tool.takes),
        annotations=types.ToolAnnotations(read_only_hint=tool.role == _READS, open_world_hint=False),
    )


def input_schema(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON Schema of a tool's arguments: an object, with what it refers to inside."""
    (_, *_), parts = msgspec.json.schema_components((kind,), ref_template="#/$defs/{name}")
    own = {
        key: value for key, value in parts.pop(kind.__name__).items() if key not in ("title", "description")
    }
    return {**own, **({"$defs": parts} if parts else {})}


def _result(value: Any) -> types.CallToolResult:
    """Text is given as it is, everything else as JSON; an object also in the field for such."""
    if isinstance(value, str):
        return types.CallToolResult(content=[types.TextContent(text=value)])
    data = msgspec.json.encode(value, enc_hook=str)
    content: list[Any] = [types.TextContent(text=data.decode())]
    if data[:1] == b"{":
        return types.CallToolResult(content=content, structured_content=msgspec.json.decode(data))
    return types.CallToolResult(content=content)


def _failed(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)
