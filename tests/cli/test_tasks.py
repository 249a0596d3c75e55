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
    SpendSettled,
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


def test_what_is_wrong_with_a_file_is_said_before_anything_begins(machine: Machine) -> None:
    wrong = {
        "a -> b -> a": {"a": {"needs": ["b"]}, "b": {"needs": ["a"]}},
        "Did you mean explore?": {"a": {"agent": "explorer"}},
        "model nobody/nothing": {"a": {"model": "nobody/nothing"}},
        "its address is not in the settings": {"a": {"model": "openai-compatible@http://127.0.0.1:9#x"}},
    }
    for said, tasks in wrong.items():
        ran = machine.run("tasks", str(written(machine, tasks)), "--model", scripted(machine))
        assert ran.returncode == 2
        assert said in ran.stderr
    for arguments in ((), (str(machine.workspace),), ("tasks.toml", "--resume", "x")):
        assert machine.run("tasks", *arguments).returncode == 2
    assert not (machine.home / "sessions").exists()
    fine = machine.run("tasks", str(written(machine, GRAPH)), "--check-only")
    assert (fine.returncode, "5 tasks" in fine.stdout) == (0, True)
    assert not (machine.home / "sessions").exists()


def test_interrupted_tasks_go_on_with_the_same_children_by_resume(machine: Machine) -> None:
    free = machine.home.parent / "free"
    held = {"name": "shell", "arguments": {"command": f"until test -e '{free}'; do sleep 0.05; done"}}
    slow = [{"calls": [held]}, {"text": "slow is done"}]
    file = written(machine, {"slow": {}, "last": {"needs": ["slow"], "agent": "explore"}})
    model = scripted(machine, slow=slow, last=[{"text": "last is done"}])
    with machine.start("tasks", str(file), "--model", model, *FREE) as process:
        try:
            assert process.stderr
            assert any("slow running" in line for line in process.stderr)
            process.send_signal(signal.SIGINT)
            process.communicate()
        finally:
            process.kill()
    free.touch()
    parent = parent_of(machine)
    assert not any(isinstance(event, ChildEnded) for event in recorded(machine, parent))
    refused = machine.run("resume", parent, "--max-steps", "3")
    assert (refused.returncode, f"tasks --resume {parent}" in refused.stderr) == (2, True)
    ran = machine.run("resume", parent, "--mode", "yolo", "--sandbox", "none")
    assert ran.returncode == 0, ran.stderr
    events = recorded(machine, parent)
    assert [event.node for event in events if isinstance(event, ChildStarted)] == ["slow", "last"]
    assert [event.state for event in events if isinstance(event, ChildEnded)] == ["done", "done"]


def test_tasks_together_keep_within_the_budget_and_one_that_gets_nothing_fails(machine: Machine) -> None:
    endless = [{"calls": [{"name": "find", "arguments": {"glob": f"*{n}"}}]} for n in range(40)]
    file = written(machine, {"one": {}, "two": {"needs": ["one"]}, "three": {}})
    model = scripted(machine, one=endless, two=endless, three=endless)
    code, found = run(machine, str(file), "--model", model, "--max-tokens", "30000", *FREE)
    assert code == 1
    assert states(found) == {"one": "failed", "two": "blocked", "three": "failed"}
    spent = [event for event in recorded(machine, found["session"]) if isinstance(event, SpendSettled)]
    assert 0 < sum(event.usage.total_tokens for event in spent) <= 30_000


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


COMMITS = 102
"""Those of an undisturbed run, parent and children together."""


@pytest.mark.parametrize("commits", [3, 30, 52])
def test_killed_tasks_go_on_and_nothing_is_done_twice(machine: Machine, commits: int) -> None:
    goes_on(machine, commits)


@pytest.mark.proof
@pytest.mark.parametrize("commits", range(1, COMMITS + 1))
def test_tasks_killed_anywhere_go_on_and_nothing_is_done_twice(machine: Machine, commits: int) -> None:
    goes_on(machine, commits)
