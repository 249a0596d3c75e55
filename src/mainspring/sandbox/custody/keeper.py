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

from . import FOLDER_FORMAT, tree
from .child import Job, start
from .guard import GuardWatch, Ticks, tell

READ_SIZE = 64 * 1024
MAX_WAITING = 8 * 1024 * 1024
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
        """Keeps it, as far as the disk has room: a keeper that gave up would let go of its command."""
        try:
            self._write(data)
        except OSError:
            return

    def _write(self, data: bytes) -> None:
        while data:
            if self._left == 0 or self._file is None:
                self._turn()
            count = os.write(self._file or 0, data[: self._left])
            self._left -= count
            self._total += count
            data = data[count:]

    def _turn(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
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
        self._input = -1
        self._waiting = bytearray()
        self._is_full = False
        self._is_closing = False

    def streams(self) -> tuple[list[int], int]:
        """Descriptors for the command, and ours from its output."""
        if self.job["is_terminal"]:
            ours, theirs = os.openpty()
            # The input has a number of its own, since it is watched for other reasons.
            self._input = os.dup(ours)
            self.poller.register(ours, select.POLLIN)
            given, output = [theirs, theirs, theirs], ours
        else:
            in_read, self._input = os.pipe2(os.O_CLOEXEC)
            output, out_write = os.pipe2(os.O_CLOEXEC)
            self.poller.register(output, select.POLLIN)
            given = [in_read, out_write, out_write]
        os.set_blocking(self._input, False)
        return given, output

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

    def obey(self, order: dict[str, Any], watch: GuardWatch) -> None:
        if "stop" in order:
            self.stopped = str(order["stop"])
            watch.end()
        elif "input" in order and len(self._waiting) < MAX_WAITING:
            self._waiting += base64.b64decode(order["input"])
        elif "eof" in order and self.job["is_terminal"]:
            self._waiting += b"\x04"
        elif "eof" in order:
            self._is_closing = True
        self.give()

    def give(self) -> None:
        """Moves input to the command as far as it takes it; the rest waits until it can take more."""
        if self._input < 0:
            return
        try:
            while self._waiting:
                del self._waiting[: os.write(self._input, self._waiting)]
        except BlockingIOError:
            self.poller.register(self._input, select.POLLOUT)
            self._is_full = True
            return
        except OSError:
            # It reads no more.
            self._waiting.clear()
        if self._is_full:
            self.poller.unregister(self._input)
            self._is_full = False
        if self._is_closing:
            os.close(self._input)
            self._input = -1

    def record_exit(self, watch: GuardWatch) -> None:
        record = {**watch.report(), "stopped": self.stopped, "ended": time.time()}
        write_whole(self.folder / "exit.json", record)

    def clean_up(self) -> None:
        (self.folder / "control").unlink(missing_ok=True)
        for cgroup in self.job["cgroups"]:
            try:
                Path(cgroup).rmdir()
            except OSError:
                continue


class Life:
    """How long a command may go on: its time, and the limits that the kernel does not count for a tree."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._ticks = Ticks(job)
        self._end = time.monotonic() + job["life_s"] if job["life_s"] else None

    def wait_ms(self) -> float | None:
        left_ms = None if self._end is None else max(0.0, (self._end - time.monotonic()) * 1000)
        waits = [wait for wait in (left_ms, self._ticks.wait_ms()) if wait is not None]
        return min(waits, default=None)

    def end_of(self, watch: GuardWatch) -> str:
        """Why the command must end now, or nothing."""
        if self._end is not None and time.monotonic() >= self._end:
            return f"timed out after {self._job['life_s']:g} s"
        passed = watch.limit_passed() if self._ticks.is_due() else ""
        return self._job["limit_names"].get(passed, passed)


def keep(job: Job, wake: int, fds: list[int], asker: socket.socket) -> None:
    keeper = Keeper(job, wake)
    theirs, output = keeper.streams()
    count = len(job["extra"]) + bool(job["confine"]) + job["joins"]
    pid, failure = start(job, [*theirs, *fds[:count]])
    for fd in {*theirs, *fds[:count]}:
        os.close(fd)
    if failure:
        keeper.clean_up()
        tell(asker, failed=failure)
        return
    write_whole(keeper.folder / "meta.json", _meta(job, pid))
    tell(asker, started=pid)
    asker.close()
    _watch(keeper, GuardWatch(job, pid, wake), output)
    keeper.clean_up()


def _watch(keeper: Keeper, watch: GuardWatch, output: int) -> None:
    life = Life(keeper.job)
    while watch.any_left:
        ready = dict(keeper.poller.poll(life.wait_ms()))
        if output in ready:
            keeper.read(output)
        if keeper.control in ready:
            for order in _understood(keeper):
                keeper.obey(order, watch)
        keeper.give()
        if why := life.end_of(watch):
            keeper.stopped = why
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


def _meta(job: Job, pid: int) -> dict[str, Any]:
    me, command = tree.stat(os.getpid()), tree.stat(pid)
    return {
        "format_version": FOLDER_FORMAT,
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
    temporary.touch(mode=0o600)
    temporary.write_text(json.dumps(record))
    temporary.rename(path)
