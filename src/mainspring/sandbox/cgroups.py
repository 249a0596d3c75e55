"""Limit memory and processes of a whole tree where we may make cgroups, of version 2 or 1.

Each run has one of its own, made when the last run has ended, and removed after it. Where none can be
made, `has` says so and the caller falls back to rlimits.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from mainspring.sandbox.custody.tree import text_of
from mainspring.sandbox.limits import ProcessLimits, share_of_machine

ABANDONED_S = 60.0
MAX_FILES: dict[tuple[str, int], str] = {
    ("memory", 2): "memory.max",
    ("memory", 1): "memory.limit_in_bytes",
    ("pids", 2): "pids.max",
    ("pids", 1): "pids.max",
}


class Parent(msgspec.Struct, frozen=True):
    """A folder below which we may make cgroups that limit one thing."""

    path: Path
    version: int


class Cgroup(msgspec.Struct, frozen=True):
    """The folders of one run, by what they limit."""

    by_kind: dict[str, tuple[Path, int]] = {}

    @property
    def folders(self) -> list[Path]:
        return sorted({path for path, _ in self.by_kind.values()})

    def has(self, kind: str) -> bool:
        return kind in self.by_kind

    def limit_passed(self, exit_code: int) -> str:
        """Which limit the kernel says was run into, or nothing."""
        if "memory" in self.by_kind:
            folder, version = self.by_kind["memory"]
            if _count(folder / ("memory.events" if version == 2 else "memory.oom_control"), "oom_kill"):
                return "memory"
        # A fork that failed once and was tried again stopped nothing.
        if exit_code and "pids" in self.by_kind and _count(self.by_kind["pids"][0] / "pids.events", "max"):
            return "processes"
        return ""


class Cgroups:
    """Finds once where cgroups can be made."""

    def __init__(self) -> None:
        self._parents: dict[str, Parent] | None = None
        self._share: int | None = None
        self._next: tuple[ProcessLimits, Cgroup] | None = None
        self._stale: list[Path] = []
        self._is_closed = False

    def parents(self) -> dict[str, Parent]:
        if self._parents is None:
            self._parents = find_parents()
            for parent in self._parents.values():
                _sweep(parent.path)
        return self._parents

    def memory_share(self) -> int:
        """A share of the memory that we may use ourselves; 0 where no cgroup can limit it."""
        if self._share is None:
            parent = self.parents().get("memory")
            self._share = share_of_machine(_read_limit(parent)) if parent else 0
        return self._share

    @contextmanager
    def enter(self, limits: ProcessLimits) -> Generator[Cgroup]:
        made = self.make(limits)
        try:
            yield made
        finally:  # nobody has to wait for the kernel to remove it, nor to make the next
            self._stale += made.folders
            asyncio.get_running_loop().call_soon(self._prepare, limits)

    def discard(self, made: Cgroup) -> None:
        self._stale += made.folders
        self._remove_stale()

    def close(self) -> bool:
        """Removes what is empty; false when processes in one are still dying and it must be tried again."""
        self._is_closed = True
        self._drop_next()
        return self._remove_stale()

    def make(self, limits: ProcessLimits) -> Cgroup:
        if self._next and self._next[0] == limits and all(map(_is_kept, self._next[1].folders)):
            made, self._next = self._next[1], None
            return made
        return self._made(limits)

    def _prepare(self, limits: ProcessLimits) -> None:
        """Whoever runs commands mostly runs them within the same limits."""
        self._drop_next()
        self._remove_stale()
        self._share = None
        if not self._is_closed:
            self._next = limits, self._made(limits)
            self.memory_share()

    def _drop_next(self) -> None:
        if self._next:
            self._stale += self._next[1].folders
            self._next = None

    def _remove_stale(self) -> bool:
        self._stale = [folder for folder in self._stale if not _remove(folder)]
        return not self._stale

    def _made(self, limits: ProcessLimits) -> Cgroup:
        wanted = {"memory": limits.memory_bytes, "pids": limits.processes}
        name = f"mainspring-{secrets.token_hex(6)}"
        by_kind: dict[str, tuple[Path, int]] = {}
        for kind, value in wanted.items():
            parent = self.parents().get(kind)
            if parent is None or value <= 0:
                continue
            folder = parent.path / name
            try:
                with suppress(FileExistsError):  # both kinds in one of version 2
                    os.mkdir(folder)  # noqa: PTH102 - with every command, as what follows
                _write(f"{folder}/{MAX_FILES[kind, parent.version]}", str(value))
                _forbid_swap(folder)
            except OSError:
                # Allowed a moment ago and not now: the rlimits stand in.
                _remove(folder)
                continue
            by_kind[kind] = (folder, parent.version)
        return Cgroup(by_kind)


def find_parents() -> dict[str, Parent]:
    found: dict[str, Parent] = {}
    for kind in ("memory", "pids"):
        for parent in _candidates(kind):
            if _can_make(parent, kind):
                found[kind] = parent
                break
    return found


def _candidates(kind: str) -> Sequence[Parent]:
    """Our own cgroup, and for version 2 the ones above it: a cgroup with processes cannot share out."""
    own = dict(_own_cgroups())
    places: list[Parent] = []
    for mount, controllers, version in _mounts():
        if version == 1 and kind in controllers and kind in own:
            places.append(Parent(_below(mount, own[kind]), 1))
        elif version == 2 and "" in own:
            here = _below(mount, own[""])
            above = [folder for folder in (here, *here.parents) if folder.is_relative_to(mount)]
            places += [Parent(folder, 2) for folder in above]
    return places


def _can_make(parent: Parent, kind: str) -> bool:
    try:
        if parent.version == 2 and kind not in (parent.path / "cgroup.subtree_control").read_text().split():
            return False
        trial = parent.path / f"mainspring-{secrets.token_hex(6)}"
        trial.mkdir()
        is_limiting = (trial / MAX_FILES[kind, parent.version]).exists()
        trial.rmdir()
    except OSError:
        return False
    return is_limiting and os.access(parent.path / "cgroup.procs", os.W_OK)


def _own_cgroups() -> list[tuple[str, str]]:
    with suppress(OSError):
        lines = Path("/proc/self/cgroup").read_text().splitlines()
        split = [line.split(":", 2) for line in lines]
        return [(name, path) for _, names, path in split for name in names.split(",")]
    return []


def _mounts() -> list[tuple[Path, list[str], int]]:
    mounts: list[tuple[Path, list[str], int]] = []
    with suppress(OSError):
        for line in Path("/proc/self/mountinfo").read_text().splitlines():
            left, _, right = line.partition(" - ")
            kind, _, options = right.split(" ", 2)
            if kind in ("cgroup", "cgroup2"):
                mounts.append((Path(left.split()[4]), options.split(","), 2 if kind == "cgroup2" else 1))
    return mounts


def _below(mount: Path, path: str) -> Path:
    """Inside a container our path may be the host's view; the mount is then our own cgroup."""
    folder = mount / path.lstrip("/")
    return folder if folder.is_dir() else mount


def _forbid_swap(folder: Path) -> None:
    """What is over the limit must not move to the disk instead."""
    if os.access(swap := f"{folder}/memory.swap.max", os.F_OK):
        _write(swap, "0")


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def _count(path: Path, key: str) -> int:
    try:
        lines = text_of(str(path)).splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.split()[0] == key), 0)


def _read_limit(parent: Parent) -> int:
    with suppress(OSError, ValueError):
        return int(text_of(f"{parent.path}/{MAX_FILES['memory', parent.version]}"))
    return sys.maxsize


def _sweep(parent: Path) -> None:
    """Removes what a crash of ours left behind; a folder with processes in it cannot be removed."""
    with suppress(OSError):
        for folder in parent.glob("mainspring-*"):
            if time.time() - folder.stat().st_mtime > ABANDONED_S:
                _remove(folder)


def _is_kept(folder: Path) -> bool:
    """Whether a folder that has waited is there still, which then counts as new: see `_sweep`."""
    try:
        os.utime(folder)
    except OSError:
        return False
    return True


def _remove(folder: Path) -> bool:
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
