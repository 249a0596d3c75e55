"""What plans left unfinished, over the sessions of a project."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner

from mainspring.app.operations.open_tasks import open_tasks
from mainspring.app.stores import sessions_of
from mainspring.cli.sessions import sessions_command
from mainspring.settings import Config, load_config
from mainspring.testing import Stage, tool_call


def planned(folder: Path, **items: str) -> Stage:
    """A session in a project that ends with this plan."""
    plan = [{"text": text.replace("_", " "), "progress": progress} for text, progress in items.items()]
    stage = Stage(
        folder,
        tool_call("plan", items=plan),
        "I stop here.",
        "I stop.",
        "I stop.",
        "I stop.",
        sessions=sessions_of(config_of(folder)),
    )
    stage.run("Build the shop")
    return stage


def config_of(folder: Path) -> Config:
    return load_config({"MAINSPRING_HOME": str(folder / "home"), "PATH": "/usr/bin:/bin"})


def test_unfinished_items_of_all_sessions_are_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = planned(tmp_path, build_walls="done", build_roof="open", paint="doing")
    planned(tmp_path, build_roof="done", paint="open", plant_trees="open")
    config = config_of(tmp_path)
    (new,) = asyncio.run(open_tasks(config, first.workspace))
    assert [(item.text, item.progress) for item in new.items] == [("paint", "open"), ("plant trees", "open")]
    assert asyncio.run(open_tasks(config, tmp_path)) == []
    assert len(asyncio.run(open_tasks(config, tmp_path, is_everywhere=True))) == 1
    monkeypatch.setenv("MAINSPRING_HOME", str(tmp_path / "home"))
    shown = CliRunner().invoke(sessions_command, ["open-tasks", "-C", str(first.workspace)])
    assert shown.exit_code == 0, shown.output
    assert shown.output.splitlines()[1:] == ["  [ ] paint", "  [ ] plant trees"]
    nothing = CliRunner().invoke(sessions_command, ["open-tasks", "-C", str(tmp_path)])
    assert nothing.output == "Nothing is open: every plan of this project is done.\n"
