"""mainspring as an MCP server, with the protocol's own package as the client, over pipes and over HTTP."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx2
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from mainspring.serve.mcp.tools import TOOLS
from tests.cli.conftest import Machine
from tests.serve.test_sessions import call


@asynccontextmanager
async def connected(machine: Machine, *options: str) -> AsyncGenerator[Client]:
    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-m", "mainspring", "mcp", "serve", *options],
        env=machine.environment(),
        cwd=machine.workspace,
    )
    async with Client(stdio_client(parameters)) as client:
        yield client


async def asked(client: Client, tool: str, **arguments: Any) -> Any:
    """What a tool answers, which must not be an error."""
    answer = await client.call_tool(tool, arguments)
    text = answer.content[0].text  # pyright: ignore[reportAttributeAccessIssue]
    assert not answer.is_error, text
    return json.loads(text) if text[:1] in "[{" else text


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    answer = await client.call_tool(tool, arguments)
    assert answer.is_error
    return answer.content[0].text  # pyright: ignore[reportAttributeAccessIssue]


def test_a_session_is_started_asked_answered_and_goes_on(machine: Machine) -> None:
    model = machine.serve(call("touch made"), {"text": "done"}, {"text": "more"})

    async def run() -> None:
        async with connected(machine, "--mode", "ask") as client:
            offered = (await client.list_tools()).tools
            assert [tool.name for tool in offered] == [tool.name for tool in TOOLS]
            assert all(tool.input_schema["type"] == "object" for tool in offered)
            seen: list[str | None] = []

            async def heard(progress: float, total: float | None, message: str | None) -> None:
                assert progress
                assert total is None
                seen.append(message)

            answer = await client.call_tool(
                "start_session",
                {"text": "begin", "model": model, "wait_s": 60},
                progress_callback=heard,
            )
            first = answer.structured_content
            assert any("begin" in str(line) for line in seen)
            (question,) = first["questions"]
            assert question["tool"] == "shell"
            session = first["session"]
            assert len(await asked(client, "questions", session=session)) == 1
            done = await asked(client, "answer", session=session, decision="allow", wait_s=60)
            assert (done["state"], done["text"], done["questions"]) == ("done", "done", [])
            assert (machine.workspace / "made").exists()
            more = await asked(client, "say", session=session[:12], text="go on", wait_s=60)
            assert (more["text"], more["last_seq"] > done["last_seq"]) == ("more", True)
            (row,) = await asked(client, "sessions")
            assert (row["id"], row["state"]) == (session, "done")

    asyncio.run(run())
    said = [event["body"] for event in machine.events(machine.only_session()["id"])]
    assert [each["origin"]["face"] for each in said if "decision" in each] == ["mcp"]


def test_a_running_turn_is_watched_steered_and_stopped(machine: Machine) -> None:
    model = machine.serve(call("sleep 60"))

    async def run() -> None:
        async with connected(machine) as client:
            session = (await asked(client, "start_session", text="begin", model=model))["session"]
            said = await asked(client, "say", session=session, text="use tabs")
            assert said["session"] == session
            await asked(client, "stop", session=session)
            ended = await asked(client, "watch", session=session, wait_s=60)
            assert ended["state"] == "interrupted"
            assert await asked(client, "note", session=session, text="by the way")

    asyncio.run(run())


def test_nothing_goes_beyond_the_mode_the_caps_the_folder_and_the_role(machine: Machine) -> None:
    model = machine.serve({"text": "free"})
    (machine.workspace / "inner").mkdir()
    machine.run("run", "--mode", "yolo", "--max-cost-usd", "1", "--allow-unpriced", "--model", model, "begin")
    free = machine.only_session()["id"]
    machine.run("run", "--mode", "plan", "--model", machine.serve({"text": "any"}), "begin")
    (other,) = [row["id"] for row in sessions(machine) if row["id"] != free]

    async def run() -> None:
        async with connected(machine, "--mode", "auto", "--max-steps", "2") as client:
            assert "yolo" in await refused(client, "start_session", text="x", model=model, mode="yolo")
            assert "yolo" in await refused(client, "say", session=free, text="x")
            assert "is not in" in await refused(client, "start_session", text="x", workspace="..")
            assert "is not in" in await refused(client, "run_command", argv=["true"], workspace="/")
            assert "yolo" in await refused(client, "start_goal", text="x", mode="yolo")
            assert "not valid" in await refused(client, "say", session=free)
            assert "not valid" in await refused(client, "stop", session=free, more=1)
            assert "max_steps" in await refused(client, "answer", session=other, decision="allow")
            assert "There is no tool" in await refused(client, "nothing")
            capped = machine.serve({"text": "small"})
            await asked(
                client, "start_session", text="x", model=capped, workspace="inner", max_steps=9, wait_s=60
            )
        async with connected(machine, "--role", "watch") as client:
            assert "needs the role steer" in await refused(client, "run_command", argv=["true"])
            assert len(await asked(client, "sessions")) == 3

    asyncio.run(run())
    (inner,) = [row for row in sessions(machine) if row["id"] not in (free, other)]
    started = next(each["body"] for each in machine.events(inner["id"]) if each["kind"] == "TurnStarted")
    assert started["limits"]["max_steps"] == 2


def sessions(machine: Machine) -> list[dict[str, Any]]:
    return [json.loads(line) for line in machine.run("sessions", "--json").stdout.splitlines()]


def test_one_command_is_run_confined_and_goals_are_read(machine: Machine) -> None:
    async def run() -> None:
        async with connected(machine) as client:
            done = await asked(client, "run_command", argv=["sh", "-c", "echo out; echo err >&2; exit 3"])
            assert (done["exit_code"], done["stdout"], done["stderr"]) == (3, "out\n", "err\n")
            plan = await asked(client, "run_command", argv=["touch", "made"], mode="plan")
            assert (plan["state"], plan["exit_code"]) == ("refused", None)
            assert not (machine.workspace / "made").exists()
            (goal,) = await asked(client, "goals")
            assert goal["goal_state"]
            assert "# " in await asked(client, "report", session=goal["id"])
            (made,) = await asked(client, "artifacts", session=goal["id"])
            assert made["path"] == "result.txt"
            assert await asked(client, "read_artifact", session=goal["id"], path="result.txt") == "42\n"
            assert "no artifact" in await refused(client, "read_artifact", session=goal["id"], path="../x")

    model = machine.serve(call("echo 42 > result.txt"), {"text": "made it"}, {"text": "made it"})
    machine.run("goal", "start", "--model", model, "--max-iterations", "1", "make result.txt")
    asyncio.run(run())
    assert len(machine.run("execs", "--json").stdout.splitlines()) == 2


@contextmanager
def over_http(machine: Machine, *options: str) -> Iterator[tuple[str, str]]:
    """An address and a token."""
    process = machine.start("mcp", "serve", "--http", "--port", "0", *options)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        token = process.stdout.readline().strip().rpartition(" ")[2]
        assert token, process.stderr and process.stderr.read()
        yield address, token
    finally:
        process.terminate()
        try:
            process.communicate(timeout=60)
        finally:
            process.kill()


def test_over_http_a_token_is_needed_and_other_sites_are_refused(machine: Machine) -> None:
    model = machine.serve({"text": "hello"})

    async def run(address: str, token: str) -> None:
        allowed = {"authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient(trust_env=False, timeout=60) as plain:
            assert (await plain.post(address, json={})).status_code == 401
            for wrong in ({"host": "evil.example"}, {"origin": "http://evil.example"}):
                assert (await plain.post(address, json={}, headers={**allowed, **wrong})).status_code == 403
        async with (
            httpx2.AsyncClient(trust_env=False, timeout=60, headers=allowed) as http,
            Client(streamable_http_client(address, http_client=http)) as client,
        ):
            done = await asked(client, "start_session", text="begin", model=model, wait_s=60)
            assert (done["state"], done["text"]) == ("done", "hello")

    with over_http(machine) as (address, token):
        asyncio.run(run(address, token))
        watcher = paired(machine, "watch")
        asyncio.run(may_only_watch(address, watcher))


async def may_only_watch(address: str, token: str) -> None:
    async with (
        httpx2.AsyncClient(trust_env=False, timeout=60, headers={"authorization": f"Bearer {token}"}) as http,
        Client(streamable_http_client(address, http_client=http)) as client,
    ):
        assert len(await asked(client, "sessions")) == 1
        assert "needs the role steer" in await refused(client, "run_command", argv=["true"])


def paired(machine: Machine, role: str) -> str:
    """The token of a device that is paired just now."""
    from mainspring.app.operations.devices import Access
    from mainspring.settings import load_config

    access = Access(load_config(machine.environment()))
    done = access.pair(access.offer(role), "a device")  # pyright: ignore[reportArgumentType]
    assert done is not None
    return done.token
