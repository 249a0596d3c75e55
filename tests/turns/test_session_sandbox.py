"""The sandbox of a session is made ready while the model thinks, once, and never for one that answers at once."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import pytest

import mainspring
from mainspring.events import SandboxChosen
from mainspring.models import Request, StreamItem
from mainspring.models.scripted import Script, ScriptedModel
from mainspring.sandbox.custody.tree import command_line, descendants
from mainspring.settings import load_config
from mainspring.testing import ScriptedCall, ScriptedReply
from mainspring.tools import read, shell, write
from mainspring.workspace import Unrecorded
from tests.stage import Nowhere, PausingModel, Stage, call, calls, pass_time, says, stopped_clock, take

LONG_S = 60.0


class Slow(ScriptedModel):
    """Answers when something has happened."""

    def __init__(self, script: Script, happened: Callable[[], bool]) -> None:
        super().__init__(script)
        self.happened = happened

    async def stream(self, request: Request) -> AsyncGenerator[StreamItem]:
        async with asyncio.timeout(LONG_S):
            while not self.happened():
                await asyncio.sleep(0.01)
        async for item in super().stream(request):
            yield item


def helpers() -> list[str]:
    below = (command_line(process.pid) for process in descendants(os.getpid()))
    return [line for line in below if "custody.warden" in line]


class Choice:
    """Counts how often a sandbox is chosen and closed."""

    def __init__(self) -> None:
        self.loaded = self.made = self.closed = 0

    def load(self) -> None:
        self.loaded += 1

    async def __call__(self) -> Counted:
        self.made += 1
        return Counted(self)


class Counted(Nowhere):
    def __init__(self, choice: Choice) -> None:
        self.choice = choice

    async def close(self) -> None:
        self.choice.closed += 1


def thinking(folder: Path, choice: Choice, *, seconds: float, tools: bool = True) -> Stage:
    """A turn whose model thinks for so long and then says that it is done."""
    stage = Stage(folder, says("done"))
    stage.tools = [shell.TOOL] if tools else []

    async def taken() -> None:
        model = stage.model(PausingModel)
        async with (
            stopped_clock(),
            stage.opened(model=model, choose_sandbox=choice, load_for_commands=choice.load) as session,
        ):
            turn = asyncio.create_task(take(session, "go"))
            await model.is_streaming.wait()
            pass_time(seconds)
            for _ in range(3):  # turns of the loop, in which a timer that is due begins
                await asyncio.sleep(0)
            model.may_go_on.set()
            await turn

    asyncio.run(taken())
    return stage


def test_it_is_made_ready_while_the_model_thinks(tmp_path: Path) -> None:
    choice = Choice()
    stage = thinking(tmp_path, choice, seconds=1.0)
    assert (choice.loaded, choice.closed) == (1, choice.made)
    assert not stage.events(SandboxChosen), "nothing ran, so nothing is on record"


@pytest.mark.parametrize(("seconds", "tools"), [(0.0, True), (1.0, False)])
def test_nothing_is_made_ready_for_a_quick_answer_or_without_a_shell(
    tmp_path: Path, *, seconds: float, tools: bool
) -> None:
    choice = Choice()
    thinking(tmp_path, choice, seconds=seconds, tools=tools)
    assert (choice.loaded, choice.made) == (0, 0)


class Looks(Unrecorded):
    def __init__(self) -> None:
        self.expected = 0

    def expect(self) -> None:
        self.expected += 1


@pytest.mark.parametrize(("tool", "times"), [("shell", 1), ("write", 1), ("read", 0), ("nonsense", 0)])
def test_the_workspace_is_looked_at_while_a_call_is_written_that_may_change_it(
    tmp_path: Path, tool: str, times: int
) -> None:
    stage = Stage(tmp_path, calls(call(tool)), says("done"))
    stage.tools = [shell.TOOL, write.TOOL, read.TOOL]
    looks = Looks()
    stage.take("go", time_machine=looks)
    assert looks.expected == times


def test_the_first_command_finds_its_helper_running_and_the_session_leaves_none_behind(
    tmp_path: Path,
) -> None:
    before = len(helpers())
    command = ScriptedCall("shell", {"command": "echo ran > ran"})
    model = Slow(Script(replies=(ScriptedReply(calls=(command,)),)), lambda: len(helpers()) > before)

    async def taken() -> None:
        (work := tmp_path / "w").mkdir()
        config = load_config({"MAINSPRING_HOME": str(tmp_path / "h"), "PATH": os.environ["PATH"]})
        async with mainspring.open(work, model=model, config=config) as session:
            assert (await take(session, "go")).ending == "done"
        assert (work / "ran").read_text() == "ran\n"

    asyncio.run(taken())
    assert len(helpers()) == before
