"""Questions of an agent are asked at the client and in every other face; the first answer counts."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from acp import schema

from tests.cli.conftest import Machine
from tests.protocols.editor import Editor, editor
from tests.protocols.test_acp import call

WRITE = call("write", path="made.txt", content="x\n")


def outcomes(machine: Machine) -> list[str]:
    events = machine.events(machine.only_session()["id"])
    return [event["body"]["outcome"] for event in events if event["kind"] == "CallEnded"]


@pytest.mark.parametrize(
    ("choice", "outcome", "stop"),
    [
        ("allow_once", "ok", "end_turn"),
        ("reject_once", "refused", "end_turn"),
        ("", "cancelled", "cancelled"),
    ],
)
def test_a_person_decides_at_the_client(machine: Machine, choice: str, outcome: str, stop: str) -> None:
    model = machine.serve(WRITE, {"text": "done"})

    async def talk() -> None:
        async with editor(machine, "--model", model, "--mode", "ask") as opened:

            async def choose(*_: Any) -> str:
                return choice

            opened.client.choose = choose
            answer = await opened.prompt(await opened.begin(), "write it")
            assert answer.stop_reason == stop
            ((about, options),) = opened.client.asked
            (started,) = opened.client.of("tool_call")
            assert about.tool_call_id == started.tool_call_id
            assert {"allow_once", "allow_always", "reject_once"} == {each.kind for each in options}
            status = opened.client.call(started.tool_call_id)[-1].status
            assert status == ("completed" if outcome == "ok" else "failed")

    asyncio.run(talk())
    assert outcomes(machine) == [outcome]
    assert (machine.workspace / "made.txt").exists() == (outcome == "ok")


def test_always_in_this_session_is_asked_once(machine: Machine) -> None:
    again = call("write", path="made.txt", content="y\n")
    model = machine.serve(WRITE, again, {"text": "done"})

    async def talk() -> None:
        async with editor(machine, "--model", model, "--mode", "ask") as opened:

            async def choose(*_: Any) -> str:
                return "session"

            opened.client.choose = choose
            await opened.prompt(await opened.begin(), "write it")
            assert len(opened.client.asked) == 1

    asyncio.run(talk())
    assert outcomes(machine) == ["ok", "ok"]


def test_an_answer_in_another_terminal_counts_and_the_client_sees_who_gave_it(machine: Machine) -> None:
    model = machine.serve(WRITE, {"text": "done"})

    async def talk() -> None:
        async with editor(machine, "--model", model, "--mode", "ask") as opened:
            is_asked, never = asyncio.Event(), asyncio.Event()

            async def choose(*_: Any) -> str:
                is_asked.set()
                await never.wait()
                return ""

            opened.client.choose = choose
            session = await opened.begin()
            async with asyncio.TaskGroup() as group:
                prompt = group.create_task(opened.prompt(session, "write it"))
                await is_asked.wait()
                approved = await asyncio.to_thread(machine.run, "approve", session)
                assert approved.returncode == 0, approved.stderr
                assert (await prompt).stop_reason == "end_turn"
            (started,) = opened.client.of("tool_call")
            told = [
                each for update in opened.client.call(started.tool_call_id) for each in update.content or ()
            ]
            texts = [each.content.text for each in told if each.type == "content"]
            assert any("allow" in text and "through cli" in text for text in texts)

    asyncio.run(talk())
    assert (machine.workspace / "made.txt").exists()
    (given,) = [
        e["body"] for e in machine.events(machine.only_session()["id"]) if e["kind"] == "ApprovalGiven"
    ]
    assert given["origin"]["face"] == "cli"


def test_what_the_client_answers_is_on_record_as_its(machine: Machine) -> None:
    model = machine.serve(WRITE, {"text": "done"})

    async def talk() -> None:
        async with editor(machine, "--model", model, "--mode", "ask") as opened:
            await opened.prompt(await opened.begin(), "write it")

    asyncio.run(talk())
    (given,) = [
        e["body"] for e in machine.events(machine.only_session()["id"]) if e["kind"] == "ApprovalGiven"
    ]
    assert (given["origin"]["face"], given["origin"]["program"]) == ("acp", "test-editor")


async def cancelled(opened: Editor, session: str, is_time: asyncio.Event, text: str) -> schema.PromptResponse:
    async with asyncio.TaskGroup() as group:
        prompt = group.create_task(opened.prompt(session, text))
        await is_time.wait()
        await opened.connection.cancel(session_id=session)
    return prompt.result()


def test_cancel_in_the_middle_of_a_command_ends_it_on_record(machine: Machine) -> None:
    model = machine.serve(call("shell", command="echo it has begun to run; sleep 1000"), {"text": "never"})

    async def talk() -> None:
        async with editor(machine, "--model", model) as opened:
            is_running = asyncio.Event()
            opened.client.on_update = lambda update: (
                is_running.set()
                if getattr(update, "status", "") == "in_progress" and update.content
                else None
            )
            session = await opened.begin()
            assert (await cancelled(opened, session, is_running, "run it")).stop_reason == "cancelled"
            (started,) = opened.client.of("tool_call")
            assert opened.client.call(started.tool_call_id)[-1].status == "failed"

    asyncio.run(talk())
    assert outcomes(machine) == ["cancelled"]
    assert machine.only_session()["state"] == "interrupted"


def test_cancel_while_a_person_is_asked_ends_the_turn(machine: Machine) -> None:
    model = machine.serve(WRITE, {"text": "never"})

    async def talk() -> None:
        async with editor(machine, "--model", model, "--mode", "ask") as opened:
            is_asked, is_cancelled = asyncio.Event(), asyncio.Event()

            async def choose(*_: Any) -> str:
                is_asked.set()
                await is_cancelled.wait()
                return ""

            opened.client.choose = choose
            session = await opened.begin()
            assert (await cancelled(opened, session, is_asked, "write")).stop_reason == "cancelled"
            is_cancelled.set()
            answer = await opened.prompt(session, "/cost")
            assert answer.stop_reason == "end_turn"

    asyncio.run(talk())
    assert not (machine.workspace / "made.txt").exists()


def test_a_question_with_choices_is_asked_with_them(machine: Machine) -> None:
    asks = call("ask", question="Which colour?", choices=["red", "blue"])
    model = machine.serve(asks, {"text": "fine"})

    async def talk() -> None:
        async with editor(machine, "--model", model) as opened:

            async def choose(*_: Any) -> str:
                return "choice-1"

            opened.client.choose = choose
            await opened.prompt(await opened.begin(), "paint it")
            ((_, options),) = opened.client.asked
            assert [each.name for each in options][:2] == ["red", "blue"]

    asyncio.run(talk())
    assert "The user answered: blue" in machine.seen[-1].body.decode()


def test_an_open_question_ends_the_turn_and_the_next_prompt_answers_it(machine: Machine) -> None:
    model = machine.serve(call("ask", question="Which colour?"), {"text": "fine"})

    async def talk() -> None:
        async with editor(machine, "--model", model) as opened:
            session = await opened.begin()
            first = await opened.prompt(session, "paint it")
            assert first.stop_reason == "end_turn"
            assert "Which colour?" in opened.client.said
            assert opened.client.asked == []
            await opened.prompt(session, "green")
            assert opened.client.said.endswith("fine")

    asyncio.run(talk())
    assert "The user answered: green" in machine.seen[-1].body.decode()


def test_what_is_said_in_another_terminal_is_shown_too(machine: Machine) -> None:
    model = machine.serve(call("shell", command="while [ ! -e go ]; do sleep 0.05; done"), {"text": "fine"})

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
                said = await asyncio.to_thread(machine.run, "say", session, "and be quick")
                assert said.returncode == 0, said.stderr
                (machine.workspace / "go").touch()
            assert [each.content.text for each in opened.client.of("user_message_chunk")] == ["and be quick"]

    asyncio.run(talk())
