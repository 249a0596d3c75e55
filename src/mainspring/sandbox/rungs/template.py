"""Mounts that are made once and joined by every command that needs the same.

A process of bubblewrap makes them in namespaces of its own and ends; descriptors hold the namespaces. It
makes all read-only but the folders of a policy, holds protected paths in these, and lays masks over secrets;
what joins them adds what is its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import select
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path

import msgspec

from mainspring.errors import SandboxError
from mainspring.sandbox import Command
from mainspring.sandbox.launch import FIRST_EXTRA_FD, Custody, Launch
from mainspring.sandbox.rungs.nodes import Node, node_at, sole_node_at

WAIT_S = 20
HOLDER = ("/bin/sh", "-c", "echo; read line")
"""Says that the mounts are there, and lives until its input ends."""


class TemplateLayout(msgspec.Struct, frozen=True):
    """`masked` are the paths under masks, `masks` what lies there instead; `held` are paths that are mounted
    over themselves, and how. `nodes` tells what was mounted of them and of the folders that stay writable in
    what is otherwise read-only."""

    masked: frozenset[Path]
    masks: AbstractSet[Node | None]
    held: frozenset[tuple[str, Path]]
    nodes: dict[Path, Node | None]

    def is_within(self, held: Iterable[tuple[str, Path]], masked: Iterable[Path]) -> bool:
        """Whether no more is held and masked than this; what is missing can be added."""
        return self.held.issubset(held) and self.masked.issubset(masked)

    def lacks(self, how: str, path: Path) -> bool:
        """Whether this is still to be mounted; what is under a mask cannot be, and need not."""
        return (how, path) not in self.held and self.masked.isdisjoint((path, *path.parents))


class MountTemplate:
    """`joins` are the namespaces around it, then its own user and mount namespace. `mounts` is the kernel's
    list of its mounts, which tells when another came or went."""

    def __init__(
        self, around: Iterable[int], own: tuple[int, int], root: int, mounts: int, layout: TemplateLayout
    ) -> None:
        self.joins = (*around, *own)
        self.layout = layout
        self._masked = [_inside(path) for path in layout.masked]
        self._nodes = [(_inside(path), node) for path, node in layout.nodes.items()]
        self._own = own
        self._root = root
        self._mounts = mounts
        self._changes = select.poll()
        self._changes.register(mounts, select.POLLPRI)
        self._listed = _listed(mounts)
        # A mount that was lost before this list was read is not missed by comparing lists.
        points = {line.split(b" ", 5)[4] for line in self._listed.splitlines()}
        self._is_laid = points.issuperset(map(_point, layout.nodes))

    def is_whole(self) -> bool:
        """Whether all lies where it was laid: what is removed or replaced outside loses its mount. What is
        mounted outside comes here too, and would not be read-only."""
        if not self._is_laid or (self._changes.poll(0) and _listed(self._mounts) != self._listed):
            return False
        root, masks = self._root, self.layout.masks
        return all(node_at(path, dir_fd=root) in masks for path in self._masked) and all(
            sole_node_at(path, dir_fd=root) == node for path, node in self._nodes
        )

    def close(self) -> None:
        for fd in (*self._own, self._root, self._mounts):
            os.close(fd)


def _inside(path: Path) -> str:
    """A path from the root of a template."""
    return str(path)[1:] or "."


def _point(path: Path) -> bytes:
    """As the kernel lists it."""
    real = os.fsencode(os.path.realpath(path))
    return re.sub(rb"[ \t\n\\]", lambda found: b"\\%03o" % ord(found[0]), real)


def _listed(mounts: int) -> bytes:
    os.lseek(mounts, 0, os.SEEK_SET)
    return b"".join(iter(lambda: os.read(mounts, 1 << 16), b""))


async def make_template(custody: Custody, start: Launch, layout: TemplateLayout) -> MountTemplate | None:
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
                return _taken(readable, start.joins, layout) if said else None
            finally:
                os.close(input_end)
    finally:
        os.close(given)


def _taken(status: int, around: Iterable[int], layout: TemplateLayout) -> MountTemplate | None:
    try:
        if not (lines := os.read(status, 4096).splitlines()):  # it complained and is over
            return None
        return MountTemplate(around, *_opened(json.loads(lines[0])["child-pid"]), layout)
    except OSError:
        return None


def _opened(pid: int) -> tuple[tuple[int, int], int, int]:
    opened: list[int] = []
    try:
        for name in ("ns/user", "ns/mnt", "mountinfo"):  # what was opened is closed when the next fails
            opened.append(os.open(f"/proc/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC))  # noqa: PERF401
        root = os.open(f"/proc/{pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        for fd in opened:
            os.close(fd)
        raise
    return (opened[0], opened[1]), root, opened[2]
