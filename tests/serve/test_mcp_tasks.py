"""Long calls as tasks, for a client of the protocol's package that knows the extension."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Literal

import mcp_types as types
import pytest
from mcp import Client, MCPError
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.stdio import StdioServerParameters, stdio_client

from mainspring.serve.mcp.tasks import EXTENSION
from tests.cli.conftest import Machine
from tests.serve.test_mcp import connected
from tests.serve.test_sessions import call

LONG = "while [ ! -e go ]; do sleep 0.05; done"


class Begun(types.Result):
    result_type: Literal["task"] = "task"
    task_id: str
    status: str


class Standing(types.Result):
    task_id: str
    status: str
    result: dict[str, Any] | None = None


class Knowing(ClientExtension):
    """A client that gives the task to whoever waits for it."""

    identifier = EXTENSION

    def __init__(self) -> None:
        self.begun: list[Begun] = []

    def claims(self) -> list[ResultClaim[Any]]:
        async def resolve(task: Begun, _: ClaimContext) -> types.CallToolResult:
            self.begun.append(task)
            return types.CallToolResult(content=[])

        return [ResultClaim(result_type="task", model=Begun, resolve=resolve)]


@asynccontextmanager
async def knowing(machine: Machine) -> AsyncGenerator[tuple[Client, Knowing]]:
    words = ["-m", "mainspring", "mcp", "serve"]
    parameters = StdioServerParameters(
        command=sys.executable, args=words, env=machine.environment(), cwd=machine.workspace
    )
    extension = Knowing()
    async with Client(stdio_client(parameters), extensions=[extension]) as client:
        yield client, extension


async def ask(client: Client, method: str, task: str) -> Any:
    request = types.Request[Any, Any](method=method, params={"taskId": task})
    return await client.session.send_request(request, Standing if method == "tasks/get" else types.Result)


async def until_over(client: Client, task: str) -> Standing:
    while (standing := await ask(client, "tasks/get", task)).status == "working":
        await asyncio.sleep(0.05)
    return standing


def test_a_long_call_is_a_task_that_is_asked_for_until_it_is_over(machine: Machine) -> None:
    model = machine.serve(call(LONG), {"text": "done"}, call(LONG.replace("go", "never")))

    async def run() -> None:
        async with knowing(machine) as (client, extension):
            given = {"text": "begin", "model": model, "wait_s": 60}
            await client.call_tool("start_session", given)
            (begun,) = extension.begun
            assert begun.status == "working"
            assert (await ask(client, "tasks/get", begun.task_id)).status == "working"
            (machine.workspace / "go").touch()
            over = await until_over(client, begun.task_id)
            assert over.status == "completed"
            assert over.result is not None
            assert over.result["structuredContent"]["text"] == "done"
            session = over.result["structuredContent"]["session"]
            said = await client.call_tool("say", {"session": session, "text": "more"})
            assert said.structured_content is not None, "without wait_s there is nothing to wait for"
            await client.call_tool("stop", {"session": session})
            again = await ask(client, "tasks/get", begun.task_id)
            assert again.status == "completed", "a later turn that was stopped is other work"
        async with knowing(machine) as (client, _):
            again = await ask(client, "tasks/get", begun.task_id)
            assert again.status == "completed", "another process knows it too"

    asyncio.run(run())


def test_a_task_is_cancelled_and_one_that_is_not_there_is_refused(machine: Machine) -> None:
    model = machine.serve(call(LONG), {"text": "never"})

    async def run() -> None:
        async with knowing(machine) as (client, extension):
            await client.call_tool("start_session", {"text": "begin", "model": model, "wait_s": 60})
            (begun,) = extension.begun
            await ask(client, "tasks/update", begun.task_id)
            await ask(client, "tasks/cancel", begun.task_id)
            assert (await until_over(client, begun.task_id)).status == "cancelled"
            for wrong in ("none", "none:1:2", "a:b:c"):
                with pytest.raises(MCPError) as refused:
                    await ask(client, "tasks/get", wrong)
                assert refused.value.error.code == types.INVALID_PARAMS

    asyncio.run(run())


def test_a_client_that_does_not_know_tasks_gets_none(machine: Machine) -> None:
    model = machine.serve({"text": "done"})

    async def run() -> None:
        async with connected(machine) as client:
            answer = await client.call_tool("start_session", {"text": "begin", "model": model, "wait_s": 60})
            assert answer.structured_content is not None
            assert answer.structured_content["text"] == "done"
            with pytest.raises(MCPError) as refused:
                await ask(client, "tasks/get", "any:1:1")
            assert refused.value.error.code == types.MISSING_REQUIRED_CLIENT_CAPABILITY

    asyncio.run(run())
