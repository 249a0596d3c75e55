"""The real command with fake agents: exit codes, signals, kill -9, and what other commands make of it."""

from __future__ import annotations

import json
import os
import select
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mainspring.testing.engines import processes
from tests.cli.conftest import Machine, lines, until
from tests.engines.house import NAMES, settings


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    made.home.mkdir()
    told = ""
    for name in NAMES:
        own = settings(name)
        told += (
            f"[engines.{name}]\ncommand = {json.dumps(own.command)}\nreadable = {json.dumps(own.readable)}\n"
        )
        told += f"protocol = {json.dumps(own.protocol)}\n" if own.protocol else ""
    (made.home / "config.toml").write_text(told)
    yield made
    for server in made.servers:
        server.__exit__(None, None, None)


@contextmanager
def hanging(machine: Machine, marker: str, *options: str) -> Iterator[subprocess.Popen[str]]:
    with machine.start("run", *options, f"hang {marker}", HOME=str(machine.home)) as process:
        try:
            while not processes(marker):
                assert process.poll() is None
                select.select([], [], [], 0.01)
            yield process
        finally:
            process.kill()


def wait_until_gone(pids: list[int]) -> None:
    """These would work for ten minutes if nobody ended them."""
    for pid in pids:
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        assert poll.poll(60_000), f"{pid} lives on"
        os.close(fd)


@pytest.mark.parametrize("name", NAMES)
def test_kill_9_leaves_no_orphan(name: str, machine: Machine) -> None:
    marker = f"marker-{os.getpid()}-{name}"
    with hanging(machine, marker, "--engine", name) as process:
        pids = processes(marker)
        assert pids
        process.kill()
        process.wait()
        wait_until_gone(pids)
    machine.run("resume", machine.only_session()["id"], "size", HOME=str(machine.home))
    events = machine.events(machine.only_session()["id"])
    assert events[-1]["body"]["ending"] == "done"
    asked = [part["call"] for event in events for part in event["body"].get("parts", []) if "call" in part]
    ended = [event["body"]["call"] for event in events if event["kind"] == "CallEnded"]
    assert sorted(asked) == sorted(ended)


def test_kill_9_of_the_builtin_engine_leaves_no_orphan(machine: Machine) -> None:
    marker = f"marker-{os.getpid()}-builtin"
    command = f"echo hanging; {shlex.quote(sys.executable)} -c 'import time; time.sleep(600)' {marker}"
    model = machine.serve(
        {"text": "hanging here", "calls": [{"name": "shell", "arguments": {"command": command}}]}
    )
    with machine.start("run", "--json", "--model", model, "hang") as process:
        until(process, "CallStarted")
        while not (pids := processes(marker)):
            select.select([], [], [], 0.01)
        process.kill()
        process.wait()
    wait_until_gone(pids)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_agent_and_is_recorded(number: signal.Signals, machine: Machine) -> None:
    marker = f"marker-{os.getpid()}-{number.name}"
    with hanging(machine, marker, "--engine", "claude") as process:
        assert processes(marker)
        process.send_signal(number)
        assert process.wait(60) == 130
    assert processes(marker) == []
    (ended,) = [
        event for event in machine.events(machine.only_session()["id"]) if event["kind"] == "TurnEnded"
    ]
    assert ended["body"]["ending"] == "interrupted"


def test_a_time_limit_ends_the_agent(machine: Machine) -> None:
    marker = f"marker-{os.getpid()}-limit"
    done = machine.run(
        "run", "--engine", "codex", "--timeout", "1.5", f"hang {marker}", HOME=str(machine.home)
    )
    assert done.returncode == 5
    assert processes(marker) == []


@pytest.mark.parametrize(("plot", "code"), [("work", 0), ("fail", 1), ("half", 1)])
def test_exit_codes_tell_how_it_ended(plot: str, code: int, machine: Machine) -> None:
    done = machine.run("run", "--engine", "gemini", plot, HOME=str(machine.home))
    assert done.returncode == code, done.stderr
    assert "it broke" in done.stderr or plot != "fail"


def test_show_fork_export_and_undo_work_on_a_session_of_an_agent(machine: Machine) -> None:
    home = {"HOME": str(machine.home)}
    assert machine.run("run", "--engine", "codex", "work", **home).returncode == 0
    session = machine.only_session()["id"]
    shown = machine.run("show", session).stdout
    assert "· engine codex fake 1.2.3" in shown
    assert "DONE" in shown
    assert machine.run("verify", session).returncode == 0
    assert "All is finished." in machine.run("export", session, "--format", "markdown").stdout
    assert machine.run("cost", "--json").returncode == 0
    model = machine.serve(closing={"text": "I go on."})
    forked = machine.run("fork", session)
    assert forked.returncode == 0, forked.stderr
    made = forked.stdout.split()[-1]
    gone_on = machine.run("resume", made, "go on", "--engine", "builtin", "--model", model)
    assert gone_on.returncode == 0, gone_on.stderr
    assert "I go on." in gone_on.stdout
    sent = json.dumps(machine.seen[-1].json())
    assert "All is finished." in sent
    assert machine.run("undo", session, "--files", **home).returncode in (0, 2)


def test_engines_lists_what_is_here(machine: Machine) -> None:
    (machine.home / "config.toml").write_text(
        (machine.home / "config.toml").read_text().replace("[engines.opencode]", "[engines.other]")
    )
    done = machine.run("engines", "--json", HOME=str(machine.home), PATH="/usr/bin:/bin")
    found: dict[str, dict[str, Any]] = {each["engine"]: each for each in lines(done.stdout)}
    assert found["builtin"]["is_installed"]
    assert found["codex"]["version"] == "fake 1.2.3"
    assert found["codex"]["path"] == sys.executable
    assert not found["opencode"]["is_installed"]
    assert "npm install -g opencode-ai" in found["opencode"]["remedy"]
    assert "command" in found["other"]["remedy"]
    assert "not installed" in machine.run("engines", HOME=str(machine.home), PATH="/usr/bin:/bin").stdout


def test_an_engine_that_is_not_here_is_a_usage_error(machine: Machine) -> None:
    done = machine.run("run", "--engine", "exec:no-such-program", "work")
    assert done.returncode == 2
    assert "no-such-program, which is not installed" in done.stderr
    assert "Check the command's name." in done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_a_goal_is_done_in_the_third_turn_of_every_engine(name: str, machine: Machine) -> None:
    options = ("--engine", name, "--wait-seconds", "0", "--file", "turn3.txt")
    ran = machine.run("exploop", "reaching three", *options, HOME=str(machine.home))
    assert ran.returncode == 0, ran.stderr
    events = machine.events(machine.only_session()["id"])
    ended = [event["body"]["outcome"] for event in events if event["kind"] == "IterationEnded"]
    assert ended == ["continued", "continued", "done"]
    assert events[-1]["body"] == {
        "ending": "done",
        "reason": "Every check passed (1).",
        "is_verified": True,
        "grade": "verified",
    }
