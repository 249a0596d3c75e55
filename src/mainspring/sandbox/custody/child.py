"""What a guard is asked for, and the process that becomes the command.

A wrapper that needs nothing but cgroups is spawned from the guard, which enters them for that moment: a fork
of an interpreter costs more than all else that a guard does. What is to be confined otherwise is forked, and
joins cgroups, sets limits, drops privileges and confines itself before its exec. Each step that fails is
reported with its name and errno.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
from array import array
from collections.abc import Callable, Sequence
from typing import NoReturn, TypedDict

from . import kernel, outside

if sys.platform != "win32":
    import fcntl
    import resource
    import termios

    RESET_SIGNALS = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)

MAX_FDS = 32
QUICK_MS = 20


class Job(TypedDict):
    """What is asked of a guard; see `mainspring.sandbox.launch` for the meaning.

    With it come descriptors: output, errors, a Landlock ruleset if `confine`, those that `extra` numbers,
    as many namespaces to join as `joins` says, and the input if `has_input`. With `loopback` nothing is run:
    a network is made. With `attends` a guard joins the namespaces, and serves the socket behind them.
    """

    argv: list[str]
    env: dict[str, str]
    cwd: str
    rlimits: list[tuple[int, int]]
    cgroups: list[str]
    drop: bool
    confine: bool
    seccomp: str
    extra: list[int]
    joins: int
    loopback: bool
    attends: bool
    is_wrapped: bool
    has_input: bool
    cpu_s: float
    disk: str
    disk_reserve: int
    disk_bytes: int
    new_files: int
    keep: str
    is_terminal: bool
    max_output: int
    life_s: float
    limit_names: dict[str, str]
    outlives: bool


def start(
    job: Job, fds: Sequence[int], *, on_wait: Callable[[], object] | None = None
) -> tuple[int, tuple[str, int] | None]:
    """Forks what becomes the command: its number, and why it could not be executed, if it could not.

    The descriptors are standard input, output and errors, and then what the job says; they stay open here.
    `on_wait` is called when it takes long, as for a program on a network disk that is away.
    """
    if _is_spawnable(job):
        try:
            return _spawned(job, fds), None
        except OSError as error:
            return 0, ("exec", error.errno or 0)
    failed, errors = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        _become(job, list(fds), errors)
    os.close(errors)
    poller = select.poll()
    poller.register(failed, select.POLLIN)
    if on_wait and not poller.poll(QUICK_MS):
        on_wait()
    text = os.read(failed, 200)
    os.close(failed)
    if not text:
        return pid, None
    os.waitpid(pid, 0)
    stage, _, number = text.decode().partition(" ")
    return pid, (stage, int(number))


def _is_spawnable(job: Job) -> bool:
    """Whether all that is asked for can be taken back by the guard, or does not matter to it."""
    is_plain = job["is_wrapped"] and not (job["joins"] or job["drop"] or job["confine"] or job["seccomp"])
    is_plain = is_plain and not job.get("is_terminal") and job["cwd"] == "/"
    is_unlimited = all(kind == resource.RLIMIT_CORE for kind, _ in job["rlimits"])
    return is_plain and is_unlimited and outside.is_quick_to_join(job["cgroups"])


def _spawned(job: Job, fds: Sequence[int]) -> int:
    places = (*range(3), *job["extra"])
    for kind, value in job["rlimits"]:
        _limit(kind, value)
    with outside.as_a_command(job["cgroups"]):
        return os.posix_spawn(
            job["argv"][0],
            job["argv"],
            job["env"],
            file_actions=[(os.POSIX_SPAWN_DUP2, *each) for each in zip(fds, places, strict=True)],
            setsid=True,
            setsigmask=[],
            setsigdef=RESET_SIGNALS,
        )


def receive(connection: socket.socket) -> list[int]:
    """The descriptors of one packet, or none when the other side is gone."""
    fds = array("i")
    # socket.recv_fds drops its flags, and these descriptors must not reach the command.
    size = socket.CMSG_LEN(MAX_FDS * fds.itemsize)
    _, headers, _, _ = connection.recvmsg(16, size, socket.MSG_CMSG_CLOEXEC)
    for _, _, data in headers:
        fds.frombytes(data)
    return list(fds)


def job_in(fd: int) -> Job:
    return json.loads(os.pread(fd, os.fstat(fd).st_size, 0))


def _become(job: Job, fds: list[int], errors: int) -> NoReturn:
    stage = "join"
    try:
        os.setsid()
        outside.be_killed_first()
        for cgroup in job["cgroups"]:
            outside.join_cgroup(cgroup)
        namespaces = fds[len(fds) - job["joins"] :]
        ruleset = _place(job, fds[: len(fds) - job["joins"]])
        for namespace in namespaces:
            kernel.join_namespace(namespace)
        stage = "limit"
        for kind, value in job["rlimits"]:
            _limit(kind, value)
        stage = "chdir"
        os.chdir(job["cwd"])
        stage = "confine"
        _confine(job, ruleset)
        _reset_signals()
        stage = "exec"
        os.execve(job["argv"][0], job["argv"], job["env"])  # noqa: S606 - no shell is the point
    except OSError as error:
        os.write(errors, f"{stage} {error.errno or 0}".encode())
    os._exit(127)


def _place(job: Job, fds: list[int]) -> int:
    """Puts descriptors where the program expects them; the ruleset's, or -1."""
    for target, fd in enumerate(fds[:3]):
        os.dup2(fd, target)
    if job.get("is_terminal"):
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    rest = fds[3:]
    ruleset = rest.pop(0) if job["confine"] else -1
    for fd, target in zip(rest, job["extra"], strict=True):
        os.dup2(fd, target)
    return ruleset


def _limit(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    wanted = value if hard == resource.RLIM_INFINITY else min(value, hard)
    # The second past the soft limit lets SIGXCPU name the limit before SIGKILL enforces it.
    spare = 1 if kind == resource.RLIMIT_CPU and (hard == resource.RLIM_INFINITY or wanted < hard) else 0
    resource.setrlimit(kind, (wanted, wanted + spare))


def _confine(job: Job, ruleset: int) -> None:
    if job["drop"] or ruleset >= 0 or job["seccomp"]:
        kernel.gain_no_privileges()
    if job["drop"]:
        kernel.drop_capabilities()
    if ruleset >= 0:
        kernel.restrict_by_landlock(ruleset)
    if job["seccomp"]:
        kernel.restrict_by_seccomp(bytes.fromhex(job["seccomp"]))


def _reset_signals() -> None:
    for number in RESET_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
