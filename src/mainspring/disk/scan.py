"""Reads folders once for all who look at a workspace: time machine, search for protected paths, file tools.

A listing is used again only while the folder itself says that nothing changed: same times of status and
content, and both so old when it was read that a later change must show in them (file systems count in ticks).
So a reader never relies on when another one looked; at worst a folder is read again.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, KeysView
from typing import TypeVar

import msgspec

MAX_LISTINGS = 100_000
SETTLED_NS = 1_000_000_000
_COARSE_SETTLED_NS = 2_000_000_000
NEVER_NS = 1 << 63
_LONG_S = 1.0
_SELDOM_S = 10.0

T = TypeVar("T")

_FOLDER = 0 if sys.platform == "win32" else os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class FolderListing(msgspec.Struct, frozen=True):
    """The names in a folder, with their inodes, when it had these times. Links to folders are links."""

    mtime_ns: int
    ctime_ns: int
    read_ns: int
    is_settled: bool
    inodes: dict[str, int]
    folders: frozenset[str]
    links: frozenset[str]

    @property
    def names(self) -> KeysView[str]:
        return self.inodes.keys()


class Scan:
    """The listings that are known, by device and inode: a path may lead elsewhere a moment later. Whoever
    shows what takes long sets `on_progress`; it is told from the thread that looks."""

    def __init__(self) -> None:
        self.on_progress: Callable[[str], None] = lambda _: None
        self._known: dict[tuple[int, int], FolderListing] = {}
        self._lock = threading.Lock()

    def read(self, folder: int, *, since_ns: int = NEVER_NS) -> FolderListing:
        """What is in an open folder; the same object as long as nothing changed. A listing that is too young
        to show a change made in the same tick serves only who is content with one read since then."""
        with self._lock:
            status = os.fstat(folder)
            if known := self._current(status, since_ns):
                return known
            if len(self._known) >= MAX_LISTINGS:
                self._known.clear()
            listing = self._known[status.st_dev, status.st_ino] = _listed(folder, status)
            return listing

    def read_path(self, path: str) -> FolderListing:
        """As above, by a path, which is opened only when the folder must be read."""
        if known := self._current(os.lstat(path), NEVER_NS):
            return known
        fd = open_folder(path)
        try:
            return self.read(fd)
        finally:
            os.close(fd)

    def _current(self, status: os.stat_result, since_ns: int) -> FolderListing | None:
        known = self._known.get((status.st_dev, status.st_ino))
        if (
            known is not None
            and known.mtime_ns == status.st_mtime_ns
            and known.ctime_ns == status.st_ctime_ns
            and (known.is_settled or known.read_ns >= since_ns)
        ):
            return known
        return None


class ScanProgress:
    """Says how far a look is: after a second, and then less and less often."""

    def __init__(self, tell: Callable[[str], None], doing: str, total: int = 0) -> None:
        self._tell, self._doing = tell, doing
        self._of = f" of {total:,}" if total else ""
        self._count, self._pause_s = 0, _LONG_S
        self._next_s = time.monotonic() + _LONG_S

    def add(self, files: int = 1) -> None:
        self._count += files
        if (now_s := time.monotonic()) >= self._next_s:
            self._pause_s = min(2 * self._pause_s, _SELDOM_S)
            self._next_s = now_s + self._pause_s
            self._tell(f"{self._doing}: {self._count:,}{self._of} files")


def open_folder(path: str) -> int:
    """A descriptor of a folder; a link in its place is an `OSError`."""
    return os.open(path, os.O_RDONLY | _FOLDER)


def walk(roots: Iterable[T], enter: Callable[[T], Iterable[T]], *, is_over: Callable[[], bool]) -> None:
    """Enters folders from the roots down. `enter` gives the folders below one that are to be entered."""
    waiting = list(roots)
    while waiting and not is_over():
        waiting += enter(waiting.pop())


def is_settled(status: os.stat_result, now_ns: int) -> bool:
    """Whether a change from now on must show in the times of a file or folder."""
    is_coarse = status.st_ctime_ns % 1_000_000_000 == 0
    settled_ns = _COARSE_SETTLED_NS if is_coarse else SETTLED_NS
    return max(status.st_ctime_ns, status.st_mtime_ns) < now_ns - settled_ns


def _listed(folder: int, status: os.stat_result) -> FolderListing:
    # The times from before the reading: a name that comes meanwhile changes them again.
    read_ns = time.time_ns()
    inodes: dict[str, int] = {}
    folders: list[str] = []
    links: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            inodes[entry.name] = entry.inode()
            if entry.is_symlink():
                links.append(entry.name)
            elif entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
    return FolderListing(
        mtime_ns=status.st_mtime_ns,
        ctime_ns=status.st_ctime_ns,
        read_ns=read_ns,
        is_settled=is_settled(status, read_ns),
        inodes=inodes,
        folders=frozenset(folders),
        links=frozenset(links),
    )
