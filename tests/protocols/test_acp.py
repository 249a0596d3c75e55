"""`mainspring acp`, driven by the protocol's own client over stdio."""

from __future__ import annotations

import asyncio
from base64 import b64decode, b64encode
from typing import Any

import pytest
from acp import (
    RequestError,
    embedded_text_resource,
    image_block,
    resource_block,
    resource_link_block,
    schema,
)

from tests.cli.conftest import Machine
from tests.protocols.editor import editor

PNG = b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


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


def test_a_change_of_a_file_is_a_diff(machine: Machine) -> None:
    path = machine.workspace / "a.txt"
    path.write_text("one\ntwo\n")
    edit = call("edit", path="a.txt", edits=[{"old": "two", "new": "three"}])
    model = machine.serve(
        call("read", path="a.txt"), edit, call("write", path="new.txt", content="x\n"), {"text": "ok"}
    )

    async def talk() -> None:
        async with editor(machine, "--model", model) as opened:
            await opened.prompt(await opened.begin(), "change it")
            _, edited, written = [each.tool_call_id for each in opened.client.of("tool_call")]
            *_, last = opened.client.call(edited)
            assert (last.status, [each.type for each in last.content]) == ("completed", ["diff"])
            (diff,) = last.content
            assert (diff.path, diff.old_text, diff.new_text) == (str(path), "one\ntwo\n", "one\nthree\n")
            (diff,) = opened.client.call(written)[-1].content
            assert (diff.path, diff.old_text, diff.new_text) == (
                str(machine.workspace / "new.txt"),
                None,
                "x\n",
            )

    asyncio.run(talk())


def test_output_of_a_command_is_shown_while_it_runs(machine: Machine) -> None:
    command = "echo first of many words; while [ ! -e go ]; do sleep 0.05; done; echo second"
    model = machine.serve(call("shell", command=command), {"text": "ok"})

    async def talk() -> None:
        async with editor(machine, "--model", model) as opened:

            def go_on(update: Any) -> None:
                if any(
                    "first" in each.content.text
                    for each in getattr(update, "content", None) or ()
                    if each.type == "content"
                ):
                    (machine.workspace / "go").touch()

            opened.client.on_update = lambda update: (
                go_on(update) if update.session_update == "tool_call_update" else None
            )
            await opened.prompt(await opened.begin(), "run it")
            (started,) = opened.client.of("tool_call")
            assert (started.kind, started.title) == ("execute", f"shell {command}")
            last = opened.client.call(started.tool_call_id)[-1]
            assert last.status == "completed", last
            assert last.raw_output == {"outcome": "ok", "exit_code": 0}
            assert "first of many words\nsecond" in last.content[-1].content.text

    asyncio.run(talk())


def test_a_client_with_terminals_of_ours_gets_output_in_pieces(machine: Machine) -> None:
    model = machine.serve(call("shell", command="echo out; exit 3"), {"text": "ok"})
    able = schema.ClientCapabilities.model_validate({"_meta": {"terminal_output": True}})

    async def talk() -> None:
        async with editor(machine, "--model", model, capabilities=able) as opened:
            await opened.prompt(await opened.begin(), "run it")
            (started,) = opened.client.of("tool_call")
            name = started.tool_call_id
            assert started.field_meta == {"terminal_info": {"terminal_id": name}}
            assert [each.type for each in started.content] == ["terminal"]
            metas = [each.field_meta for each in opened.client.call(name) if each.field_meta][1:]
            assert {"terminal_output": {"terminal_id": name, "data": "out\n"}} in metas
            assert metas[-1] == {"terminal_exit": {"terminal_id": name, "exit_code": 3, "signal": None}}

    asyncio.run(talk())


def test_a_plan_usage_and_the_title_are_told(machine: Machine) -> None:
    items = [{"text": "look", "progress": "done"}, {"text": "act", "progress": "doing"}, {"text": "check"}]
    model = machine.serve(call("plan", items=items), {"text": "ok"})
    machine.home.mkdir()
    (machine.home / "config.toml").write_text(f'[models."{model}"]\nwindow = 50000\n')

    async def talk() -> None:
        async with editor(machine, "--model", model) as opened:
            answer = await opened.prompt(await opened.begin(), "plan it\nplease")
            (plan,) = opened.client.of("plan")
            entries = [(each.content, each.status) for each in plan.entries]
            assert entries == [("look", "completed"), ("act", "in_progress"), ("check", "pending")]
            used = opened.client.of("usage_update")
            assert len(used) == len(machine.seen)
            assert (used[-1].size, used[-1].cost.currency) == (50_000, "USD")
            assert used[-1].used > 0
            assert answer.usage is not None
            assert answer.usage.total_tokens > used[-1].used
            assert [each.title for each in opened.client.of("session_info_update")] == ["plan it"]

    asyncio.run(talk())


def test_images_and_embedded_files_reach_the_model_and_links_are_named(machine: Machine) -> None:
    model = machine.serve({"text": "seen"})
    (machine.workspace / "b.txt").write_text("on disk\n")

    async def talk() -> None:
        async with editor(machine, "--model", model) as opened:
            session = await opened.begin()
            uri = (machine.workspace / "a.txt").as_uri()
            answer = await opened.prompt(
                session,
                "look at",
                image_block(b64encode(PNG).decode(), "image/png"),
                resource_block(embedded_text_resource(uri, "embedded words")),
                resource_link_block("b.txt", (machine.workspace / "b.txt").as_uri()),
                resource_link_block("page", "https://example.com/page"),
            )
            assert answer.stop_reason == "end_turn"

    asyncio.run(talk())
    body = machine.seen[0].body.decode()
    assert b64encode(PNG).decode() in body
    assert "embedded words" in body
    assert "look at @a.txt @b.txt page (https://example.com/page)" in body


def test_unsaved_text_of_a_linked_file_is_taken_from_the_editor(machine: Machine) -> None:
    model = machine.serve({"text": "seen"})
    for name in ("dirty.txt", "clean.txt"):
        (machine.workspace / name).write_text("saved words\n")
    able = schema.ClientCapabilities(fs=schema.FileSystemCapabilities(read_text_file=True))
    links = [
        resource_link_block(each, (machine.workspace / each).as_uri()) for each in ("dirty.txt", "clean.txt")
    ]

    async def talk() -> None:
        async with editor(machine, "--model", model, capabilities=able) as opened:
            opened.client.buffers[str(machine.workspace / "dirty.txt")] = "unsaved words\n"
            await opened.prompt(await opened.begin(), "look at", *links)
            assert sorted(opened.client.reads) == sorted(
                str(machine.workspace / each) for each in ("dirty.txt", "clean.txt")
            )

    asyncio.run(talk())
    said = machine.events(machine.only_session()["id"])
    (user,) = [event["body"] for event in said if event["kind"] == "UserSaid"]
    assert [media["name"] for media in user["media"]] == ["dirty.txt"]
    assert "unsaved words" in machine.seen[0].body.decode()


def test_nothing_is_read_from_a_client_that_did_not_say_it_can(machine: Machine) -> None:
    model = machine.serve({"text": "seen"})
    (machine.workspace / "a.txt").write_text("saved\n")

    async def talk() -> None:
        async with editor(machine, "--model", model) as opened:
            link = resource_link_block("a.txt", (machine.workspace / "a.txt").as_uri())
            await opened.prompt(await opened.begin(), link)
            assert opened.client.reads == []

    asyncio.run(talk())


def test_a_failed_turn_is_an_error_with_the_remedy(machine: Machine) -> None:
    model = machine.serve({"text": "-", "fault": {"kind": "status", "status": 401}})

    async def talk() -> None:
        async with editor(machine, "--model", model) as opened:
            session = await opened.begin()
            with pytest.raises(RequestError) as failed:
                await opened.prompt(session, "hello")
            assert failed.value.code == -32603
            assert "401" in str(failed.value)

    asyncio.run(talk())


def test_a_limit_of_steps_is_told_as_such(machine: Machine) -> None:
    (machine.workspace / "a.txt").write_text("one\n")
    model = machine.serve(call("read", path="a.txt"), {"text": "never"})

    async def talk() -> None:
        async with editor(machine, "--model", model, "--max-steps", "1") as opened:
            answer = await opened.prompt(await opened.begin(), "read")
            assert answer.stop_reason == "max_turn_requests"

    asyncio.run(talk())
