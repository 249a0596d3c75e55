"""`mainspring tasks`: real processes, real checks, killed after every commit."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mainspring.catalog.sqlite import SqliteSessions
from mainspring.events import (
    CallEnded,
    ChildEnded,
    ChildStarted,
    Event,
    TasksEnded,
    TasksStarted,
    TurnEnded,
    UserSaid,
)
from mainspring.folds.task_graph import TaskGraph, graphs_in
from tests import ROOT
from tests.cli.conftest import Machine

GRAPH = {
    "base": {"check": "true"},
    "left": {"needs": ["base"]},
    "right": {"needs": ["base"], "check": ["true", "echo broken; false"]},
    "both": {"needs": ["left", "right"]},
    "after": {"needs": ["left"], "agent": "explore"},
}
STATES = {"base": "done", "left": "done", "right": "failed", "both": "blocked", "after": "done"}
FREE = ("--mode", "yolo", "--sandbox", "none", "--max-cost-usd", "1")


def written(machine: Machine, tasks: dict[str, dict[str, Any]], name: str = "tasks.toml") -> Path:
    """A file with these tasks; the text of each is its name in capitals."""
    tables = [{"name": task, "text": f"{task.upper()} now", **fields} for task, fields in tasks.items()]
    text = "".join(
        "[[task]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items())
        for table in tables
    )
    file = machine.home.parent / name
    file.write_text(text)
    return file


def scripted(machine: Machine, effects: Path | None = None, **replies: list[dict[str, Any]]) -> str:
    """A model that leaves a trace of each task of the graph, writes a file and is done."""

    def usual(task: str) -> list[dict[str, Any]]:
        trace = {"name": "shell", "arguments": {"command": f"echo {task} >> '{effects}'"}}
        write = {"name": "write", "arguments": {"path": f"{task}.txt", "content": f"{task}\n"}}
        return [{"calls": [trace]}, {"calls": [write]}, {"text": f"{task} is done"}]

    found = {task: usual(task) for task in GRAPH if task != "after"} | {"after": [{"text": "after is done"}]}
    found |= replies
    cases = [{"contains": f"{task.upper()} now", "replies": each} for task, each in found.items()]
    file = machine.home.parent / "script.json"
    file.write_text(json.dumps({"cases": cases, "price": {"input": 1.0, "output": 2.0}}))
    return f"scripted@{file}"


def run(machine: Machine, *arguments: str) -> tuple[int, dict[str, Any]]:
    ran = machine.run("tasks", *arguments, "--json")
    assert ran.stdout, ran.stderr
    return ran.returncode, json.loads(ran.stdout)


def states(found: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each["state"] for each in found["tasks"]}


def recorded(machine: Machine, session: str) -> list[Event]:
    file = SqliteSessions(machine.home).shelf.file(session)
    try:
        return [item.event for item in file.read(limit=100_000)]
    finally:
        file.close()


def parent_of(machine: Machine) -> str:
    for session in SqliteSessions(machine.home).shelf.names():
        if any(isinstance(event, TasksStarted) for event in recorded(machine, session)):
            return session
    raise AssertionError("there is no session with tasks")


def check(machine: Machine, effects: Path) -> TaskGraph:
    """Every task that could be done was done, once."""
    parent = parent_of(machine)
    events = recorded(machine, parent)
    started = [event for event in events if isinstance(event, ChildStarted)]
    ended = [event.child for event in events if isinstance(event, ChildEnded)]
    assert sorted(each.node for each in started) == ["after", "base", "left", "right"]
    assert sorted(each.child for each in started) == sorted(ended)
    assert set(SqliteSessions(machine.home).shelf.names()) == {parent, *ended}
    assert sum(isinstance(event, TasksEnded) for event in events) == 1
    traces = effects.read_text().split() if effects.exists() else []
    assert len(traces) == len(set(traces)), "a call was made twice"
    files = {path.name for path in machine.workspace.iterdir()}
    assert "right.txt" not in files
    for each in started:
        child = recorded(machine, each.child)
        assert sum(isinstance(event, UserSaid) for event in child) == 1
        assert [event.ending for event in child if isinstance(event, TurnEnded)] == ["done"]
        outcomes = [event.outcome for event in child if isinstance(event, CallEnded)]
        if each.node in ("base", "left") and outcomes[-1] == "ok":
            assert f"{each.node}.txt" in files
    found = graphs_in(events)[""]
    assert {task.plan.name: task.state for task in found.tasks} == STATES
    return found


def test_ready_tasks_are_done_and_a_failed_one_blocks_only_what_needs_it(machine: Machine) -> None:
    effects = machine.home.parent / "effects"
    file = written(machine, GRAPH)
    ran = machine.run("tasks", str(file), "--model", scripted(machine, effects), *FREE)
    assert ran.returncode == 1, ran.stderr
    found = {task.plan.name: task for task in check(machine, effects).tasks}
    right, left = found["right"].ended, found["left"].started
    assert right
    assert right.failed == ("echo broken; false",)
    assert "broken" in right.detail
    assert found["both"].missing == ("right",)
    assert {path.name for path in machine.workspace.iterdir()} == {"base.txt", "left.txt"}
    (shown,) = [line for line in ran.stdout.splitlines() if " after " in line]
    assert "✓" in shown
    assert left
    assert "base is done" in left.task


def killed(machine: Machine, commits: int, effects: Path) -> int:
    file = written(machine, GRAPH)
    ran = subprocess.run(
        [sys.executable, "-m", "tests.cli.killed_worker", str(commits), "tasks", str(file), "--model",
         scripted(machine, effects), "-C", str(machine.workspace), *FREE],
        cwd=ROOT, env=machine.environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert ran.returncode in (1, -signal.SIGKILL), ran.stderr
    return ran.returncode


def goes_on(machine: Machine, commits: int) -> None:
    effects = machine.home.parent / "effects"
    assert killed(machine, commits, effects) == -signal.SIGKILL
    code, found = run(machine, "--resume", parent_of(machine), "--mode", "yolo", "--sandbox", "none")
    assert (code, states(found)) == (1, STATES)
    check(machine, effects)


COMMITS = 75
"""At least those of an undisturbed run, parent and children together."""


@pytest.mark.parametrize("commits", [3, 30, 52])
def test_killed_tasks_go_on_and_nothing_is_done_twice(machine: Machine, commits: int) -> None:
    goes_on(machine, commits)


@pytest.mark.proof
@pytest.mark.parametrize("commits", range(1, COMMITS + 1))
def test_tasks_killed_anywhere_go_on_and_nothing_is_done_twice(machine: Machine, commits: int) -> None:
    goes_on(machine, commits)
