"""Four machines with workers, as processes of this one: homes, clocks and (where it can be had) process numbers
of their own, all behind a proxy to one real Postgres."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

_WITNESS = Path(__file__).parent / "witness"
CLOCKS = next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))), None)
LEASE_S = 3.0
SETTINGS = f"[store]\nlease_s = {LEASE_S}\npark_s = 1.0\n[daemon]\ncrash_wait_s = 0.2\n"


class WorkerMachine:
    """A home, a clock, and the worker that is started in them again and again."""

    def __init__(self, folder: Path, number: int, environment: dict[str, str], settings: str) -> None:
        self.name, self._log = f"machine{number}", folder / f"worker{number}.log"
        self._home, self._clock = folder / self.name, folder / f"clock{number}"
        self._home.mkdir()
        (self._home / "config.toml").write_text(settings)
        self._environment = {
            **environment,
            "MAINSPRING_HOME": str(self._home),
            "PROOF_ACKNOWLEDGED": str(folder / "acknowledged"),
            "PYTHONPATH": str(_WITNESS),
        }
        self._is_apart = number % 2 == 0 and can_be_apart()
        self.process: subprocess.Popen[bytes] | None = None

    def set_clock(self, offset_s: int) -> None:
        """Of processes that are started from here on and, once one had another clock, of all."""
        fresh = self._clock.with_suffix(".new")
        fresh.write_text(f"{offset_s:+d}s\n")
        fresh.replace(self._clock)
        self._environment |= {
            "LD_PRELOAD": str(CLOCKS),
            "FAKETIME_TIMESTAMP_FILE": str(self._clock),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }

    def start(self, words: Sequence[str]) -> None:
        """A worker; where it can be had, as the first process of a namespace, whose end is that of all in it."""
        apart = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"] if self._is_apart else []
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [*apart, sys.executable, "-m", "mainspring", "worker", *words],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def said(self) -> str:
        return self._log.read_text()

    def workers(self) -> list[int]:
        return self._pids("worker")

    def at_work(self) -> list[int]:
        """The processes that work on sessions here."""
        return self._pids("resume")

    def send(self, pids: Sequence[int], number: signal.Signals) -> None:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    async def gone(self) -> None:
        while self.is_running:
            await asyncio.sleep(0.05)

    async def drained(self) -> None:
        """Asks the worker to end, until it has: the first process of a namespace hears nothing at its start."""
        while self.is_running:
            self.send(self.workers(), signal.SIGTERM)
            await asyncio.sleep(0.5)

    def end(self) -> None:
        """Kills all that is left."""
        for pids in (self.workers(), self.at_work()):
            self.send(pids, signal.SIGKILL)
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def _pids(self, command: str) -> list[int]:
        home, word = f"MAINSPRING_HOME={self._home}".encode(), command.encode()
        found: list[int] = []
        for path in Path("/proc").iterdir():
            if path.name.isdigit():
                with suppress(OSError):
                    words = (path / "cmdline").read_bytes().split(b"\0")
                    is_ours = words[1:3] == [b"-m", b"mainspring"] or words[2:4] == [b"-m", b"mainspring"]
                    if is_ours and word in words and home in (path / "environ").read_bytes().split(b"\0"):
                        found.append(int(path.name))
        return sorted(found)


@cache
def can_be_apart() -> bool:
    """Whether a process may have process numbers of its own here."""
    command = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "true"]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False
