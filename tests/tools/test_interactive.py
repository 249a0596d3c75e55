"""Commands that want a terminal or an answer: they end, and the model is told why and what to do instead."""

import pytest

from mainspring.sandbox import CommandResult
from mainspring.tools.interactive import asked_for_somebody
from mainspring.tools.shell import TOOL as SHELL
from tests.tools.workshop import Workshop

TRACES = {
    "a redirection from the terminal": ("cat < /dev/tty", "wanted a terminal"),
    "a question of a shell": ("read -p 'go on? ' answer", "`read` found the end of its input"),
    "a choice of a shell": ("select x in a b; do echo $x; done", "“#?”"),
    "a question of a program": ("python3 -c 'input(\"Your name: \")'", "EOF when reading a line"),
    "a prompt and then nothing": ("printf 'Password: '; exit 1", "“Password:”"),
    "a commit without a message": (
        "export HOME=$PWD; git init -q . && git -c user.email=a@b.example -c user.name=a commit --allow-empty",
        "wanted an editor",
    ),
    "a conversation": ("python3", "`python3` was given nothing to do"),
    "a yes or no": ("echo 'Do you want to continue? [Y/n] Abort.'; exit 1", "wanted an answer"),
}


@pytest.mark.parametrize(("command", "trace"), TRACES.values(), ids=TRACES)
def test_a_command_that_wants_somebody_is_named_as_such(tmp_path, command, trace):
    text = Workshop(tmp_path, SHELL).call("shell", command=command, timeout_s=60).text
    assert trace in text
    assert "background=true and terminal=true" in text


@pytest.mark.parametrize(
    "command",
    [
        "echo 'Password: '",
        "echo 'not a tty'",
        "printf 'Continue? [y/n] '; true",
        "echo 'import sys' | python3",
        "read x <<< hello",
        "python3 -c pass",
        "ls /nowhere",
        "exit 3",
    ],
)
def test_a_command_that_asked_nobody_is_not_accused(tmp_path, command):
    text = Workshop(tmp_path, SHELL).call("shell", command=command).text
    assert "terminal=true" not in text


@pytest.mark.parametrize("mark", [r"\033[?1049h", "Vim: Warning: Input is not from a terminal\\n"])
def test_a_program_that_takes_the_screen_is_ended_long_before_its_time(tmp_path, mark):
    output = Workshop(tmp_path, SHELL).call("shell", command=f"printf '{mark}'; sleep 100", timeout_s=60)
    assert output.is_error
    assert "(it fills a screen that is not there and waits for keys)" in output.text


def test_a_program_that_takes_the_screen_and_goes_on_working_is_let_work(tmp_path):
    working = r"printf '\033[?1049h'; for i in 1 2 3 4 5 6 7 8; do sleep 0.6; echo $i; done"
    output = Workshop(tmp_path, SHELL).call("shell", command=working, timeout_s=60)
    assert not output.is_error
    assert output.text.endswith("8")


def test_text_that_only_looks_like_a_screen_does_no_harm(tmp_path):
    output = Workshop(tmp_path, SHELL).call("shell", command=r"printf '\033[?1049h'; echo done")
    assert not output.is_error
    assert output.text.endswith("done")


def test_a_full_screen_program_is_named_when_its_time_is_over():
    late = CommandResult(exit_code=143, stdout=b"  ", stderr=b"", duration_s=5, stopped="timed out after 5 s")
    assert "`watch` fills a screen" in asked_for_somebody("cd src && watch ls", late)
    assert asked_for_somebody("sleep 100", late) == ""


def test_a_command_that_ran_out_of_time_is_told_of_the_background(tmp_path):
    text = Workshop(tmp_path, SHELL).error("shell", command="sleep 100", timeout_s=0.2)
    assert "belongs in background=true" in text
