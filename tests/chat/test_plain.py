"""`--plain`: lines in, lines out, words instead of marks, and nothing that steers a terminal."""

from __future__ import annotations

import subprocess
import sys

from tests.chat.conftest import FREE
from tests.cli.conftest import Machine
from tests.cli.test_keys import piped


def test_lines_are_answered_with_lines_and_words(machine: Machine) -> None:
    call = {"name": "shell", "arguments": {"command": "echo out"}}
    model = machine.serve({"text": "Looking.", "calls": [call]}, {"text": "# Title\n\nIt is **done**."})
    ran = piped(machine, "do it\n", "--model", model, "--plain", *FREE)
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert "you: do it" in lines
    assert any(line.startswith("done: shell echo out") for line in lines)
    assert "It is done." in lines
    assert any(line.startswith("turn done") for line in lines)
    assert "\x1b" not in ran.stdout
    assert "›" not in ran.stdout


def test_help_has_what_works_without_keys_and_marks(machine: Machine) -> None:
    ran = piped(machine, "/help\n", "--model", machine.serve({"text": "x"}), "--plain", *FREE)
    assert ran.returncode == 0, ran.stderr
    assert "!COMMAND" in ran.stdout
    assert "/stop [HANDLE]" in ran.stdout
    assert not [word for word in ("Alt-Enter", "Ctrl-J", "✗", "Marks") if word in ran.stdout]


def test_a_question_is_answered_with_a_line(machine: Machine) -> None:
    call = {"name": "shell", "arguments": {"command": "touch made"}}
    model = machine.serve({"calls": [call]}, {"text": "Made."})
    with subprocess.Popen(
        [sys.executable, "-m", "mainspring", "chat", "--plain", "--mode", "ask", "--model", model],
        cwd=machine.workspace,
        env=machine.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("make it\n")
        process.stdin.flush()
        for line in process.stdout:
            if line.startswith("question: type y"):
                break
        process.stdin.write("y\n")
        process.stdin.close()
        assert "question: allow by user" in process.stdout.read()
    assert process.returncode == 0
    assert (machine.workspace / "made").exists()


def test_without_a_terminal_bare_mainspring_is_help(machine: Machine) -> None:
    ran = piped(machine, "hello\n")
    assert "Usage: mainspring" in ran.stdout + ran.stderr


def test_a_dumb_terminal_and_a_pipe_get_plain_lines(machine: Machine) -> None:
    model = machine.serve({"text": "Plain."})
    ran = piped(machine, "hello\n/quit\n", "chat", "--model", model, *FREE, TERM="dumb")
    assert ran.returncode == 0, ran.stderr
    assert "\x1b" not in ran.stdout


def test_a_line_for_a_session_that_cannot_be_opened_is_tried_once(machine: Machine) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "mainspring", "--plain", "--model", "nobody/nothing"],
        cwd=machine.workspace, env=machine.environment(), input="hello\n/quit\n", capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert ran.stdout.count("attention:") == 2
    assert "Esc" not in ran.stdout
