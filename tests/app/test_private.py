"""Data and settings are for their owner only: what is made now, and what an older version left open."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mainspring.app.private import make_private
from mainspring.settings import load_config
from tests.cli.conftest import Machine, machine

__all__ = ["machine"]

FREE = ("--mode", "yolo", "--max-cost-usd", "1", "--allow-unpriced", "--sandbox", "none")


@pytest.fixture(autouse=True)
def _usual_umask() -> object:
    before = os.umask(0o022)
    yield
    os.umask(before)


def open_to_others(folder: Path) -> list[str]:
    found = (path for path in (folder, *folder.rglob("*")) if not path.is_symlink())
    return [
        f"{path.relative_to(folder)} {path.lstat().st_mode:o}"
        for path in found
        if path.lstat().st_mode & 0o077
    ]


def test_whatever_a_session_a_goal_and_a_command_leave_is_for_their_owner_only(machine: Machine) -> None:
    background = {"name": "shell", "arguments": {"command": "echo out", "background": True}}
    note = {"name": "note", "arguments": {"text": "Tests are run with make.", "scope": "project"}}
    model = machine.serve(
        {"text": "", "calls": [background, note]}, {"text": "hello"}, {"text": "done"}, {"text": "done"}
    )
    assert machine.run("run", "--model", model, *FREE, "go", MAINSPRING_LOG="").returncode == 0
    machine.run("--debug", "sessions")
    machine.run("exec", "--sandbox", "none", "--", "echo", "x")
    machine.run("goal", "start", "--model", model, "--max-iterations", "1", *FREE, "go")
    machine.run("goal", "schedule", "--yes", "--no-cost-cap", "--model", model, "@daily", "go")
    made = {path.name for path in machine.home.iterdir()}
    assert {"sessions", "steps", "index.sqlite", "contents", "schedules.json"} <= made
    assert open_to_others(machine.home) == []


def test_what_an_older_version_left_open_is_closed_and_told_once(machine: Machine) -> None:
    model = machine.serve({"text": "hello"})
    machine.run("run", "--model", model, *FREE, "go")
    machine.run("sessions")
    for path in machine.home.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    machine.home.chmod(0o755)
    (machine.home / "unrelated").touch(mode=0o644)
    first, second = machine.run("sessions"), machine.run("sessions")
    assert f"{machine.home} was open to other users" in first.stderr
    assert "open to other users" not in second.stderr
    assert open_to_others(machine.home) == ["unrelated 100644"]


def test_a_list_that_was_left_open_in_a_closed_folder_is_closed(tmp_path: Path) -> None:
    config = load_config({"MAINSPRING_HOME": str(tmp_path / "home")})
    config.home.mkdir(mode=0o700)
    (config.home / "index.sqlite").touch(mode=0o644)
    assert make_private(config) == (config.home,)
    assert make_private(config) == ()
