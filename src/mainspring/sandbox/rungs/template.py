"""Mounts that are made once and joined by every command that needs the same.

A process of bubblewrap makes them in namespaces of its own and ends; descriptors hold the namespaces. It
lays masks over secrets and confines nothing: what joins them makes the rest read-only for itself.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path

import msgspec

from mainspring.errors import SandboxError
from mainspring.sandbox import Command
from mainspring.sandbox.launch import FIRST_EXTRA_FD, Custody, Launch

WAIT_S = 20
HOLDER = ("/bin/sh", "-c", "echo; read line")
"""Says that the mounts are there, and lives until its input ends."""

Node = tuple[int, int]


def node_at(path: str | Path, *, dir_fd: int | None = None) -> Node | None:
    """What a path leads to, or nothing."""
    try:
        found = os.stat(path, dir_fd=dir_fd)
    except OSError:
        return None
    return found.st_dev, found.st_ino


class MountTemplate:
    """`joins` are the namespaces around it, then its own user and mount namespace. `masked` are the paths under
    masks, `masks` what lies there instead."""

    def __init__(
        self,
        around: Iterable[int],
        own: tuple[int, int],
        root: int,
        masked: Iterable[Path],
        masks: AbstractSet[Node | None],
    ) -> None:
        self.joins = (*around, *own)
        self.masked = frozenset(masked)
        self._own = own
        self._root = root
        self._masks = masks

    def is_whole(self) -> bool:
        """Whether every mask still lies where it was laid: what is removed or replaced outside loses it."""
        return all(node_at(str(path)[1:], dir_fd=self._root) in self._masks for path in self.masked)

    def close(self) -> None:
        for fd in (*self._own, self._root):
            os.close(fd)


async def make_template(
    custody: Custody, start: Launch, *, masked: Iterable[Path], masks: AbstractSet[Node | None]
) -> MountTemplate | None:
    """What bubblewrap, started like this, mounts; nothing where it cannot."""
    readable, writable = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    given, input_end = os.pipe2(os.O_CLOEXEC)
    argv = (*start.argv, "--json-status-fd", str(FIRST_EXTRA_FD), "--", *HOLDER)
    launch = msgspec.structs.replace(start, argv=argv, extra=(writable,), status=readable)
    command = Command(argv=HOLDER, cwd=Path("/"), timeout_s=WAIT_S, stdin=given, is_whole=True)
    is_over = asyncio.Event()
    said: list[bytes] = []

    def hear(data: bytes) -> None:
        said.append(data)
        is_over.set()

    async def hold() -> None:
        with suppress(SandboxError):
            await custody.run(launch, command, hear)
        is_over.set()

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(hold())
            try:
                await is_over.wait()
                return _taken(readable, start.joins, masked, masks) if said else None
            finally:
                os.close(input_end)
    finally:
        os.close(given)


def _taken(
    status: int, around: Iterable[int], masked: Iterable[Path], masks: AbstractSet[Node | None]
) -> MountTemplate | None:
    try:
        if not (lines := os.read(status, 4096).splitlines()):  # it complained and is over
            return None
        return MountTemplate(around, *_opened(json.loads(lines[0])["child-pid"]), masked, masks)
    except OSError:
        return None


def _opened(pid: int) -> tuple[tuple[int, int], int]:
    opened: list[int] = []
    try:
        for name in ("user", "mnt"):  # what was opened is closed when the next fails
            opened.append(os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC))  # noqa: PERF401
        root = os.open(f"/proc/{pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        for fd in opened:
            os.close(fd)
        raise
    return (opened[0], opened[1]), root
