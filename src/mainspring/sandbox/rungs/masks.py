"""What lies over secrets in a sandbox of mounts, and what only root may read on this machine."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from mainspring.disk.scratch import ScratchFolder
from mainspring.sandbox.rungs.nodes import node_at


class Masks:
    """An unreadable file and folder to lay over secrets, and the list of what only root may read."""

    def __init__(self) -> None:
        self._scratch = ScratchFolder()
        self._folder = self._scratch.path
        self._file = self._folder / "file"
        self._file.touch(mode=0)
        self._empty = self._folder / "folder"
        self._empty.mkdir(mode=0)
        self.nodes = {node_at(self._file), node_at(self._empty)}
        self.for_root_alone = tuple(root_only()) if os.geteuid() == 0 else ()

    def for_path(self, path: Path) -> Path:
        return self._empty if path.is_dir() else self._file

    def socket(self, number: int) -> Path:
        return self._folder / f"proxy-{number}"

    def close(self) -> None:
        self._scratch.close()


def root_only() -> Iterable[Path]:
    """What the system lets nobody but root read; root outside is still its owner inside."""
    for folder in (
        Path("/etc"),
        Path("/var/lib"),
        Path("/var/log"),
        Path("/var/spool"),
        Path("/var/backups"),
    ):
        yield from _closed_below(folder, depth=3 if folder.name == "etc" else 1)


def _closed_below(folder: Path, depth: int) -> Iterable[Path]:
    with suppress(OSError):
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
            if entry.is_symlink():
                continue
            mode = entry.stat().st_mode
            if not mode & stat.S_IROTH and _holds_something(entry, mode):
                yield Path(entry.path)
            elif stat.S_ISDIR(mode) and depth > 1:
                yield from _closed_below(Path(entry.path), depth - 1)


def _holds_something(entry: os.DirEntry[str], mode: int) -> bool:
    if stat.S_ISDIR(mode):
        return bool(os.listdir(entry.path))
    return stat.S_ISREG(mode) and entry.stat().st_size > 0
