"""`mainspring acp`, driven by the protocol's own client over stdio."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.cli.conftest import Machine
from tests.protocols.editor import editor


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"calls": [{"name": name, "arguments": arguments}]}


def test_a_prompt_is_answered_with_what_the_model_says_as_it_streams(machine: Machine) -> None:
    model = machine.serve({"text": "Hello there, this is a reply.", "slice_bytes": 40})

    async def talk() -> None:
        async with editor(machine, "--model", model) as opened:
            session = await opened.begin()
            answer = await opened.prompt(session, "hello")
            assert answer.stop_reason == "end_turn"
            assert opened.client.said == "Hello there, this is a reply."
            assert len(opened.client.of("agent_message_chunk")) > 1

    asyncio.run(talk())
    assert machine.only_session()["title"] == "hello"


def test_a_call_is_announced_started_and_ended(machine: Machine) -> None:
    (machine.workspace / "a.txt").write_text("one\n")
    model = machine.serve(call("read", path="a.txt"), {"text": "It says one."})

    async def talk() -> None:
        async with editor(machine, "--model", model) as opened:
            answer = await opened.prompt(await opened.begin(), "read it")
            assert answer.stop_reason == "end_turn"
            (started,) = opened.client.of("tool_call")
            assert (started.title, started.kind) == ("read a.txt", "read")
            assert started.raw_input == {"path": "a.txt"}
            assert [each.path for each in started.locations] == [str(machine.workspace / "a.txt")]
            statuses = [each.status for each in opened.client.call(started.tool_call_id)]
            assert statuses == ["pending", "in_progress", "completed"]

    asyncio.run(talk())
