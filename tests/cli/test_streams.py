"""Standard streams that are closed, full, or read by nobody: commands work, or end with an honest code."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from typing import Any

import pytest

from tests.cli.conftest import Machine

HOW = ("<&-", ">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-", "2>/dev/full", "2>&1 >/dev/full", ">/dev/full 2>&1")
PIPED = ("| true", "| head -1", "2>&1 | true", "2>&1 >&- | true", "<&- | true")
COMMANDS: dict[str, tuple[str, ...]] = {
    "run": ("run", "--model", "{model}", "say hello"),
    "run --json": ("run", "--json", "--model", "{model}", "say hello"),
    "goal start": ("goal", "start", "--model", "{model}", "--max-iterations", "1", "say hello {how}"),
    "exec": ("exec", "--mode", "auto", "--", "true"),
    "show": ("show", "{session}"),
    "sessions": ("sessions",),
    "--help": ("--help",),
    "--version": ("--version",),
    "doctor": ("doctor",),
}
ENDINGS = {"run": "TurnEnded", "run --json": "TurnEnded", "goal start": ("GoalEnded", "GoalPaused")}


def through(machine: Machine, command: tuple[str, ...], how: str) -> tuple[int, str]:
    """Runs a command in a shell with its streams redirected; its exit code and what it said."""
    words = shlex.join([sys.executable, "-m", "mainspring", *command])
    code = machine.workspace.parent / "code"
    ran = subprocess.run(
        ["bash", "-c", f"{{ {words}; echo $? >{shlex.quote(str(code))}; }} {how}"],
        cwd=machine.workspace,
        env=machine.environment(PYTHONFAULTHANDLER="1"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return int(code.read_text()), ran.stdout + ran.stderr


@pytest.mark.parametrize("one_of", [4, pytest.param(1, marks=pytest.mark.proof)])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_works_or_says_why_whatever_its_streams_are(
    machine: Machine, name: str, one_of: int
) -> None:
    """CI tries one way of four with each command, always the same and each way with some command."""
    turn = [*COMMANDS].index(name)
    model = machine.serve(*[{"text": "".join(f"Hello {number}.\n" for number in range(100))}] * 60)
    assert machine.run("run", "--model", model, "begin").returncode == 0
    session = machine.only_session()["id"]

    def command(how: str) -> tuple[str, ...]:
        return tuple(word.format(model=model, session=session, how=how) for word in COMMANDS[name])

    fine = machine.run(*command("")).returncode
    for how in [how for number, how in enumerate((*HOW, *PIPED), turn) if number % one_of == 0]:
        known = set(os.listdir(machine.home / "sessions"))
        code, said = through(machine, command(how), how)
        assert "Traceback" not in said, (how, said)
        assert "Exception ignored" not in said, (how, said)
        assert code in allowed(how, fine), (how, code, said)
        if ">/dev/full" in how and code == 1 != fine and not how.endswith("2>&1"):
            assert "Standard output cannot be written (No space left on device)." in said
        if ending := ENDINGS.get(name):
            (made,) = set(os.listdir(machine.home / "sessions")) - known
            assert any(event["kind"] in ending for event in machine.events(made)), how


def allowed(how: str, fine: int) -> tuple[int, ...]:
    """The honest codes: that of the command when its output went somewhere, else that of lost output."""
    if how in PIPED:
        return (fine, 141)  # the reader may have gone before or after the command wrote
    return (fine, 1) if ">/dev/full" in how and not how.startswith("2>/dev/full") else (fine,)


def test_output_that_is_lost_ends_the_turn_on_record(machine: Machine) -> None:
    model = machine.serve({"text": "Hello."}, {"text": "Again."})
    read, write = os.pipe()
    os.close(read)
    ran: Any = subprocess.run(
        [sys.executable, "-m", "mainspring", "run", "--json", "--model", model, "say hello"],
        cwd=machine.workspace,
        env=machine.environment(),
        stdin=subprocess.DEVNULL,
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        timeout=300,
        check=False,
    )
    os.close(write)
    session = machine.only_session()["id"]
    assert ran.returncode == 141
    assert f"Go on: mainspring resume {session}" in ran.stderr
    assert machine.events(session)[-1]["kind"] == "TurnEnded"
    assert machine.run("resume", session).returncode == 0
