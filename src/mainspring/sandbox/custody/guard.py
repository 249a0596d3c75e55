"""A guard runs one command and keeps all that it starts below itself until nothing is left.

It tells us, one JSON object per packet: `failed` (the program could not be started: stage, errno),
`exited` (exit code, CPU seconds, peak memory, processes left running), `limit` (one that was passed).
Any packet from us, or our death, ends the tree. The guard's own end closes the socket: all is gone.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any, NoReturn, TypedDict

from . import kernel, tree

GRACE_S = 0.25
TICK_S = 1.0
HIGHEST_FD = 1 << 20


class Job(TypedDict):
    """What a guard is asked to do; see `mainspring.sandbox.launch` for the meaning."""

    argv: list[str]
    env: dict[str, str]
    cwd: str
    rlimits: list[tuple[int, int]]
    cgroups: list[str]
    drop: bool
    confine: bool
    seccomp: str
    is_wrapped: bool
    cpu_s: float
    disk_reserve: int


class Files(TypedDict):
    """Descriptors by role; `ruleset` is -1 when there is none."""

    stdin: int
    stdout: int
    stderr: int
    ruleset: int


def tell(control: socket.socket, **fact: Any) -> None:
    try:
        control.send(json.dumps(fact).encode())
    except OSError:
        # We are gone; the next poll sees the end of the socket.
        return


def wakeup() -> int:
    """A descriptor that becomes readable when a child dies or a SIGTERM comes."""
    readable, writable = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, _wake)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    return readable


def _wake(_number: int, _frame: object) -> None:
    """A handler must exist for the wake-up descriptor to be written."""


def start(job: Job, files: Files) -> tuple[int, tuple[str, int] | None]:
    """Forks and executes; the program's process, and why it could not be started if it could not."""
    readable, writable = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        _become(job, files, writable)
    os.close(writable)
    with os.fdopen(readable, "rb") as errors:
        text = errors.read()
    if not text:
        return pid, None
    stage, _, number = text.decode().partition(" ")
    return pid, (stage, int(number))


def _become(job: Job, files: Files, errors: int) -> NoReturn:
    stage = "join"
    try:
        os.setsid()
        _be_killed_first()
        for cgroup in job["cgroups"]:
            Path(cgroup, "cgroup.procs").write_text("0")
        for target, number in enumerate((files["stdin"], files["stdout"], files["stderr"])):
            os.dup2(number, target)
        stage = "limit"
        for kind, value in job["rlimits"]:
            _limit(kind, value)
        stage = "chdir"
        os.chdir(job["cwd"])
        stage = "confine"
        _confine(job, files["ruleset"])
        _reset_signals()
        stage = "exec"
        os.execve(job["argv"][0], job["argv"], job["env"])  # noqa: S606 - no shell is the point
    except OSError as error:
        os.write(errors, f"{stage} {error.errno or 0}".encode())
    os._exit(127)


def _be_killed_first() -> None:
    """When memory runs out, the kernel picks the command before it picks its guards."""
    try:
        Path("/proc/self/oom_score_adj").write_text("500")
    except OSError:
        return


def _limit(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    wanted = value if hard == resource.RLIM_INFINITY else min(value, hard)
    # The second past the soft limit lets SIGXCPU name the limit before SIGKILL enforces it.
    spare = 1 if kind == resource.RLIMIT_CPU and (hard == resource.RLIM_INFINITY or wanted < hard) else 0
    resource.setrlimit(kind, (wanted, wanted + spare))


def _confine(job: Job, ruleset: int) -> None:
    if job["drop"]:
        kernel.gain_no_privileges()
        kernel.drop_capabilities()
    if ruleset >= 0:
        kernel.gain_no_privileges()
        kernel.restrict_by_landlock(ruleset)
    if job["seccomp"]:
        kernel.gain_no_privileges()
        kernel.restrict_by_seccomp(bytes.fromhex(job["seccomp"]))


def _reset_signals() -> None:
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def exit_code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


class Watch:
    """The state of one guarded tree."""

    def __init__(self, job: Job, pid: int, wake: int) -> None:
        self.job = job
        self.pid = pid
        self.wake = wake
        self.status: int | None = None
        self.any_left = True

    def reap(self) -> bool:
        """Collects the dead; true when the command itself is now among them."""
        statuses, self.any_left = tree.reap()
        return self._note(statuses)

    def end(self) -> None:
        me = os.getpid()
        statuses, is_any_left = tree.ask_to_end(me, self.wake, GRACE_S)
        if is_any_left:
            for cgroup in self.job["cgroups"]:
                _kill_cgroup(cgroup)
            statuses |= tree.kill_below(me, self.wake)
        self._note(statuses)
        self.any_left = False

    def _note(self, statuses: dict[int, int]) -> bool:
        if self.status is not None or self.pid not in statuses:
            return False
        self.status = statuses[self.pid]
        return True

    def left_running(self) -> list[int]:
        if not self.any_left:
            return []
        me = os.getpid()
        # In a pid namespace our only children are the wrapper's own processes.
        return [found.pid for found in tree.alive_below(me) if found.ppid != me or not self.job["is_wrapped"]]

    def report(self) -> dict[str, Any]:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return {
            "exited": exit_code(self.status or 0),
            "cpu_s": used.ru_utime + used.ru_stime,
            "max_rss": used.ru_maxrss * 1024,
            "left": self.left_running(),
        }

    def limit_passed(self) -> str:
        if (limit := self.job["cpu_s"]) and self._cpu_s() > limit:
            return "cpu"
        if (reserve := self.job["disk_reserve"]) and _free_bytes(self.job["cwd"]) < reserve:
            return "disk"
        return ""

    def _cpu_s(self) -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        below = tree.descendants(os.getpid())
        return used.ru_utime + used.ru_stime + sum(process.cpu_s for process in below)


def _kill_cgroup(cgroup: str) -> None:
    try:
        Path(cgroup, "cgroup.kill").write_text("1")
    except OSError:
        return


def _free_bytes(path: str) -> int:
    try:
        room = os.statvfs(path)
    except OSError:
        return sys.maxsize
    return room.f_bavail * room.f_frsize


def guard(job: Job, files: Files, control: socket.socket) -> None:
    """Runs until the command and everything that it started are gone."""
    wake = wakeup()
    kernel.become_subreaper()
    pid, failure = start(job, files)
    _close_all_but(control.fileno(), wake)
    if failure:
        os.waitpid(pid, 0)
        tell(control, failed=failure)
        return
    watch = Watch(job, pid, wake)
    poller = select.poll()
    poller.register(wake, select.POLLIN)
    poller.register(control, select.POLLIN)
    needs_ticks = bool(job["cpu_s"] or job["disk_reserve"])
    next_tick = time.monotonic() + TICK_S
    while watch.any_left:
        ready = dict(poller.poll(max(0, (next_tick - time.monotonic()) * 1000) if needs_ticks else None))
        if control.fileno() in ready:
            watch.end()
            tell(control, **watch.report())
            return
        tree.drain(wake)
        if watch.reap():
            tell(control, **watch.report())
        if needs_ticks and time.monotonic() >= next_tick:
            next_tick = time.monotonic() + TICK_S
            if passed := watch.limit_passed():
                tell(control, limit=passed)
                watch.end()
                tell(control, **watch.report())


def _close_all_but(*kept: int) -> None:
    """Holding a pipe of the command would hide its end from us."""
    wakeup_fd = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(wakeup_fd, warn_on_full_buffer=False)
    low = 3
    for number in sorted({*kept, wakeup_fd}):
        os.closerange(low, number)
        low = number + 1
    os.closerange(low, HIGHEST_FD)
