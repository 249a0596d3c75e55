"""The stage that programs test their agents on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import mainspring
from mainspring.errors import ModelError
from mainspring.events import CallEnded, EffortChosen, SessionResumed, TurnEnded, UserSaid
from mainspring.models import Price
from mainspring.testing import Stage, tool_call


def test_a_program_is_tested_on_what_it_asked_and_did(tmp_path: Path) -> None:
    stage = Stage(tmp_path, tool_call("read", path="a.txt"), "It says hello.")
    (stage.workspace / "a.txt").write_text("hello")
    assert stage.run("What does it say?", tools=["read"]).text == "It says hello."
    assert [ended.outcome for ended in stage.events(CallEnded)] == ["ok"]
    assert "hello" in stage.sent()[-1]["results"][0]["text"]
    assert stage.seq(UserSaid) < stage.seq(TurnEnded)


def test_a_stage_goes_on_with_its_session_and_replays_it(tmp_path: Path) -> None:
    stage = Stage(tmp_path, "One.", "Two.")

    async def told() -> str:
        async with stage.open() as session:
            return (await session.ask("first")).text

    assert (asyncio.run(told()), stage.run("second").text) == ("One.", "Two.")
    assert len(stage.events(SessionResumed)) == 1
    assert [request.verdict for request in stage.replay()] == ["same", "same"]


def test_a_request_can_fail_and_cost(tmp_path: Path) -> None:
    stage = Stage(tmp_path, "Never said.", price=Price(input=1.0, output=1.0))
    stage.errors[1] = ModelError("The provider is down.")
    assert stage.run("hi").ending == "failed"
    assert stage.run().cost_usd > 0


def test_settings_of_the_user_are_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "real"
    home.mkdir()
    (home / "config.toml").write_text('effort = "high"\n')
    monkeypatch.setenv("MAINSPRING_HOME", str(home))
    stage = Stage(tmp_path / "stage", "Hi.")
    assert (mainspring.load_config().settings.effort, stage.run("hi").text) == ("high", "Hi.")
    assert stage.events(EffortChosen) == []
    assert list(home.iterdir()) == [home / "config.toml"]
