"""Our tools on the protocol's own package: both of its versions, over whatever carries it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import anyio
import mcp_types as types
import msgspec
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server

from mainspring import __version__
from mainspring.app.operations.devices import OWNER, Device, may
from mainspring.errors import MainspringError
from mainspring.serve.hub import Hub
from mainspring.serve.mcp.caller import Caller
from mainspring.serve.mcp.tools import TOOLS, ServedTool, ToolCall, found_session
from mainspring.settings import Config

_NAME = "mainspring"
_ABOUT = (
    "Agents that work in folders of this machine. `start_session` gives one a task; `watch` waits for it and"
    " says what it asks; `answer` and `say` go on. Goals run in the background until their checks pass."
)
_READS = "watch"


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

    async def _list(self, _: ServerRequestContext[Any], __: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=self._shown)

    async def _call(
        self, context: ServerRequestContext[Any], asked: types.CallToolRequestParams
    ) -> types.CallToolResult:
        tool = self._tools.get(asked.name)
        if tool is None:
            return _failed(f"There is no tool {asked.name!r}. The tools are {', '.join(self._tools)}.")
        device = OWNER if context.request is None else context.request.state.device
        if not (may(device.role, tool.role) and may(self._caller.role, tool.role)):
            return _failed(f"{tool.name} needs the role {tool.role}, which {device.name} does not have here.")
        try:
            taken = msgspec.convert(asked.arguments or {}, tool.takes)
        except msgspec.ValidationError as error:
            return _failed(f"The arguments of {tool.name} are not valid: {error}.")
        try:
            return _result(await _unbroken(self._answer(tool, taken, device, context)))
        except MainspringError as error:
            return _failed(f"{error.message} {error.remedy}".strip())

    async def _answer(
        self, tool: ServedTool, taken: Any, device: Device, context: ServerRequestContext[Any]
    ) -> Any:
        async def progress(count: float, line: str) -> None:
            await context.session.report_progress(count, None, line)

        call = ToolCall(
            hub=self._hub,
            caller=self._caller,
            config=self._asking(device, context),
            taken=taken,
            progress=progress,
        )
        return await tool.answer(msgspec.structs.replace(call, session=await found_session(call, tool.role)))

    def _asking(self, device: Device, context: ServerRequestContext[Any]) -> Config:
        """The settings, with who asks."""
        client = context.session.client_params
        origin = msgspec.structs.replace(
            self._config.origin,
            device=device.name,
            token=device.id,
            face="mcp",
            program=client.client_info.name if client and client.client_info else "",
        )
        return msgspec.structs.replace(self._config, origin=origin)


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
