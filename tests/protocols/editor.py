"""A client of the official package that drives a real `mainspring acp` process, as an editor does."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from acp import PROTOCOL_VERSION, schema, spawn_agent_process, text_block
from acp.client.connection import ClientSideConnection

from tests.cli.conftest import Machine

Choose = Callable[[schema.ToolCallUpdate, list[schema.PermissionOption]], Awaitable[str]]


class EditorClient:
    """Keeps every update, and answers what it is asked; `choose` gives the kind of option that is taken, and
    an empty one means cancelled."""

    def __init__(self) -> None:
        self.updates: list[Any] = []
        self.asked: list[tuple[schema.ToolCallUpdate, list[schema.PermissionOption]]] = []
        self.buffers: dict[str, str] = {}
        self.reads: list[str] = []
        self.choose: Choose = self._allow
        self.on_update: Callable[[Any], None] = lambda _: None

    async def _allow(self, call: schema.ToolCallUpdate, options: list[schema.PermissionOption]) -> str:
        return "allow_once"

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append(update)
        self.on_update(update)

    async def request_permission(
        self,
        session_id: str,
        tool_call: schema.ToolCallUpdate,
        options: list[schema.PermissionOption],
        **_: Any,
    ) -> schema.RequestPermissionResponse:
        self.asked.append((tool_call, options))
        wanted = await self.choose(tool_call, options)
        for option in options:
            if wanted in (option.kind, option.option_id):
                chosen = schema.AllowedOutcome(outcome="selected", option_id=option.option_id)
                return schema.RequestPermissionResponse(outcome=chosen)
        return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))

    async def read_text_file(self, path: str, session_id: str, **_: Any) -> schema.ReadTextFileResponse:
        self.reads.append(path)
        return schema.ReadTextFileResponse(content=self.buffers.get(path) or Path(path).read_text())

    def on_connect(self, conn: Any) -> None:
        pass

    def of(self, kind: str) -> list[Any]:
        return [update for update in self.updates if update.session_update == kind]

    @property
    def said(self) -> str:
        return "".join(update.content.text for update in self.of("agent_message_chunk"))

    def call(self, tool_call_id: str) -> list[Any]:
        """All that was told of a call."""
        return [each for each in self.updates if getattr(each, "tool_call_id", "") == tool_call_id]


class Editor:
    """A connection that is initialized. `process` is the agent."""

    def __init__(
        self, client: EditorClient, connection: ClientSideConnection, process: Any, cwd: Path
    ) -> None:
        self.client = client
        self.connection = connection
        self.process = process
        self.cwd = cwd
        self.hello: schema.InitializeResponse | None = None

    async def begin(self) -> str:
        return (await self.connection.new_session(cwd=str(self.cwd), mcp_servers=[])).session_id

    async def prompt(self, session: str, *content: Any) -> schema.PromptResponse:
        blocks = [text_block(each) if isinstance(each, str) else each for each in content]
        return await self.connection.prompt(session_id=session, prompt=blocks)


@asynccontextmanager
async def editor(
    machine: Machine,
    *arguments: str,
    capabilities: schema.ClientCapabilities | None = None,
    **environment: str,
) -> AsyncGenerator[Editor]:
    client = EditorClient()
    spawned = spawn_agent_process(
        client,  # type: ignore[arg-type]
        sys.executable,
        "-m",
        "mainspring",
        "acp",
        *arguments,
        env=machine.environment(**environment),
        cwd=machine.workspace,
        transport_kwargs={"stderr": None},
        use_unstable_protocol=True,
    )
    async with spawned as (connection, process):
        opened = Editor(client, connection, process, machine.workspace)
        opened.hello = await connection.initialize(
            protocol_version=PROTOCOL_VERSION,
            client_capabilities=capabilities or schema.ClientCapabilities(),
            client_info=schema.Implementation(name="test-editor", version="1"),
        )
        yield opened
