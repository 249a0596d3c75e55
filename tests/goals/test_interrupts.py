"""Ctrl-C and SIGTERM at every stage of a goal: it ends soon, says so on record, and goes on when asked again."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Machine, machine, until
from tests.goals.test_kill_matrix import at_work_in, hold_workspace
from tests.goals.test_loop import DONE, engine, events

__all__ = ["machine"]

REACHED = "if [ -e stop-{0} ]; then rm stop-{0}; echo {0} > reached; exec sleep 300; fi; "
STAGES = ("engine", "check", "evaluate", "wait", "pid", "between")


def stage_reached(workspace: Path) -> str:
    """Sleeps until something opens the pipe and says where it is."""
    return (workspace / "reached").read_text().strip()


def command(machine: Machine, text: str) -> tuple[str, ...]:
    turns = {
        "t1": REACHED.format("engine") + "echo one > f1; echo '<wait_seconds>0.01</wait_seconds>'",
        "t2": "echo two > f2; [ ! -e said ] || cat said",
        "t3": f"echo three > f3; echo {DONE!r}",
    }
    return (
        *("exploop", text, "--json", "--wait-seconds", "0", "--engine", engine(machine, **turns)),
        *("--check", REACHED.format("check") + "test -e f3"),
        *("--evaluate", REACHED.format("evaluate") + "echo METRIC n=$(ls | wc -l)", "--repeats", "1"),
    )


TERM = pytest.param(signal.SIGTERM, marks=pytest.mark.slow)
HUP = pytest.param(signal.SIGHUP, marks=pytest.mark.slow)
QUIT = pytest.param(signal.SIGQUIT, marks=pytest.mark.slow)


@pytest.mark.parametrize("number", [signal.SIGINT, TERM, HUP, QUIT])
@pytest.mark.parametrize("stage", STAGES)
def test_a_signal_leaves_a_goal_on_record_and_nothing_running(
    stage: str, number: signal.Signals, machine: Machine
) -> None:
    os.mkfifo(machine.workspace / "reached")
    outside = subprocess.Popen(["sleep", "300"])
    if stage == "wait":
        (machine.workspace / "said").write_text("<wait_seconds>6</wait_seconds>\n")
    elif stage == "pid":
        (machine.workspace / "said").write_text(f"<pid_number>{outside.pid}</pid_number>\n")
    elif stage != "between":
        (machine.workspace / f"stop-{stage}").touch()
    words = command(machine, f"reach it; the other process is {outside.pid}")
    with machine.start(*words) as first:
        if stage in ("wait", "pid"):
            until(first, "WaitEnded")
            until(first, "WaitStarted")
        elif stage == "between":
            until(first, "IterationEnded")
        else:
            assert stage_reached(machine.workspace) == stage
        first.send_signal(number)
        assert first.wait(60) == 130
    assert not at_work_in(machine.workspace)
    asyncio.run(hold_workspace(machine.home, machine.workspace))
    (paused,) = events(machine, "GoalPaused")
    assert paused.get("by", "user") == ("user" if number == signal.SIGINT else "signal")
    outside.kill()
    outside.wait()
    goes_on(machine, words)


def test_a_goal_in_a_background_job_is_stopped_by_sigterm_and_not_by_ctrl_c(machine: Machine) -> None:
    os.mkfifo(machine.workspace / "reached")
    (machine.workspace / "stop-engine").touch()
    words = command(machine, "reach it")
    with machine.start(*words, is_background_job=True) as first:
        assert stage_reached(machine.workspace) == "engine"
        first.send_signal(signal.SIGINT)
        first.send_signal(signal.SIGTERM)
        assert first.wait(60) == 130
    (paused,) = events(machine, "GoalPaused")
    assert paused["by"] == "signal"
    goes_on(machine, words)


def goes_on(machine: Machine, words: tuple[str, ...]) -> None:
    again = machine.run(*words)
    assert again.returncode == 0, again.stderr
    assert [item["iteration"] for item in events(machine, "IterationStarted")] == [1, 2, 3]
    assert [item["iteration"] for item in events(machine, "IterationEnded")] == [1, 2, 3]
    (ended,) = events(machine, "GoalEnded")
    assert ended["grade"] in ("verified", "checked"), "a check that removes a file of before is only checked"
    started = sorted(item["wait"] for item in events(machine, "WaitStarted"))
    assert started == sorted(item["wait"] for item in events(machine, "WaitEnded"))
    assert len(set(started)) == len(started)
