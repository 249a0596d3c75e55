"""Every file that a repository or a person hands to the program, replaced by something that is none: the program
ends soon, in little memory, names the file, and otherwise goes on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mainspring.workspace.memory import ProjectMemory
from tests.cli.conftest import Machine
from tests.disk.hostile import HOSTILE, plant

MEMORY_KB = 3_000_000
SCRIPT = ("run", "--model", "scripted@good.json")

# What is refused with an error: the file, and the command that reads it.
REFUSED = {
    ".mainspring/approvals.toml": (*SCRIPT, "go"),
    "GOAL.md": ("goal", "start", "--model", "scripted@good.json", "GOAL.md"),
    "profile.toml": ("goal", "start", "--model", "scripted@good.json", "--profile", "./profile.toml", "go"),
    "schema.json": (*SCRIPT, "--output-schema", "schema.json", "go"),
    "shown.txt": (*SCRIPT, "--attach", "shown.txt", "go"),
    "script.json": ("run", "--model", "scripted@script.json", "go"),
    "session.jsonl": ("import", "session.jsonl"),
    "../home/config.toml": (*SCRIPT, "go"),
}
# What a session does without; those that matter to a person are named.
LEFT_OUT = ("AGENTS.md", "sub/AGENTS.md", "skills/one/SKILL.md", ".gitignore", "pyproject.toml")
TOLD = ("AGENTS.md", "skills/one/SKILL.md")
NOT_FILES = ("device", "pipe", "socket", "loop", "link-out")
ALWAYS_TRIED = ("device", "pipe", "large")


def bounded(machine: Machine, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the program with so little memory that reading without end fails, and not for ever."""
    script = f'ulimit -v {MEMORY_KB}; exec "$@"'
    return subprocess.run(
        ["bash", "-c", script, "bash", sys.executable, "-m", "mainspring", *arguments],
        cwd=machine.workspace,
        env=machine.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def prepare(machine: Machine) -> None:
    calls = [
        {"name": "shell", "arguments": {"command": "ls sub"}},
        {"name": "find", "arguments": {"glob": "*"}},
    ]
    script = {"replies": [{"calls": calls}, {"text": "Done."}]}
    (machine.workspace / "good.json").write_text(json.dumps(script))
    machine.home.mkdir(exist_ok=True)
    (machine.workspace / "sub").mkdir()


def kinds() -> list[object]:
    return [kind if kind in ALWAYS_TRIED else pytest.param(kind, marks=pytest.mark.slow) for kind in HOSTILE]


@pytest.mark.parametrize("kind", kinds())
@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_is_none_is_an_error_that_names_it(name: str, kind: str, machine: Machine) -> None:
    prepare(machine)
    path = machine.workspace / name
    plant(kind, path)
    ran = bounded(machine, *REFUSED[name])
    assert ran.returncode == 2 or (name == "session.jsonl" and ran.returncode == 1), ran.stderr
    assert "Traceback" not in ran.stderr
    assert path.name in ran.stderr or name == "session.jsonl"
    assert "hunter2" not in ran.stdout + ran.stderr


@pytest.mark.parametrize("kind", kinds())
def test_a_session_goes_on_without_what_it_cannot_read_and_says_so(kind: str, machine: Machine) -> None:
    prepare(machine)
    for name in LEFT_OUT:
        plant(kind, machine.workspace / name)
    ran = bounded(machine, *SCRIPT, "--mode", "yolo", "--max-cost-usd", "1", "go")
    assert (ran.returncode, ran.stdout) == (0, "Done.\n"), ran.stderr
    assert "hunter2" not in ran.stderr
    if kind in NOT_FILES:
        for name in TOLD:
            assert f"{machine.workspace / name} is not used: it is" in ran.stderr or kind == "loop"
            assert f"{machine.workspace / name} is not used" in ran.stderr


@pytest.mark.parametrize("kind", ["device", "pipe", "socket", "loop", "folder"])
def test_a_memory_that_is_no_file_is_an_error_that_names_it(kind: str, machine: Machine) -> None:
    prepare(machine)
    path = ProjectMemory(machine.home, Path(machine.workspace), hide=str).path
    plant(kind, path)
    ran = bounded(machine, "memory")
    assert (ran.returncode, path.name in ran.stderr) == (2, True), ran.stderr
