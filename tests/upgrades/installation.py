"""A user's installation at a fixed path: data, settings, workspaces, and the command among them.

Journals name their workspace and cannot be changed, so an old installation can only be used where it was made.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from mainspring.models.scripted import Script
from mainspring.testing.server import HostedModelServer

ROOT = Path("/tmp/mainspring-fixture")
MODEL = "openai/fixture-1"
_AS_VERSION = (
    "import sys, mainspring; mainspring.__version__ = sys.argv.pop(1);"
    " from mainspring.cli import main; main()"
)


class Installation:
    """What one user has. `serve` decides what the model says from then on."""

    def __init__(self) -> None:
        self.home = ROOT / "data" / "mainspring"
        self.settings = ROOT / "config" / "mainspring"
        self.work = ROOT / "work"
        self._servers: list[HostedModelServer] = []

    def serve(self, *replies: dict[str, Any], **script: Any) -> None:
        server = HostedModelServer(msgspec.convert({"replies": replies, **script}, Script))
        server.__enter__()
        self._servers.append(server)

    @property
    def sent(self) -> list[Any]:
        """The requests that the model was sent since the last `serve`."""
        return [seen.json() for seen in self._servers[-1].seen if seen.body]

    def close(self) -> None:
        for server in self._servers:
            server.__exit__(None, None, None)

    def environment(self, **extra: str) -> dict[str, str]:
        url = self._servers[-1].url if self._servers else "http://127.0.0.1:1"
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(ROOT / "user"),
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "XDG_DATA_HOME": str(ROOT / "data"),
            "XDG_CONFIG_HOME": str(ROOT / "config"),
            "OPENAI_BASE_URL": url,
            **extra,
        }

    def start(
        self, *arguments: str, folder: str = "", version: str = "", **extra: str
    ) -> subprocess.Popen[str]:
        """Starts a command; with a version, as if that version were installed."""
        program = ["-c", _AS_VERSION, version] if version else ["-m", "mainspring"]
        return subprocess.Popen(
            [sys.executable, *program, *arguments],
            cwd=self.work / folder,
            env=self.environment(**extra),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(
        self, *arguments: str, folder: str = "", code: int = 0, **extra: str
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end, which must be this exit code."""
        process = self.start(*arguments, folder=folder, **extra)
        stdout, stderr = process.communicate(timeout=300)
        assert process.returncode == code, f"{arguments}: {process.returncode}\n{stdout}\n{stderr}"
        return subprocess.CompletedProcess(arguments, process.returncode, stdout, stderr)

    def rows(self, *arguments: str, **options: Any) -> list[dict[str, Any]]:
        """What a command with `--json` prints, a line each."""
        printed = self.run(*arguments, "--json", **options).stdout
        return [json.loads(line) for line in printed.splitlines()]

    def session(self, folder: str) -> str:
        """The newest session of a workspace."""
        workspace = str(self.work / folder)
        return next(row["id"] for row in self.rows("sessions") if row["workspace"] == workspace)

    def events(self, session: str, kind: str = "") -> list[dict[str, Any]]:
        return [event for event in self.rows("show", session) if kind in ("", event["kind"])]


@contextmanager
def locked() -> Iterator[None]:
    """Keeps other processes of this machine away from the path, and empties it before and after."""
    with ROOT.with_suffix(".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(ROOT, ignore_errors=True)
        ROOT.mkdir(mode=0o700)
        try:
            yield
        finally:
            shutil.rmtree(ROOT, ignore_errors=True)
