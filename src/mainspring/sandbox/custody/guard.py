"""A guard runs one command and keeps all that it starts below itself until nothing is left; then the next.

It tells us, one JSON object per packet: `failed` (the program could not be started: stage, errno),
`exited` (exit code, CPU seconds, peak memory, processes left running), `limit` (one that was passed).
Any packet from us ends the tree; so does our death, unless the command has exited and what it left `outlives`
us. The guard's own end closes the socket: all is gone.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

from . import outside, tree
from .child import Job, start

GRACE_S = 0.25
TICK_S = 1.0


def tell(control: socket.socket, **fact: Any) -> None:
    try:
        control.send(json.dumps(fact).encode())
    except OSError:
        # We are gone; the next poll sees the end of the socket.
        return


def wakeup() -> int:
    """A descriptor that becomes readable when a child dies."""
    readable, writable = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, _wake)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    return readable


def _wake(_number: int, _frame: object) -> None:
    """A handler must exist for the wake-up descriptor to be written."""


def exit_code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


class GuardWatch:
    """The state of one guarded tree."""

    def __init__(self, job: Job, pid: int, wake: int) -> None:
        self.job = job
        self.pid = pid
        self.wake = wake
        self.status: int | None = None
        self.any_left = True
        self._used_s = 0.0
        self._max_rss = 0
        self._room = _room(job["disk"])

    def reap(self) -> bool:
        """Collects the dead; true when the command itself is now among them."""
        dead, self.any_left = tree.reap()
        return self._note(dead)

    def end(self) -> None:
        me = os.getpid()
        dead: dict[int, tree.Dead] = {}
        is_any_left = True
        # We let go of a command while the last process of its wrapper dies: no reason to look for others.
        if self.status is not None and not self.left_running():
            dead, is_any_left = tree.wait_for_children(self.wake, GRACE_S)
        if is_any_left:
            ended, is_any_left = tree.ask_to_end(me, self.wake, GRACE_S)
            dead |= ended
        if is_any_left:
            for cgroup in self.job["cgroups"]:
                _kill_cgroup(cgroup)
            dead |= tree.kill_below(me, self.wake)
        self._note(dead)
        self.any_left = False

    def _note(self, dead: dict[int, tree.Dead]) -> bool:
        for _, used_s, max_rss in dead.values():
            self._used_s += used_s
            self._max_rss = max(self._max_rss, max_rss)
        if self.status is not None or self.pid not in dead:
            return False
        self.status = dead[self.pid][0]
        return True

    def left_running(self) -> list[int]:
        if not self.any_left or (self.job["is_wrapped"] and _is_alone(self.job["cgroups"])):
            return []
        me = os.getpid()
        # In a pid namespace our only children are the wrapper's own processes.
        return [
            found.pid for found in tree.listed_below(me) if found.ppid != me or not self.job["is_wrapped"]
        ]

    def report(self) -> dict[str, Any]:
        return {
            "exited": exit_code(self.status or 0),
            "cpu_s": self._used_s,
            "max_rss": self._max_rss,
            "left": self.left_running(),
        }

    def limit_passed(self) -> str:
        if (limit := self.job["cpu_s"]) and self._cpu_s() > limit:
            return "cpu"
        free_bytes, free_files = _room(self.job["disk"])
        if (reserve := self.job["disk_reserve"]) and free_bytes < reserve:
            return "disk"
        if (limit := self.job["disk_bytes"]) and self._room[0] - free_bytes > limit:
            return "written"
        if (limit := self.job["new_files"]) and self._room[1] - free_files > limit:
            return "files"
        return ""

    def _cpu_s(self) -> float:
        return self._used_s + sum(process.cpu_s for process in tree.descendants(os.getpid()))


def _kill_cgroup(cgroup: str) -> None:
    try:
        outside.write(f"{cgroup}/cgroup.kill", b"1")
    except OSError:
        return


def _is_alone(cgroups: list[str]) -> bool:
    """Whether a cgroup says that it holds no more than the first process of a pid namespace: a kernel without
    lists of children makes us ask every process of the machine for its parent."""
    for cgroup in cgroups:
        try:
            return int(tree.text_of(f"{cgroup}/pids.current")) <= 1
        except OSError:
            continue
    return False


def _room(path: str) -> tuple[int, int]:
    """Free bytes and free file numbers of a disk."""
    try:
        room = os.statvfs(path)
    except OSError:
        return sys.maxsize, sys.maxsize
    return room.f_bavail * room.f_frsize, room.f_favail


class Ticks:
    """Limits that the kernel does not count for a tree are looked at once a second."""

    def __init__(self, job: Job) -> None:
        self.is_needed = any(job[name] for name in ("cpu_s", "disk_reserve", "disk_bytes", "new_files"))
        self._next = time.monotonic() + TICK_S

    def wait_ms(self) -> float | None:
        return max(0.0, (self._next - time.monotonic()) * 1000) if self.is_needed else None

    def is_due(self) -> bool:
        if not self.is_needed or time.monotonic() < self._next:
            return False
        self._next = time.monotonic() + TICK_S
        return True


def guard(
    job: Job, wake: int, fds: list[int], control: socket.socket, *, on_start: Callable[[], object]
) -> None:
    """Runs until the command and everything that it started are gone."""
    pid, failure = start(job, fds, on_wait=on_start)
    on_start()
    # Holding a pipe of the command would hide its end from us.
    for fd in fds:
        os.close(fd)
    if failure:
        tell(control, failed=failure)
        return
    watch = GuardWatch(job, pid, wake)
    poller = select.poll()
    poller.register(wake, select.POLLIN)
    poller.register(control, select.POLLIN)
    ticks = Ticks(job)
    while watch.any_left:
        ready = dict(poller.poll(ticks.wait_ms()))
        tree.drain(wake)
        if watch.reap():
            tell(control, **watch.report())
        is_asked = watch.any_left and control.fileno() in ready
        if is_asked and _is_left_alone(watch, control):
            poller.unregister(control)
        elif is_asked:
            watch.end()
            tell(control, **watch.report())
            return
        if ticks.is_due() and (passed := watch.limit_passed()):
            tell(control, limit=passed)
            watch.end()
            tell(control, **watch.report())


def _is_left_alone(watch: GuardWatch, control: socket.socket) -> bool:
    """Whether we are gone, and what the command left behind may outlive us."""
    return watch.job["outlives"] and watch.status is not None and not control.recv(64)
