"""What stands at a path, and which of many paths are there, for who asks before every command."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from mainspring.disk.scan import is_settled

Node = tuple[int, int]


def node_at(path: str | Path, *, dir_fd: int | None = None) -> Node | None:
    """What a path leads to, or nothing."""
    try:
        found = os.stat(path, dir_fd=dir_fd)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def sole_node_at(path: str | Path, *, dir_fd: int | None = None) -> Node | None:
    """The same, but nothing for a file with more than one name: a mount goes with the name it was laid on,
    and the number of the file does not tell which that is."""
    try:
        found = os.stat(path, dir_fd=dir_fd)
    except OSError:
        return None
    return None if found.st_nlink > 1 and not stat.S_ISDIR(found.st_mode) else (found.st_dev, found.st_ino)


class KnownPaths:
    """Most of them are never there: a folder whose times prove that nothing came is asked instead of each."""

    def __init__(self) -> None:
        self._paths: tuple[Path, ...] = ()
        self._folders: list[_Folder] = []

    def nodes(self, paths: Iterable[Path]) -> list[tuple[Path, Node]]:
        """Those that are there now, by where they lead."""
        if (asked := tuple(paths)) != self._paths:
            by_folder: dict[str, list[Path]] = {}
            for path in dict.fromkeys(asked):
                by_folder.setdefault(os.path.dirname(path), []).append(path)  # noqa: PTH120 - of a hundred
            self._paths, self._folders = asked, [_Folder(*each) for each in by_folder.items()]
        return [each for folder in self._folders for each in folder.nodes()]


class _Folder:
    def __init__(self, name: str, paths: Sequence[Path]) -> None:
        self._name = name
        self._paths = paths
        self._there: Sequence[Path] = ()
        self._known_at: tuple[int, ...] = ()

    def nodes(self) -> list[tuple[Path, Node]]:
        if not os.access(self._name, os.F_OK):  # an exception costs more than a question
            return []
        try:
            status = os.stat(self._name)  # noqa: PTH116 - of dozens
        except OSError:
            return []
        times = (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns)
        if times != self._known_at:
            # A link is there even while what it leads to is not.
            self._there = [path for path in self._paths if os.path.lexists(path)]
            self._known_at = times if is_settled(status, time.time_ns()) else ()
        if not self._there:
            return []
        folder = os.path.realpath(self._name)
        leading = (_real(path, folder) for path in self._there)
        return [(path, node) for path in leading if (node := node_at(path))]


def _real(path: Path, folder: str) -> Path:
    """Where a path in a folder leads, of which the real one is known."""
    is_link = os.path.islink(path)  # noqa: PTH114 - a closed folder must not make it raise
    return Path(os.path.realpath(path)) if is_link else Path(folder, path.name)
