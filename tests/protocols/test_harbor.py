"""Harbor's own runner (Terminal-Bench) drives us: what it allows, denies, and the model that it picks.

Harbor wants a newer Python than we do, so only its runner is taken out of the wheel that `make proof` fetches; it needs
nothing but the protocol's package.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Machine
from tests.npm import ROOT
from tests.protocols.test_acp import call

WHEEL = next((ROOT / ".cache/harbor").glob("harbor-*.whl"), None)
RUNNER = "harbor/agents/installed/acp_runner.py"
WRITE = call("write", path="made.txt", content="x\n")
pytestmark = [
    pytest.mark.proof,
    pytest.mark.skipif(WHEEL is None, reason="Harbor is not fetched: make proof"),
]


def ran(machine: Machine, model: str, mode: str = "ask", **given: str) -> tuple[int, dict[str, Any]]:
    """Its exit code, and what it wrote down."""
    assert WHEEL is not None
    folder = machine.workspace.parent
    with zipfile.ZipFile(WHEEL) as wheel:
        (folder / "runner.py").write_bytes(wheel.read(RUNNER))
    launch = folder / "launch.sh"
    command = [sys.executable, "-m", "mainspring", "acp", "--mode", mode, "--model", model]
    launch.write_text(f"#!/bin/sh\nexec {shlex.join(command)}\n")
    launch.chmod(0o755)
    done = subprocess.run(
        [
            sys.executable,
            str(folder / "runner.py"),
            "--instruction",
            "write it",
            "--logs-dir",
            str(folder / "logs"),
            "--launcher",
            str(launch),
        ],
        cwd=machine.workspace,
        env={**machine.environment(), **given, "PATH": os.environ["PATH"]},
        capture_output=True,
        timeout=200,
        check=False,
    )
    return done.returncode, json.loads((folder / "logs/acp-summary.json").read_text())


@pytest.mark.parametrize(("mode", "made"), [("allow", True), ("deny", False)])
def test_what_it_allows_is_done_and_what_it_denies_is_not(machine: Machine, mode: str, made: bool) -> None:
    model = machine.serve(WRITE, {"text": "all done"})
    code, summary = ran(machine, model, HARBOR_ACP_PERMISSION_MODE=mode)
    assert code == 0, summary
    assert summary["permissions_requested"] == 1
    assert summary["prompt_response"]["stopReason"] == ("end_turn" if made else "cancelled")
    assert (machine.workspace / "made.txt").exists() == made


def test_it_picks_the_model(machine: Machine) -> None:
    usual, other = machine.serve({"text": "the usual"}), machine.serve({"text": "the other"})
    machine.home.mkdir()
    (machine.home / "config.toml").write_text(f'[tiers]\nfast = "{other}"\n')
    code, summary = ran(machine, usual, "auto", HARBOR_ACP_REQUESTED_MODEL="fast")
    assert code == 0, summary
    assert summary["set_model_mechanism"] == "session_config_option"
    assert summary["resolved_session_model_id"] == "fast"
    assert machine.seen, "the other model was asked"


def test_its_servers_are_used(machine: Machine, tmp_path: Path) -> None:
    peer = ROOT / "tests/mcp/peer.py"
    server = {"name": "peer", "command": sys.executable, "args": [str(peer), "sdk"], "env": []}
    given = {"name": "mcp__peer__add", "arguments": {"a": 4, "b": 5}}
    model = machine.serve({"calls": [{"name": "call_tool", "arguments": given}]}, {"text": "nine"})
    code, summary = ran(machine, model, HARBOR_ACP_MCP_SERVERS_JSON=json.dumps([server]))
    assert code == 0, summary
    events = (tmp_path / "logs/acp-events.jsonl").read_text()
    assert "sum 9" in events
