"""`--plain`: lines in, lines out, words instead of marks, and nothing that steers a terminal."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from mainspring import documents
from mainspring.chat.palette import LEGEND
from mainspring.chat.plain_screen import worded
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


def test_going_back_offers_messages_also_where_only_words_shall_be_taken_back(machine: Machine) -> None:
    model = machine.serve({"text": "Fine."})
    ran = piped(machine, "do it\n/rewind conversation\n", "--model", model, "--plain", *FREE)
    assert re.search(r"Go back to before:\n  \d+: .* do it\n", ran.stdout), ran.stdout


def test_every_mark_of_a_line_is_explained_and_has_a_word() -> None:
    written = "".join(path.read_text("utf-8") for path in Path(documents.__file__).parent.glob("*lines.py"))
    marks = set(re.findall(r'["\n] *([\u2190-\u2bff])[ {"]', written))
    assert {"◷", "⑂", "☐"} <= marks
    assert marks <= set("".join(mark for mark, _ in LEGEND))
    for mark in marks:
        assert not worded(f"  {mark} text").lstrip().startswith(mark)


def test_a_quote_has_a_word() -> None:
    assert worded("▌ as they say") == "quote: as they say"


def test_a_diff_has_words_for_its_signs() -> None:
    diff = "    12 - return 1\n    12 + return 2\n    13   end"
    assert [worded(line) for line in diff.split("\n")] == [
        "    12 removed: return 1", "    12 added: return 2", "    13   end"]  # fmt: skip


def test_other_encodings_end_no_chat(machine: Machine) -> None:
    model = machine.serve({"text": "Grüße."})
    ran = subprocess.run(
        [sys.executable, "-m", "mainspring", "chat", "--plain", "--model", model, *FREE],
        cwd=machine.workspace, env=machine.environment(PYTHONIOENCODING="ascii"), input=b"gr\xfc\xdfe\n",
        capture_output=True, check=False, timeout=120,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert b"Gr\\xfc\\xdfe." in ran.stdout
    assert "gr\ufffd\ufffde".encode() in machine.seen[-1].body


def test_help_has_what_works_without_keys_and_marks(machine: Machine) -> None:
    ran = piped(machine, "/help\n", "--model", machine.serve({"text": "x"}), "--plain", *FREE)
    assert ran.returncode == 0, ran.stderr
    assert "!COMMAND" in ran.stdout
    assert "/stop [HANDLE]" in ran.stdout
    beside = next(line for line in ran.stdout.splitlines() if "Go back to before an" in line)
    assert beside.split()[0] == "/rewind", "what is said of a command stands beside it"
    assert max(map(len, ran.stdout.split("Commands\n")[1].splitlines())) <= 80
    assert not [word for word in ("Alt-Enter", "Ctrl-J", "✗", "Marks") if word in ran.stdout]


def test_one_of_several_questions_is_answered_by_its_number(machine: Machine) -> None:
    calls = [{"name": "shell", "arguments": {"command": f"echo 1 > {name}"}} for name in ("one", "two")]
    with opened(machine, machine.serve({"calls": calls}, {"text": "Over."})) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("make both\n")
        process.stdin.flush()
        for line in process.stdout:
            if line.startswith("question: several are open."):
                break
        process.stdin.write("2 n one is enough\n1 y\n")
        process.stdin.close()
        said = process.stdout.read()
    assert "question: refused by user: one is enough" in said
    assert said.count("question: type y") == 0, "that was said before"
    assert [(machine.workspace / each).exists() for each in ("one", "two")] == [True, False]


def test_what_can_be_chosen_is_listed(machine: Machine) -> None:
    ran = piped(machine, "/mode\n", "--model", machine.serve({"text": "x"}), "--plain", "--mode", "ask")
    assert "Mode, now ask:\n  plan: read only\n  ask: reads are free" in ran.stdout


def opened(machine: Machine, model: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "mainspring", "chat", "--plain", "--mode", "ask", "--model", model],
        cwd=machine.workspace,
        env=machine.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_a_question_is_answered_with_a_line(machine: Machine) -> None:
    call = {"name": "shell", "arguments": {"command": "touch made"}}
    model = machine.serve({"calls": [call]}, {"text": "Made."})
    with opened(machine, model) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("make it\n")
        process.stdin.flush()
        for line in process.stdout:
            if line.startswith("question: type y"):
                break
        process.stdin.write("y\n")
        process.stdin.close()
        assert "question: allowed by user" in process.stdout.read()
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


def test_lines_of_a_pipe_are_entered_one_after_the_other(machine: Machine) -> None:
    call = {"name": "shell", "arguments": {"command": "touch made"}}
    model = machine.serve({"calls": [call]}, {"text": "Made."}, {"text": "Twice."})
    ran = piped(machine, "make it\ny\nand again\n/diff\n", "chat", "--mode", "ask", "--model", model)
    assert ran.returncode == 0, ran.stderr
    order = ["you: make it", "question: allowed", "Made.", "you: and again", "Twice.", "made"]
    found = [ran.stdout.rindex(each) for each in order]
    assert found == sorted(found), ran.stdout
    assert ran.stdout.count("turn done") == 2


@pytest.mark.parametrize("entered", ["hello\n/quit\n", "hello\n"])
def test_a_line_for_a_session_that_cannot_be_opened_is_tried_once(machine: Machine, entered: str) -> None:
    """The chat is over when nothing more is entered."""
    ran = subprocess.run(
        [sys.executable, "-m", "mainspring", "--plain", "--model", "nobody/nothing"],
        cwd=machine.workspace, env=machine.environment(), input=entered, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert ran.stdout.count("attention:") == 2
    assert "Esc" not in ran.stdout
