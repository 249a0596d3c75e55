"""Sessions of a client are ordinary journals: listed, loaded with their past, forked, closed, deleted, set."""

from __future__ import annotations

import asyncio
import sys
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from acp import RequestError, image_block, schema

from tests.cli.conftest import Machine
from tests.mcp.conftest import PEER
from tests.protocols.editor import editor
from tests.protocols.test_acp import PNG, call

EDIT = call("write", path="made.txt", content="x\n")


def seen(updates: list[Any]) -> list[tuple[str, str]]:
    """Who said what, and how calls ended."""
    short: list[tuple[str, str]] = []
    for update in updates:
        match update.session_update:
            case "user_message_chunk" | "agent_message_chunk":
                short.append(
                    (
                        update.session_update.split("_")[0],
                        getattr(update.content, "text", update.content.type),
                    )
                )
            case "tool_call_update" if update.status in ("completed", "failed"):
                short.append(("call", update.status))
            case "tool_call":
                short.append(("call", update.title))
            case _:
                pass
    return short


def test_a_session_is_listed_and_loaded_with_its_past_by_another_process(machine: Machine) -> None:
    model = machine.serve(EDIT, {"text": "made"}, {"text": "again"})

    async def first() -> str:
        async with editor(machine, "--model", model) as opened:
            session = await opened.begin()
            await opened.prompt(session, "make it", image_block(b64encode(PNG).decode(), "image/png"))
            return session

    async def second(session: str) -> None:
        async with editor(machine) as opened:
            listed = await opened.connection.list_sessions(cwd=str(machine.workspace))
            assert [(each.session_id, each.title, each.cwd) for each in listed.sessions] == [
                (session, "make it", str(machine.workspace))
            ]
            elsewhere = await opened.connection.list_sessions(cwd=str(machine.home))
            assert elsewhere.sessions == []
            loaded = await opened.connection.load_session(
                cwd=str(machine.workspace), session_id=session, mcp_servers=[]
            )
            past = [
                ("user", "make it"),
                ("user", "image"),
                ("call", "write made.txt"),
                ("call", "completed"),
                ("agent", "made"),
            ]
            assert seen(opened.client.updates) == past
            (diff,) = [
                each for update in opened.client.of("tool_call_update") for each in update.content or ()
            ][-1:]
            assert (diff.type, diff.new_text) == ("diff", "x\n")
            assert loaded.modes is not None
            assert loaded.modes.current_mode_id == "auto"
            await opened.prompt(session, "once more")
            assert seen(opened.client.updates)[len(past) :] == [("agent", "again")]
            await opened.connection.close_session(session_id=session)
            with pytest.raises(RequestError) as closed:
                await opened.prompt(session, "more")
            assert closed.value.code == -32002
            opened.client.updates.clear()
            await opened.connection.resume_session(
                cwd=str(machine.workspace), session_id=session, mcp_servers=[]
            )
            assert seen(opened.client.updates) == []

    session = asyncio.run(first())
    asyncio.run(second(session))


def test_a_session_whose_agent_was_killed_in_a_call_can_be_loaded(machine: Machine) -> None:
    model = machine.serve(call("shell", command="touch began; sleep 1000"), {"text": "went on"})

    async def first() -> str:
        async with editor(machine, "--model", model) as opened:
            is_running = asyncio.Event()
            opened.client.on_update = lambda update: (
                is_running.set() if getattr(update, "status", "") == "in_progress" else None
            )
            session = await opened.begin()
            prompt = asyncio.get_running_loop().create_task(opened.prompt(session, "run it"))
            await is_running.wait()
            opened.process.kill()
            with pytest.raises(ConnectionError):
                await prompt
            return session

    async def second(session: str) -> None:
        async with editor(machine) as opened:
            await opened.connection.load_session(
                cwd=str(machine.workspace), session_id=session, mcp_servers=[]
            )
            past = seen(opened.client.updates)
            assert past == [("user", "run it"), ("call", "shell touch began; sleep 1000")]
            answer = await opened.prompt(session, "go on")
            assert answer.stop_reason == "end_turn"
            assert seen(opened.client.updates)[len(past) :] == [("call", "failed"), ("agent", "went on")]

    session = asyncio.run(first())
    asyncio.run(second(session))
    assert machine.run("verify", session).returncode == 0


def test_a_fork_goes_on_by_itself_and_a_deleted_session_is_gone(machine: Machine) -> None:
    model = machine.serve({"text": "one"}, {"text": "two"})

    async def talk() -> None:
        async with editor(machine, "--model", model) as opened:
            session = await opened.begin()
            await opened.prompt(session, "first")
            forked = await opened.connection.fork_session(
                session_id=session, cwd=str(machine.workspace), mcp_servers=[]
            )
            assert forked.session_id != session
            await opened.prompt(forked.session_id, "second")
            assert opened.client.said == "onetwo"
            with pytest.raises(RequestError, match="forked"):
                await opened.connection._conn.send_request("session/delete", {"sessionId": session})
            await opened.connection._conn.send_request("session/delete", {"sessionId": forked.session_id})
            await opened.connection._conn.send_request("session/delete", {"sessionId": session})
            listed = await opened.connection.list_sessions()
            assert listed.sessions == []
            with pytest.raises(RequestError) as gone:
                await opened.connection.load_session(
                    cwd=str(machine.workspace), session_id=session, mcp_servers=[]
                )
            assert gone.value.code == -32002

    asyncio.run(talk())


def test_mode_model_and_effort_can_be_set(machine: Machine) -> None:
    (machine.workspace / "a.txt").write_text("one\n")
    model = machine.serve(EDIT, {"text": "done"})
    other = machine.serve(*[{"text": "the other"}] * 9)
    machine.home.mkdir()
    (machine.home / "config.toml").write_text(f'[tiers]\nfast = "{other}"\n')

    async def talk() -> None:
        async with editor(machine, "--model", model) as opened:
            made = await opened.connection.new_session(cwd=str(machine.workspace), mcp_servers=[])
            session = made.session_id
            assert made.config_options is not None
            assert made.modes is not None
            options = {each.id: each for each in made.config_options}
            assert {each.id: each.category for each in made.config_options} == {
                "mode": "mode",
                "model": "model",
                "effort": "thought_level",
            }
            assert {model, "fast"} <= {each.value for each in options["model"].options}
            assert [each.id for each in made.modes.available_modes] == [
                "plan",
                "ask",
                "edits",
                "auto",
                "yolo",
            ]
            await opened.connection.set_session_mode(session_id=session, mode_id="plan")
            await opened.prompt(session, "write it")
            assert opened.client.of("current_mode_update")[-1].current_mode_id == "plan"
            assert ("call", "failed") in seen(opened.client.updates)
            changed = await opened.connection.set_config_option(
                config_id="effort", session_id=session, value="high"
            )
            assert {each.id: each.current_value for each in changed.config_options}["effort"] == "high"
            changed = await opened.connection.set_config_option(
                config_id="model", session_id=session, value="fast"
            )
            assert {each.id: each.current_value for each in changed.config_options}["model"] == other
            opened.client.updates.clear()
            await opened.prompt(session, "and you?")
            assert opened.client.said == "the other"
            for option, value in (
                ("mode", "none"),
                ("effort", "much"),
                ("colour", "red"),
                ("model", "no/such"),
            ):
                with pytest.raises(RequestError) as wrong:
                    await opened.connection.set_config_option(
                        config_id=option, session_id=session, value=value
                    )
                assert wrong.value.code == -32602

    asyncio.run(talk())
    assert not (machine.workspace / "made.txt").exists()


def test_a_mode_set_while_a_turn_runs_counts_from_its_end(machine: Machine) -> None:
    wait = call("shell", command="while [ ! -e go ]; do sleep 0.05; done")
    model = machine.serve(wait, {"text": "done"}, EDIT, {"text": "no"})

    async def talk() -> None:
        async with editor(machine, "--model", model) as opened:
            is_running = asyncio.Event()
            opened.client.on_update = lambda update: (
                is_running.set() if getattr(update, "status", "") == "in_progress" else None
            )
            session = await opened.begin()
            async with asyncio.TaskGroup() as group:
                group.create_task(opened.prompt(session, "run it"))
                await is_running.wait()
                await opened.connection.set_session_mode(session_id=session, mode_id="plan")
                (machine.workspace / "go").touch()
            await opened.prompt(session, "write it")
            assert opened.client.of("current_mode_update")[-1].current_mode_id == "plan"

    asyncio.run(talk())
    assert not (machine.workspace / "made.txt").exists()


def test_slash_commands_are_told_and_done(machine: Machine) -> None:
    model = machine.serve(EDIT, {"text": "done"})

    async def talk() -> None:
        async with editor(machine, "--model", model) as opened:
            is_told = asyncio.Event()
            opened.client.on_update = lambda update: (
                is_told.set() if update.session_update == "available_commands_update" else None
            )
            session = await opened.begin()
            await is_told.wait()
            (told,) = opened.client.of("available_commands_update")
            assert {"compact", "undo", "context", "cost"} <= {each.name for each in told.available_commands}
            await opened.prompt(session, "write it")
            opened.client.updates.clear()
            await opened.prompt(session, "/context")
            assert "prompt" in opened.client.said
            await opened.prompt(session, "/undo both")
            assert opened.client.said.endswith("Taken back (both): write it")
            assert not (machine.workspace / "made.txt").exists()
            with pytest.raises(RequestError, match="Use one of"):
                await opened.prompt(session, "/undo everything")

    asyncio.run(talk())
    assert len(machine.seen) == 2


@pytest.mark.parametrize(
    ("cwd", "code", "says"),
    [("relative", -32602, "absolute"), ("/no/such/folder", -32602, "/no/such/folder")],
)
def test_a_session_needs_a_folder(machine: Machine, cwd: str, code: int, says: str) -> None:
    model = machine.serve({"text": "-"})

    async def talk() -> None:
        async with editor(machine, "--model", model) as opened:
            with pytest.raises(RequestError, match=says) as refused:
                await opened.connection.new_session(cwd=cwd, mcp_servers=[])
            assert refused.value.code == code
            assert Path(await opened.begin())

    asyncio.run(talk())


def test_a_session_that_another_process_runs_is_not_loaded(machine: Machine) -> None:
    model = machine.serve({"text": "-"})

    async def talk() -> None:
        async with editor(machine, "--model", model) as one, editor(machine) as other:
            session = await one.begin()
            with pytest.raises(RequestError) as owned:
                await other.connection.load_session(
                    cwd=str(machine.workspace), session_id=session, mcp_servers=[]
                )
            assert owned.value.code == -32603
            assert "process" in str(owned.value)

    asyncio.run(talk())


def test_servers_of_the_client_are_used_and_session_new_waits_for_none(machine: Machine) -> None:
    given = {"name": "mcp__my-peer__add", "arguments": {"a": 4, "b": 5}}
    asked = {"calls": [{"name": "call_tool", "arguments": given}]}
    model = machine.serve(asked, {"text": "nine"})
    peer = schema.McpServerStdio(name="my peer", command=sys.executable, args=[str(PEER), "sdk"], env=[])
    silent = schema.McpServerStdio(name="silent", command=sys.executable, args=[str(PEER), "silent"], env=[])
    gone = schema.HttpMcpServer(name="gone", url="http://127.0.0.1:9/mcp", headers=[], type="http")

    async def run() -> None:
        async with editor(machine, "--model", model) as opened:
            assert opened.hello is not None
            able = opened.hello.agent_capabilities
            assert able is not None
            assert (able.mcp_capabilities.http, able.mcp_capabilities.sse) == (True, True)  # pyright: ignore[reportOptionalMemberAccess]
            begin = opened.connection.new_session
            with pytest.raises(RequestError, match="same name"):
                await begin(cwd=str(machine.workspace), mcp_servers=[silent, silent])
            session = (await begin(cwd=str(machine.workspace), mcp_servers=[silent, gone, peer])).session_id
            await opened.prompt(session, "add them")
            assert opened.client.said == "nine"
            told = "".join(str(update) for update in opened.client.of("tool_call_update"))
            assert "sum 9" in told

    asyncio.run(run())
