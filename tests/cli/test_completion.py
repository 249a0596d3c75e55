"""Completion in the real shells."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import Machine


def environment(machine: Machine) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return machine.environment(PATH=path, HOME=str(machine.workspace.parent), TERM="dumb")


def script(machine: Machine, shell: str) -> Path:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    file = machine.workspace.parent / f"completion.{shell}"
    file.write_text(machine.run("completion", shell).stdout)
    return file


def in_bash(machine: Machine, *words: str) -> list[str]:
    line = " ".join(words)
    code = (
        f"source {script(machine, 'bash')}; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1};"
        ' _mainspring_completion mainspring; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    ran = subprocess.run(
        ["bash", "--norc", "-c", code],
        env=environment(machine),
        cwd=machine.workspace,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return ran.stdout.split()


def in_fish(machine: Machine, line: str) -> list[str]:
    ran = subprocess.run(
        ["fish", "--no-config", "-c", f"source {script(machine, 'fish')}; complete -C '{line}'"],
        env=environment(machine),
        cwd=machine.workspace,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return [found.split("\t")[0] for found in ran.stdout.splitlines()]


def in_zsh(machine: Machine, line: str, wanted: str) -> str:
    """What stands on the screen once `wanted` does, after a tab."""
    file = script(machine, "zsh")
    screen, end = pty.openpty()
    shell = subprocess.Popen(
        ["zsh", "-f", "-i"],
        stdin=end,
        stdout=end,
        stderr=end,
        env=environment(machine),
        cwd=machine.workspace,
        start_new_session=True,
    )
    os.close(end)
    try:
        setup = f"autoload -Uz compinit && compinit -u -D; source {file}; echo rea''dy\n"
        os.write(screen, setup.encode())
        _until(screen, "ready")
        os.write(screen, f"{line}\t".encode())
        return _until(screen, wanted)
    finally:
        shell.kill()
        shell.wait()
        os.close(screen)


def _until(screen: int, wanted: str) -> str:
    seen, deadline = "", time.monotonic() + 120
    while wanted not in seen:
        assert select.select([screen], [], [], max(deadline - time.monotonic(), 0))[0], seen
        seen += os.read(screen, 65536).decode(errors="replace")
    return seen


def test_bash_completes_commands_options_sessions_and_modes(machine: Machine) -> None:
    machine.run("run", "--model", machine.serve({"text": "done"}), "hello")
    session = machine.only_session()["id"]
    assert {"sessions", "serve", "setup"} <= set(in_bash(machine, "mainspring", "se"))
    assert "remove" in in_bash(machine, "mainspring", "keys", "re")
    assert "--output-schema" in in_bash(machine, "mainspring", "run", "--outp")
    assert in_bash(machine, "mainspring", "show", session[:3]) == [session]
    assert in_bash(machine, "mainspring", "run", "--mode", "pl") == ["plan"]
    assert in_bash(machine, "mainspring", "config", "get", "caps.turn.u") == ["caps.turn.usd"]
    assert in_bash(machine, "mainspring", "keys", "add", "anth") == ["anthropic"]


def test_fish_completes_models_and_sessions_below_a_group(machine: Machine) -> None:
    machine.run("run", "--model", machine.serve({"text": "done"}), "hello")
    session = machine.only_session()["id"]
    assert "anthropic/claude-sonnet-4-5" in in_fish(
        machine, "mainspring run --model anthropic/claude-sonnet-4"
    )
    assert session in in_fish(machine, f"mainspring goal resume {session[:3]}")
    assert "completion" in in_fish(machine, "mainspring compl")


def test_zsh_completes_commands(machine: Machine) -> None:
    assert "validate" in in_zsh(machine, "mainspring config va", "validate")


def test_an_unknown_command_completes_to_nothing(machine: Machine) -> None:
    assert in_bash(machine, "mainspring", "nonsense", "x") == []
