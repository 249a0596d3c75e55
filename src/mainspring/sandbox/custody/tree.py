"""Find and end every process below one, however it was started.

The caller is the subreaper of the tree, so an orphan is still below it. Processes are stopped before
they are killed: a stopped process cannot fork, and a fork bomb cannot outrun the hunt.
"""

from __future__ import annotations

import os
import select
import signal
import time
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
STOP_ROUNDS = 200

Dead = tuple[int, float, int]
"""A wait status, and the CPU seconds and the most bytes that a process and those it waited for used."""


class Stat:
    """The fields of /proc/PID/stat that custody needs; the name may hold spaces and brackets."""

    __slots__ = ("cpu_s", "pid", "ppid", "start", "state")

    def __init__(self, text: str) -> None:
        self.pid = int(text[: text.index(" ")])
        fields = text[text.rindex(")") + 2 :].split()
        self.state = fields[0]
        self.ppid = int(fields[1])
        self.cpu_s = sum(int(field) for field in fields[11:15]) / TICKS_PER_S
        self.start = int(fields[19])


def stat(pid: int) -> Stat | None:
    try:
        text = text_of(f"/proc/{pid}/stat")
    except OSError:
        return None
    return Stat(text)


def text_of(path: str) -> str:
    """A short text of the kernel's; a file object would ask it five times as much."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, 4096).decode(errors="replace")
    finally:
        os.close(fd)


def command_line(pid: int) -> str:
    """What a process runs; empty when that cannot be told."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    return b" ".join(words).decode("utf-8", "replace").strip()


def descendants(root: int) -> list[Stat]:
    """Everything alive or dead below `root`, parents first."""
    children: dict[int, list[Stat]] = {}
    for name in os.listdir("/proc"):
        if name.isdecimal() and (found := stat(int(name))):
            children.setdefault(found.ppid, []).append(found)
    below: list[Stat] = []
    parents = [root]
    while parents:
        found_here = children.pop(parents.pop(), [])
        below += found_here
        parents += [child.pid for child in found_here]
    return below


def listed_below(root: int) -> list[Stat]:
    """As `alive_below`, from the kernel's own lists: quick, but one that is just exiting hides its next."""
    below: list[Stat] = []
    parents = [root]
    while parents:
        pid = parents.pop()
        try:
            threads = os.listdir(f"/proc/{pid}/task")
            words = " ".join(Path(f"/proc/{pid}/task/{thread}/children").read_text() for thread in threads)
        except FileNotFoundError:
            if pid == root:
                # A kernel without these lists.
                return alive_below(root)
            continue
        except OSError:
            continue
        found = [child for child in map(stat, map(int, words.split())) if child and child.state not in "ZX"]
        below += found
        parents += [child.pid for child in found]
    return below


def alive_below(root: int) -> list[Stat]:
    return [process for process in descendants(root) if process.state not in "ZX"]


def reap() -> tuple[dict[int, Dead], bool]:
    """Collects dead children, and whether any child is left."""
    dead: dict[int, Dead] = {}
    while True:
        try:
            pid, status, used = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return dead, False
        if pid == 0:
            return dead, True
        dead[pid] = (status, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)


def send(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def ask_to_end(root: int, wake: int, grace_s: float) -> tuple[dict[int, Dead], bool]:
    """SIGTERM to everything below the calling process `root`; what ended in time, and whether any is left.

    `wake` becomes readable on SIGCHLD.
    """
    send([process.pid for process in alive_below(root)], signal.SIGTERM)
    return wait_for_children(wake, grace_s)


def kill_below(root: int, wake: int) -> dict[int, Dead]:
    """Returns when the calling process `root` has no child left."""
    dead, any_left = reap()
    while any_left:
        seen: set[int] = set()
        for _ in range(STOP_ROUNDS):
            fresh = [process.pid for process in alive_below(root) if process.pid not in seen]
            if not fresh:
                break
            send(fresh, signal.SIGSTOP)
            seen.update(fresh)
        send([process.pid for process in alive_below(root)], signal.SIGKILL)
        more, any_left = wait_for_children(wake, 0.05)
        dead |= more
    return dead


def wait_for_children(wake: int, timeout_s: float) -> tuple[dict[int, Dead], bool]:
    """Waits until no child is left or the time is over."""
    deadline = time.monotonic() + timeout_s
    poller = select.poll()
    poller.register(wake, select.POLLIN)
    dead, any_left = reap()
    while any_left and (left_s := deadline - time.monotonic()) > 0:
        poller.poll(left_s * 1000)
        drain(wake)
        more, any_left = reap()
        dead |= more
    return dead, any_left


def drain(wake: int) -> None:
    try:
        while os.read(wake, 4096):
            pass
    except BlockingIOError:
        return
