"""A real `mainspring` process in a home of its own, against a scripted model server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mainspring.models.scripted import Script
from mainspring.testing.server import HostedModelServer
from tests.forked import run_forked


class Machine:
    """A workspace, a home, and the command in them."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.workspace = folder / "workspace"
        self.workspace.mkdir()
        self.servers: list[HostedModelServer] = []

    def serve(self, *replies: dict[str, Any], **script: Any) -> str:
        """Serves these replies, and gives the `--model` to ask for them."""
        server = HostedModelServer(msgspec.convert({"replies": replies, **script}, Script))
        server.__enter__()
        self.servers.append(server)
        return f"openai-compatible@{server.url}#test"

    @property
    def seen(self) -> list[Any]:
        return self.servers[-1].seen

    def environment(self, **extra: str) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        return {**kept, "MAINSPRING_HOME": str(self.home), **extra}

    def run(self, *arguments: str, **extra: str) -> subprocess.CompletedProcess[str]:
        return run_forked([*arguments], str(self.workspace), self.environment(**extra))

    def start(self, *arguments: str, is_background_job: bool = False, **extra: str) -> subprocess.Popen[str]:
        """The command; as a background job it ignores SIGINT from its start, as a shell starts such."""
        deaf = ("sh", "-c", "trap '' INT; exec \"$@\"", "sh") if is_background_job else ()
        return subprocess.Popen(
            [*deaf, sys.executable, "-m", "mainspring", *arguments],
            cwd=self.workspace,
            env=self.environment(**extra),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def events(self, session: str) -> list[dict[str, Any]]:
        return lines(self.run("show", "--json", session).stdout)

    def only_session(self) -> dict[str, Any]:
        (row,) = lines(self.run("sessions", "--json").stdout)
        return row


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def until(process: subprocess.Popen[str], kind: str) -> list[dict[str, Any]]:
    """Reads events of a `--json` run until one of this kind."""
    assert process.stdout is not None
    seen: list[dict[str, Any]] = []
    for line in process.stdout:
        seen.append(json.loads(line))
        if seen[-1]["kind"] == kind:
            return seen
    raise AssertionError(f"no {kind} among {[event['kind'] for event in seen]}")


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path)
    yield machine
    for server in machine.servers:
        server.__exit__(None, None, None)
