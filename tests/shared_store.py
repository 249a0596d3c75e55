"""Machines that share a database, for tests: each has a home of its own, and perhaps another workspace."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Any, TypeVar

from tests.cli.conftest import Machine
from tests.postgres import postgres

_T = TypeVar("_T")
FREE = ("--mode", "yolo", "--max-cost-usd", "1", "--allow-unpriced")


class Shared(Machine):
    """A machine whose sessions are kept in a database."""

    url = ""
    settings = "[store]\nlease_s = 2.0\npark_s = 1.0\n[daemon]\ncrash_wait_s = 0\n"

    def environment(self, **extra: str) -> dict[str, str]:
        return super().environment(**{"MAINSPRING_STORE": self.url, **extra})

    def begin(self) -> None:
        """Makes the database, and settings with a short lease."""
        self.url = asyncio.run(postgres().new_database())
        self.home.mkdir()
        (self.home / "config.toml").write_text(self.settings)
        made = self.run("store", "init")
        assert made.returncode == 0, made.stderr

    def queue(self, task: str, model: str, *options: str) -> str:
        left = self.run("run", "--queue", "default", "--model", model, *FREE, *options, task)
        assert left.returncode == 0, left.stderr
        return left.stdout.strip()

    def states(self) -> dict[str, str]:
        rows = [json.loads(line) for line in self.run("sessions", "--json").stdout.splitlines()]
        return {row["id"]: row["goal_state"] or row["state"] for row in rows}

    def fleet(self) -> dict[str, Any]:
        return json.loads(self.run("fleet", "--json").stdout)


def ended(worker: subprocess.Popen[str]) -> str:
    """What a worker had to say, once it was asked to end and has."""
    worker.send_signal(signal.SIGTERM)
    _, said = worker.communicate(timeout=120)
    assert worker.returncode == 0, said
    return said


def until_true(condition: Callable[[], _T]) -> _T:
    deadline = time.monotonic() + 40
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.1)
    return found
