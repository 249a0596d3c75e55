"""A no of `PreToolUse` holds wherever calls are made: servers, editors, attempts, farms and children."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from mainspring.events import CallEnded, ChildEnded, ChildStarted, Limits
from mainspring.models.scripted import ScriptedCall, ScriptedReply
from mainspring.testing import tool_call
from tests.agents.family import PARENT, Family, asks, script_of
from tests.cli.conftest import Machine
from tests.cli.conftest import machine as machine  # noqa: PLC0414 - a fixture
from tests.cli.test_farm import farm, git
from tests.mcp.conftest import Desk, call, peer
from tests.mcp.conftest import desk as desk  # noqa: PLC0414 - a fixture
from tests.protocols.editor import editor

FREE = ("--mode", "yolo", "--max-cost-usd", "1", "--allow-unpriced")
WRITE = {"calls": [{"name": "write", "arguments": {"path": "made.txt", "content": "x\n"}}]}


def deny(folder: Path, matcher: str) -> None:
    """The user's own hook that refuses what fits."""
    hook = {"type": "command", "command": "echo no >&2; exit 2"}
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"hooks": {"PreToolUse": [{"matcher": matcher, "hooks": [hook]}]}})
    (folder / "hooks.json").write_text(text)


def outcomes(events: list[dict[str, Any]]) -> list[str]:
    return [event["body"]["outcome"] for event in events if event["kind"] == "CallEnded"]


@pytest.mark.parametrize(
    ("matcher", "expected"),
    [("mcp__peer__add", ["refused"] * 2), ("mcp__peer__.*", ["refused"] * 2), ("mcp__other__.*", ["ok"] * 2)],
)
def test_tools_of_servers_are_matched_by_name_also_behind_call_tool(
    desk: Desk, matcher: str, expected: list[str]
) -> None:
    desk.servers = {"peer": peer("sdk")}
    deny(desk.config.folder, matcher)

    async def scene() -> list[str]:
        await desk.ask(call("mcp__peer__add", a=2, b=3), "done")
        first = [each.outcome for each in await desk.ended()]
        await desk.ask(tool_call("mcp__peer__add", a=1, b=1), "done")
        return [*first, *(each.outcome for each in await desk.ended())]

    assert asyncio.run(scene()) == expected


def test_an_editor_cannot_allow_what_a_hook_refuses(machine: Machine) -> None:
    deny(machine.home, "Write")
    model = machine.serve(WRITE, {"text": "done"})

    async def talk() -> int:
        async with editor(machine, "--model", model, "--mode", "ask") as opened:
            await opened.prompt(await opened.begin(), "write it")
            return len(opened.client.asked)

    assert asyncio.run(talk()) == 0, "nobody is asked about what is refused"
    assert outcomes(machine.events(machine.only_session()["id"])) == ["refused"]
    assert not (machine.workspace / "made.txt").exists()


def test_every_attempt_at_a_task_passes_the_hooks(machine: Machine) -> None:
    deny(machine.home, "Write")
    model = machine.serve(WRITE, {"text": "done"})
    asked = ("--attempts", "2", "--check", "test -e made.txt")
    assert machine.run("run", "--model", model, *FREE, *asked, "write it").returncode == 1
    assert outcomes(machine.events(machine.only_session()["id"])) == ["refused"] * 2
    assert not (machine.workspace / "made.txt").exists()


def test_every_attempt_of_a_farm_passes_the_hooks(machine: Machine) -> None:
    git(machine, "init", "-q", "-b", "main")
    git(machine, "commit", "-q", "--allow-empty", "-m", "begin")
    deny(machine.home, "Write")
    model = machine.serve(WRITE, {"text": "done"})
    _, found = farm(machine, "write it", "-n", "2", "--model", model, "--check", "test -e made.txt", *FREE)
    sessions = [each["started"]["session"] for each in found["attempts"]]
    assert [outcomes(machine.events(each)) for each in sessions] == [["refused"]] * 2
    assert not any(each["ended"].get("commit") for each in found["attempts"])


@pytest.mark.parametrize("tool", ["write", "shell"])
def test_a_child_cannot_take_the_hooks_of_the_project_away(tmp_path: Path, tool: str) -> None:
    """Neither in its copy, where they are its parent's anyway, nor by what is taken over."""
    arguments = {
        "write": {"path": ".mainspring/hooks.json", "content": "{}"},
        "shell": {"command": "mkdir -p .mainspring && echo '{}' > .mainspring/hooks.json"},
    }
    change = ScriptedReply(calls=(ScriptedCall(tool, arguments[tool]),))
    look = ScriptedReply(calls=(ScriptedCall("find", {"glob": "*"}),))
    script = script_of(
        (asks("CHANGE it"), ScriptedReply(text="Done.")), CHANGE=(change, look, ScriptedReply(text="Did."))
    )
    stage = Family(tmp_path, script)
    deny(stage._config().folder, "Glob")
    deny(stage.workspace / ".mainspring", "Bash")
    before = (stage.workspace / ".mainspring" / "hooks.json").read_text()
    stage.run(PARENT, mode="yolo", limits=Limits(max_cost_usd=1.0))
    (started,), (ended,) = stage.events(ChildStarted), stage.events(ChildEnded)
    calls = [item.event.outcome for item in stage.of(started.child) if isinstance(item.event, CallEnded)]
    assert calls[-1] == "refused"
    assert (stage.workspace / ".mainspring" / "hooks.json").read_text() == before, ended
