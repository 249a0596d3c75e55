"""acpx, a client from npm, drives us: what it approves, denies, cancels, and without its files and terminals.

It is locked in `requirements/node`; where it is not installed there (`make node-tools`), these are skipped.
"""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

from tests.cli.conftest import Machine
from tests.npm import MODULES, NODE, needs
from tests.protocols.test_acp import call

ACPX = MODULES / "acpx/dist/cli.js"
WRITE = call("write", path="made.txt", content="x\n")
pytestmark = needs(ACPX)


def acpx(machine: Machine, *options: str, replies: Any, mode: str = "ask") -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "mainspring", "acp", "--mode", mode, "--model", machine.serve(*replies)]
    launch = machine.workspace.parent / "launch.sh"
    launch.write_text(f"#!/bin/sh\nexec {shlex.join(command)}\n")
    launch.chmod(0o755)
    home = machine.workspace.parent / "user"
    home.mkdir()
    return subprocess.Popen(
        [str(NODE), str(ACPX), "--agent", str(launch), "--cwd", str(machine.workspace), *options],
        cwd=machine.workspace,
        env={**machine.environment(), "HOME": str(home)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def outcomes(machine: Machine) -> list[str]:
    events = machine.events(machine.only_session()["id"])
    return [event["body"]["outcome"] for event in events if event["kind"] == "CallEnded"]


@pytest.mark.parametrize("less", [[], ["--no-fs"], ["--no-terminal"]])
def test_what_it_approves_is_done(machine: Machine, less: list[str]) -> None:
    started = acpx(machine, "--approve-all", *less, "exec", "write it", replies=[WRITE, {"text": "all done"}])
    output, errors = started.communicate(timeout=300)
    assert started.returncode == 0, errors
    assert "all done" in output
    assert "[done] end_turn" in output
    assert outcomes(machine) == ["ok"]


def test_what_it_denies_is_refused(machine: Machine) -> None:
    started = acpx(machine, "--deny-all", "exec", "write it", replies=[WRITE, {"text": "all done"}])
    output, _ = started.communicate(timeout=300)
    assert "[done] end_turn" in output
    assert outcomes(machine) == ["refused"]
    assert not (machine.workspace / "made.txt").exists()


def test_what_it_interrupts_ends_on_record(machine: Machine) -> None:
    replies = [call("shell", command="touch began; sleep 1000"), {"text": "never"}]
    started = acpx(machine, "--approve-all", "exec", "run it", replies=replies, mode="auto")
    while not (machine.workspace / "began").exists():
        assert started.poll() is None
        time.sleep(0.05)
    started.send_signal(signal.SIGINT)
    started.communicate(timeout=300)
    while machine.only_session()["state"] == "running":
        time.sleep(0.05)
    assert outcomes(machine) == ["cancelled"]
    assert machine.only_session()["state"] == "interrupted"
