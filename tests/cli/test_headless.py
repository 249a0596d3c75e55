"""A run for programs: standard input is a part of the task, the answer alone is standard output."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.cli.conftest import Machine
from tests.cli.test_keys import piped

STEPS = (
    {"text": "I look around.", "calls": [{"name": "list", "arguments": {}}]},
    {"text": "All is well."},
)


def asked(machine: Machine) -> str:
    return json.dumps(json.loads(machine.seen[-1].body)["messages"])


def test_what_is_piped_in_is_added_to_the_task(machine: Machine) -> None:
    ran = piped(
        machine, "+ a line\n- another\n", "run", "--model", machine.serve({"text": "ok"}), "review this"
    )
    assert (ran.returncode, ran.stdout) == (0, "ok\n")
    assert "review this\\n\\nFrom standard input:\\n\\n+ a line\\n- another" in asked(machine)


@pytest.mark.parametrize("task", [("-",), ()])
def test_standard_input_can_be_the_whole_task(machine: Machine, task: tuple[str, ...]) -> None:
    ran = piped(machine, "say hello\n", "run", "--model", machine.serve({"text": "hello"}), *task)
    assert (ran.returncode, ran.stdout) == (0, "hello\n")
    assert "say hello" in asked(machine)


@pytest.mark.parametrize("task", [("-",), ()])
def test_no_task_at_all_is_refused(machine: Machine, task: tuple[str, ...]) -> None:
    assert piped(machine, " \n", "run", "--model", "x", *task).returncode == 2
    assert machine.run("run", "--model", "x", *task).returncode == 2


def test_the_answer_alone_is_standard_output(machine: Machine) -> None:
    ran = machine.run("run", "--model", machine.serve(*STEPS), "look")
    assert ran.stdout == "All is well.\n"
    assert "I look around." in ran.stderr
    assert "list" in ran.stderr


def test_quiet_says_the_answer_and_nothing_else(machine: Machine) -> None:
    ran = machine.run("run", "--quiet", "--model", machine.serve(*STEPS), "look")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "All is well.\n", "")


def test_quiet_still_says_what_went_wrong(machine: Machine) -> None:
    model = machine.serve(STEPS[0], STEPS[1])
    ran = machine.run("run", "--quiet", "--max-steps", "1", "--model", model, "look")
    assert (ran.returncode, ran.stdout) == (5, "")
    assert ran.stderr


def test_a_session_is_told_what_is_piped_in(machine: Machine) -> None:
    machine.run("run", "--model", machine.serve({"text": "one"}, {"text": "two"}), "first")
    session = machine.only_session()["id"]
    ran = piped(machine, "second\n", "resume", session, "-")
    assert (ran.returncode, ran.stdout) == (0, "two\n")
    assert "second" in asked(machine)


def test_a_pipe_that_is_never_closed_holds_nothing_up(machine: Machine) -> None:
    reading, writing = os.pipe()
    try:
        ran = subprocess.run(
            [sys.executable, "-m", "mainspring", "run", "--model", machine.serve({"text": "ok"}), "hello"],
            cwd=machine.workspace,
            env=machine.environment(),
            stdin=reading,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        os.close(reading)
        os.close(writing)
    assert (ran.returncode, ran.stdout) == (0, "ok\n")
