"""A look at a huge workspace says how far it is when somebody waits for it, and can be interrupted."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path

import pytest

import mainspring
from mainspring.app.goals import GoalOptions, resume_goal, start_goal
from mainspring.disk import scan
from mainspring.events import GoalEnded, GoalPaused, StatusDelta
from mainspring.models.scripted import Script, ScriptedCall, ScriptedModel, ScriptedReply
from mainspring.settings import Config, load_config
from tests.workspace.machine import Watched

FILES = 40


@pytest.fixture
def work(tmp_path: Path) -> Path:
    work = (tmp_path / "work").resolve()
    work.mkdir()
    for number in range(FILES):
        (work / f"{number}.txt").write_text(f"{number}")
    return work


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return load_config(
        {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "MAINSPRING_HOME": f"{tmp_path}/data"}
    )


def told_by(work: Path, config: Config) -> list[str]:
    """What a turn with one shell call shows without recording it."""
    replies = (ScriptedReply(calls=(ScriptedCall("shell", {"command": "true"}),)), ScriptedReply(text="done"))
    told: list[str] = []

    async def run() -> None:
        model = ScriptedModel(Script(replies=replies))
        async with mainspring.open(work, model=model, mode="auto", config=config) as session:
            async for item in session.watch("go"):
                told.extend([item.event.text] if isinstance(item.event, StatusDelta) else [])
            kinds = {item.kind for item in await session.journal.read()}
            assert "StatusDelta" not in kinds

    asyncio.run(run())
    return told


def test_a_long_look_that_a_call_waits_for_is_shown(
    work: Path, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "_LONG_S", 0.0)
    assert f"looking at the workspace: {FILES} files" in told_by(work, config)


def test_a_look_in_the_background_is_not_shown(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "_LONG_S", 0.0)
    monkeypatch.setattr(scan, "_SELDOM_S", 0.0)
    shared, told = scan.Scan(), list[str]()
    shared.on_progress = told.append
    watched = Watched(work, tmp_path / "cache", scan=shared)
    watched.run(watched.machine.prepare())
    assert told == []
    watched.call(lambda: (work / "new").write_text("x"))
    watched.close()
    assert told[0] == f"looking at the workspace: {FILES} files"
    assert f"looking at the workspace: {FILES + 1} files" in told
    # Files that were written within a tick are read again with the new one.
    assert re.fullmatch(r"keeping contents of the workspace: (\d+) of \1 files", told[-1])


def test_progress_is_told_after_a_second_and_less_and_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, told = [0.0], list[tuple[float, str]]()
    monkeypatch.setattr(scan.time, "monotonic", lambda: now_s[0])
    progress = scan.ScanProgress(lambda text: told.append((now_s[0], text)), "hashing", 2000)
    for tenth in range(300):
        now_s[0] = tenth / 10
        progress.add(5)
    assert told[0] == (1.0, "hashing: 55 of 2,000 files")
    assert [when for when, _ in told] == [1.0, 3.0, 7.0, 15.0, 25.0]


def test_a_goal_that_is_interrupted_while_it_looks_is_paused_and_wrote_nothing(
    work: Path, config: Config
) -> None:
    options = GoalOptions(folder=work, engine="exec:true", rules={"max_iterations": 1})
    before = sorted(path.name for path in work.iterdir())

    async def interrupted() -> str:
        async with start_goal("nothing", options, config=config) as pursuit:
            working = asyncio.create_task(pursuit.run())
            await asyncio.sleep(0)  # it waits for the first look now
            working.cancel()
            assert isinstance(await working, GoalPaused)
            return pursuit.session.id

    async def resumed(session: str) -> GoalEnded | GoalPaused:
        async with resume_goal(session, GoalOptions(), config=config) as pursuit:
            return await pursuit.run()

    session = asyncio.run(interrupted())
    assert sorted(path.name for path in work.iterdir()) == before
    ended = asyncio.run(resumed(session))
    assert isinstance(ended, GoalEnded)
    assert ended.ending == "iterations"
    assert (work / "AGENTS.md").exists()
