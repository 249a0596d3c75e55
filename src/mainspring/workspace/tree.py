"""What a folder looked like, by stat alone, and how it looks now.

A name is listed again only when its folder changed, and every known file is asked for its status: 50,000
files cost about 130 ms, most of it in the kernel. Links are never followed, other file systems are not
entered, and heavy folders (dependencies, caches, git's own data) are known by their own status only. A
status so fresh that a later change might not show in it is looked at again next time.
"""

import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, KeysView
from pathlib import Path
from typing import Self

import msgspec

from mainspring.disk.scan import NEVER_NS, FolderListing, Scan, ScanProgress, open_folder, walk
from mainspring.disk.unfinished import is_unfinished

_HEAVY_NAMES = """
    .git .hg .svn .jj node_modules bower_components __pycache__ .tox .nox .gradle .terraform .next .nuxt
    .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis"""
HEAVY_NAMES = frozenset(_HEAVY_NAMES.split())
HEAVY_MARKS = frozenset({"CACHEDIR.TAG", "pyvenv.cfg"})
MAX_ENTRIES = 400_000

_TICK_NS = 20_000_000
_COARSE_TICK_NS = 2_000_000_000


class TreeEntry(msgspec.Struct, gc=False):
    """A path's status, and what is known about its content: `content` is a SHA-256, `reason` says why there
    is none. `is_fresh` means that it may change again without a trace."""

    ctime_ns: int
    mtime_ns: int
    size: int
    inode: int
    mode: int
    content: str = ""
    reason: str = ""
    is_fresh: bool = False

    def has_status_of(self, other: Self) -> bool:
        """The mode is not compared: changing it changes the time of the status."""
        return (
            self.ctime_ns == other.ctime_ns
            and self.mtime_ns == other.mtime_ns
            and self.size == other.size
            and self.inode == other.inode
        )

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.mode)

    @property
    def is_file(self) -> bool:
        return stat.S_ISREG(self.mode)

    @property
    def is_link(self) -> bool:
        return stat.S_ISLNK(self.mode)


NOT_TEXT = "its name is not text"


class Difference(msgspec.Struct, gc=False):
    """A path whose status is not what it was; None stands for nothing there."""

    path: str
    old: TreeEntry | None
    new: TreeEntry | None


class _Folder(msgspec.Struct):
    """What is known in a folder, and the listing that it was compared with last."""

    listing: FolderListing | None = None
    is_heavy: bool = False
    names: dict[str, TreeEntry] = {}


def entry_of(found: os.stat_result) -> TreeEntry:
    return TreeEntry(
        ctime_ns=found.st_ctime_ns,
        mtime_ns=found.st_mtime_ns,
        size=found.st_size,
        inode=found.st_ino,
        mode=found.st_mode,
        is_fresh=is_fresh(found.st_ctime_ns),
    )


def is_fresh(ctime_ns: int) -> bool:
    """Whether a change from now on may leave the same time behind: file systems count in ticks."""
    tick_ns = _COARSE_TICK_NS if ctime_ns % 1_000_000_000 == 0 else _TICK_NS
    return ctime_ns > time.time_ns() - tick_ns


class Tree:
    """Everything below `root`, by paths relative to it."""

    def __init__(
        self,
        root: Path,
        *,
        scan: Scan | None = None,
        left_out: tuple[Path, ...] = (),
        is_stopped: Callable[[], bool] = lambda: False,
        on_progress: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._root = os.fspath(root)
        self._scan = scan or Scan()
        below = f"{self._root.rstrip('/')}/"
        self._left_out = frozenset(
            str(path).removeprefix(below) for path in left_out if str(path).startswith(below)
        )
        self._is_stopped = is_stopped
        self._on_progress = on_progress
        self._folders: dict[str, _Folder] = {}
        self._device = 0
        self.count = 0

    def get(self, path: str) -> TreeEntry | None:
        above, _, name = path.rpartition("/")
        folder = self._folders.get(above)
        return folder.names.get(name) if folder else None

    def set(self, path: str, entry: TreeEntry | None) -> None:
        """Takes over what was known before this process; the next look checks it."""
        if path in self._left_out:
            return
        above, _, name = path.rpartition("/")
        folder = self._folders.setdefault(above, _Folder())
        if entry is not None:
            self.count += name not in folder.names
            folder.names[name] = entry
        elif folder.names.pop(name, None) is not None:
            self.count -= 1

    def entries(self) -> Iterator[tuple[str, TreeEntry]]:
        for above, folder in self._folders.items():
            for name, entry in folder.names.items():
                yield f"{above}/{name}" if above else name, entry

    def look(
        self, *, since_ns: int = NEVER_NS, on_folder: Callable[[str], None] = lambda _: None
    ) -> list[Difference]:
        """Looks again, and tells of each folder before it is looked into. What is only fresh is given with
        its old entry as both states. Names that somebody read since then are taken over, although they may
        have changed within a tick (see `Scan.read`).
        """
        found: list[Difference] = []
        progress = ScanProgress(self._on_progress, "looking at the workspace")
        try:
            self._device = os.lstat(self._root).st_dev
        except OSError:
            self._forget("", found)
            return found

        def enter(path: str) -> list[str]:
            on_folder(whole := f"{self._root}/{path}")
            try:
                fd = open_folder(whole)
                try:
                    listing = self._scan.read(fd, since_ns=since_ns)
                    progress.add(len(listing.inodes))
                    return self._look_into(fd, path, listing, found)
                finally:
                    os.close(fd)
            except OSError:
                # It went away or closed itself while we looked; what was in it is gone for us.
                self._forget(path, found)
                return []

        walk([""], enter, is_over=self._is_stopped)
        return found

    def _look_into(self, fd: int, path: str, listing: FolderListing, found: list[Difference]) -> list[str]:
        """Compares what is in a folder, and gives the folders in it that are to be entered."""
        folder = self._folders.setdefault(path, _Folder())
        above = f"{path}/" if path else ""
        added: Iterable[str] = ()
        if listing is not folder.listing:
            folder.listing = listing
            added = self._compare_names(path, folder, listing.names, found)
        if folder.is_heavy:
            return []
        todo: list[str] = []
        self._compare_status(fd, above, folder, found, todo)
        for name in added:
            try:
                status = os.lstat(name, dir_fd=fd)
            except OSError:
                continue
            self._add(above + name, folder, name, entry_of(status), found)
            if stat.S_ISDIR(status.st_mode) and not _is_closed(name, status, self._device):
                todo.append(above + name)
        return todo

    def _compare_names(
        self, path: str, folder: _Folder, names: KeysView[str], found: list[Difference]
    ) -> Iterable[str]:
        """Takes out what is gone from a folder, and gives the names that are new."""
        folder.is_heavy = bool(path) and (
            not HEAVY_MARKS.isdisjoint(names) or self.count + len(names) > MAX_ENTRIES
        )
        if folder.is_heavy:
            self._drop_names(path, folder)
            if entry := self.get(path):
                entry.reason = heavy_reason("CACHEDIR.TAG" if HEAVY_MARKS & names else "")
            return ()
        above = f"{path}/" if path else ""
        for name in folder.names.keys() - names:
            self._remove(above + name, folder, name, found)
        new = names - folder.names.keys()
        return [name for name in new if above + name not in self._left_out and not is_unfinished(name)]

    def _compare_status(
        self, fd: int, above: str, folder: _Folder, found: list[Difference], todo: list[str]
    ) -> None:
        """Compares the status of every known name in a folder."""
        status_of = os.lstat
        gone: list[str] = []
        changed: list[tuple[str, os.stat_result]] = []
        for name, entry in folder.names.items():
            try:
                now = status_of(name, dir_fd=fd)
            except OSError:
                gone.append(name)
                continue
            # The mode is not compared: changing it changes the time of the status.
            if (
                now.st_ctime_ns != entry.ctime_ns
                or now.st_mtime_ns != entry.mtime_ns
                or now.st_ino != entry.inode
                or now.st_size != entry.size
            ):
                changed.append((name, now))
            elif entry.is_fresh:
                found.append(Difference(above + name, entry, entry))
            if stat.S_ISDIR(now.st_mode) and not _is_closed(name, now, self._device):
                todo.append(above + name)
        for name in gone:
            self._remove(above + name, folder, name, found)
        for name, now in changed:
            self._change(above + name, folder, name, entry_of(now), found)

    def _add(self, path: str, folder: _Folder, name: str, entry: TreeEntry, found: list[Difference]) -> None:
        folder.names[name] = entry
        self.count += 1
        if not is_text(name):
            entry.reason = NOT_TEXT
        elif entry.is_folder and name in HEAVY_NAMES:
            entry.reason = heavy_reason(name)
        found.append(Difference(path, None, entry))

    def _change(self, path: str, folder: _Folder, name: str, new: TreeEntry, found: list[Difference]) -> None:
        old = folder.names[name]
        if old.is_folder and not new.is_folder:
            self._forget(path, found)
        folder.names[name] = new
        if new.is_folder and old.is_folder:
            new.reason = old.reason
            if new.mode == old.mode and not new.reason:
                return  # only its list of names changed
        found.append(Difference(path, old, new))

    def _remove(self, path: str, folder: _Folder, name: str, found: list[Difference]) -> None:
        old = folder.names.pop(name)
        self.count -= 1
        if old.is_folder:
            self._forget(path, found)
        found.append(Difference(path, old, None))

    def _forget(self, path: str, found: list[Difference]) -> None:
        """Everything below a folder is gone."""
        folder = self._folders.pop(path, None)
        if folder is None:
            return
        above = f"{path}/" if path else ""
        for name in list(folder.names):
            self._remove(above + name, folder, name, found)

    def _drop_names(self, path: str, folder: _Folder) -> None:
        """A folder turned out to be heavy: what was known below it is neither there nor gone."""
        for name, entry in folder.names.items():
            self.count -= 1
            below = self._folders.pop(f"{path}/{name}", None) if entry.is_folder else None
            if below is not None:
                self._drop_names(f"{path}/{name}", below)
        folder.names = {}


def heavy_reason(name: str) -> str:
    if name in (".git", ".hg", ".svn", ".jj"):
        return "the version control's own data"
    return "a folder of dependencies or a cache" if name else "too many files"


def _is_closed(name: str, status: os.stat_result, device: int) -> bool:
    """Whether a folder is not entered: it is heavy by its name, or another file system, or has no name that
    could be written down."""
    return name in HEAVY_NAMES or status.st_dev != device or not is_text(name)


def is_text(name: str) -> bool:
    """Whether a name can be written into a journal; a file system takes any bytes."""
    if name.isascii():
        return True
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
