"""A keeper is a guard that outlives us: it owns a background command and writes down what becomes of it.

In its folder: `meta.json` (who it is), `exit.json` (how the command ended), `output.N` (what was written
from byte N on; the first and the last pieces are kept), `control` (a pipe that takes one JSON object per
line: `stop`, `input`, `eof`). It ends when nothing that its command started is left.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import select
import socket
import time
from pathlib import Path
from typing import Any

from . import tree
from .guard import Watch, tell
from .stub import Job, Stub

READ_SIZE = 64 * 1024
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Segments:
    """Output in files named by offset: one at the head, and so many at the tail that they hold `limit`."""

    def __init__(self, folder: Path, limit: int) -> None:
        self._folder = folder
        self._size = max(4096, limit // 4)
        self._tail: list[Path] = []
        self._total = 0
        self._left = 0
        self._file: int | None = None

    def write(self, data: bytes) -> None:
        while data:
            if self._left == 0:
                self._turn()
            part = data[: self._left]
            os.write(self._file or 0, part)
            self._left -= len(part)
            self._total += len(part)
            data = data[len(part) :]

    def _turn(self) -> None:
        if self._file is not None:
            os.close(self._file)
        path = self._folder / f"output.{self._total}"
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._left = self._size
        if self._total:
            self._tail.append(path)
        # The newest of the tail is still filling, so two full ones stay beside it.
        while len(self._tail) > 3:
            self._tail.pop(0).unlink(missing_ok=True)


class Keeper:
    def __init__(self, job: Job, wake: int) -> None:
        self.job = job
        self.folder = Path(job["keep"])
        self.wake = wake
        self.segments = Segments(self.folder, job["max_output"])
        os.mkfifo(self.folder / "control", 0o600)
        # Opened for both, so that the end of one writer is not the end of the pipe.
        self.control = os.open(self.folder / "control", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._line = b""
        self.poller = select.poll()
        for fd in (wake, self.control):
            self.poller.register(fd, select.POLLIN)
        self.stopped = ""
        self._is_open = True

    def streams(self) -> tuple[list[int], int, int]:
        """Descriptors for the command, and ours to its input and from its output."""
        if self.job["is_terminal"]:
            ours, theirs = os.openpty()
            self.poller.register(ours, select.POLLIN)
            return [theirs, theirs, theirs], ours, ours
        in_read, in_write = os.pipe2(os.O_CLOEXEC)
        out_read, out_write = os.pipe2(os.O_CLOEXEC)
        self.poller.register(out_read, select.POLLIN)
        return [in_read, out_write, out_write], in_write, out_read

    def read(self, output: int) -> bool:
        """Moves one piece of output to the disk; false at its end."""
        try:
            data = os.read(output, READ_SIZE)
        except OSError:
            # A terminal whose last user is gone gives an input/output error.
            data = b""
        if data:
            self.segments.write(data)
        elif self._is_open:
            self._is_open = False
            self.poller.unregister(output)
        return bool(data)

    def orders(self) -> list[dict[str, Any]]:
        *lines, self._line = (self._line + os.read(self.control, READ_SIZE)).split(b"\n")
        return [json.loads(line) for line in lines if line]

    def obey(self, order: dict[str, Any], watch: Watch, to_input: int) -> int:
        """Carries out one order; the input's descriptor, or -1 once it is closed."""
        if "stop" in order:
            self.stopped = str(order["stop"])
            watch.end()
        elif to_input >= 0 and "input" in order:
            _offer(to_input, base64.b64decode(order["input"]))
        elif to_input >= 0 and "eof" in order:
            if self.job["is_terminal"]:
                _offer(to_input, b"\x04")
            else:
                os.close(to_input)
                return -1
        return to_input

    def record_exit(self, watch: Watch) -> None:
        record = {**watch.report(), "stopped": self.stopped, "ended": time.time()}
        write_whole(self.folder / "exit.json", record)

    def clean_up(self) -> None:
        (self.folder / "control").unlink(missing_ok=True)
        for cgroup in self.job["cgroups"]:
            try:
                Path(cgroup).rmdir()
            except OSError:
                continue


def keep(job: Job, stub: Stub, wake: int, fds: list[int], asker: socket.socket) -> None:
    keeper = Keeper(job, wake)
    theirs, to_input, output = keeper.streams()
    count = len(job["extra"]) + bool(job["confine"]) + job["joins"]
    failure = stub.become([fds[0], *theirs, *fds[2 : 2 + count]])
    for fd in {*theirs, *fds[2 : 2 + count]}:
        os.close(fd)
    if failure:
        os.waitpid(stub.pid, 0)
        keeper.clean_up()
        tell(asker, failed=failure)
        return
    write_whole(keeper.folder / "meta.json", _meta(job, stub.pid))
    tell(asker, started=stub.pid)
    asker.close()
    _watch(keeper, Watch(job, stub.pid, wake), to_input, output)
    keeper.clean_up()


def _watch(keeper: Keeper, watch: Watch, to_input: int, output: int) -> None:
    deadline = time.monotonic() + keeper.job["life_s"] if keeper.job["life_s"] else None
    while watch.any_left:
        wait_ms = None if deadline is None else max(0.0, (deadline - time.monotonic()) * 1000)
        ready = dict(keeper.poller.poll(wait_ms))
        if output in ready:
            keeper.read(output)
        if keeper.control in ready:
            for order in _understood(keeper):
                to_input = keeper.obey(order, watch, to_input)
        if deadline is not None and time.monotonic() >= deadline:
            keeper.stopped = f"timed out after {keeper.job['life_s']:g} s"
            watch.end()
        tree.drain(keeper.wake)
        if watch.reap() or not watch.any_left:
            os.set_blocking(output, False)
            while keeper.read(output):
                pass
            keeper.record_exit(watch)


def _understood(keeper: Keeper) -> list[dict[str, Any]]:
    try:
        return keeper.orders()
    except (ValueError, binascii.Error):
        return []


def _offer(fd: int, data: bytes) -> None:
    """Input is given as far as the command takes it; a full pipe must not stop its keeper."""
    os.set_blocking(fd, False)
    try:
        os.write(fd, data)
    except (BlockingIOError, BrokenPipeError):
        return


def _meta(job: Job, pid: int) -> dict[str, Any]:
    me, command = tree.stat(os.getpid()), tree.stat(pid)
    return {
        "keeper": os.getpid(),
        "keeper_start": me.start if me else 0,
        "pid": pid,
        "pid_start": command.start if command else 0,
        "boot": BOOT_ID.read_text().strip(),
        "started": time.time(),
        "is_terminal": job["is_terminal"],
    }


def write_whole(path: Path, record: dict[str, Any]) -> None:
    """Readers see all of it or nothing."""
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(record))
    temporary.rename(path)
