"""What a process is to the machine, and not to the namespaces that it has joined: its cgroups, and how soon
it is killed when memory runs out.

The files that say so are reached from the root of the machine, kept open from before a process joins others.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import cache

PICKED_FIRST = b"500"
_OOM_SCORE = "/proc/self/oom_score_adj"


@cache
def root() -> int:
    """The root of the machine, if it was asked for before anything was joined."""
    return os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)


def write(path: str, data: bytes) -> None:
    fd = os.open(path[1:], os.O_WRONLY | os.O_CLOEXEC, dir_fd=root())
    try:
        os.write(fd, data)
    finally:
        os.close(fd)


def is_quick_to_join(cgroups: Sequence[str]) -> bool:
    return all(map(_has_threads, map(_above, cgroups)))


def join_cgroup(folder: str) -> None:
    """A move of all threads of a process waits until every processor has passed a quiet point, some ten
    milliseconds. Version 1 also moves one thread, which does not wait, and we have only one."""
    try:
        write(f"{folder}/tasks", b"0")
    except FileNotFoundError:
        write(f"{folder}/cgroup.procs", b"0")


def be_killed_first() -> None:
    """When memory runs out, the kernel picks the command before it picks its guards."""
    try:
        write(_OOM_SCORE, PICKED_FIRST)
    except OSError:
        return


@contextmanager
def as_a_command(cgroups: Sequence[str]) -> Generator[None]:
    """Makes a guard, for a moment, what its next child shall be to the machine."""
    own_score = _own_score()
    joined: list[str] = []
    be_killed_first()
    try:
        for folder in cgroups:
            join_cgroup(folder)
            joined.append(folder)
        yield
    finally:
        for folder in joined:
            _go_back(f"{_above(folder)}/tasks", b"0")
        _go_back(_OOM_SCORE, own_score)


def _above(folder: str) -> str:
    return folder.rpartition("/")[0]


@cache
def _has_threads(folder: str) -> bool:
    try:
        os.stat(f"{folder}/tasks"[1:], dir_fd=root())
    except OSError:
        return False
    return True


@cache
def _own_score() -> bytes:
    fd = os.open(_OOM_SCORE[1:], os.O_RDONLY | os.O_CLOEXEC, dir_fd=root())
    try:
        return os.read(fd, 16)
    finally:
        os.close(fd)


def _go_back(path: str, data: bytes) -> None:
    """The command runs by now: a guard that must stay where its command is ends with it all the same."""
    try:
        write(path, data)
    except OSError:
        return
