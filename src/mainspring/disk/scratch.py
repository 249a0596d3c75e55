"""Folders for a while, under the system's temporary folder.

They are gone when they are closed or, when their process was killed first, as soon as another process makes
one. Each is locked by its process, so a lock that can be had says that its folder was left behind. What is
swept is a real folder of this user with a name of ours, and not the TMPDIR of a command that still runs.
Older versions locked none: theirs are swept when nothing changed in them for a day and nobody works in them.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from mainspring import system
from mainspring.disk.files import closing_descriptor
from mainspring.patterns import lazy_pattern

PREFIX = "mainspring-run-"
_NAME = lazy_pattern(re.escape(PREFIX) + r"[a-z0-9_]{8}")
_OLDER_NAME = lazy_pattern(r"mainspring-[a-z0-9_]{8}")
_OLD_S = 24 * 3600
_CARE = 0 if sys.platform == "win32" else os.O_CLOEXEC | os.O_DIRECTORY | os.O_NOFOLLOW


class ScratchFolder:
    """A private folder of this process, at `path`."""

    _is_swept = False

    def __init__(self) -> None:
        if not ScratchFolder._is_swept:
            ScratchFolder._is_swept = True
            sweep(Path(tempfile.gettempdir()))
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
            with suppress(FileNotFoundError):  # swept in the moment before it was opened, or locked
                self._lock = os.open(self.path, os.O_RDONLY | _CARE)
                is_locked = not system.this_system().has_locks or system.try_lock(self._lock)
                if is_locked and os.fstat(self._lock).st_nlink:
                    return
                os.close(self._lock)

    def close(self) -> None:
        if self._lock >= 0:
            remove(self.path)
            os.close(self._lock)
            self._lock = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def sweep(parent: Path) -> None:
    """Removes the folders that killed processes of this user left."""
    for folder in left_behind(parent):
        remove(folder)


def left_behind(parent: Path) -> Iterator[Path]:
    """The folders that killed processes of this user left; nobody else removes one while it is looked at."""
    if not system.this_system().has_locks:
        return
    with suppress(OSError):
        for name in os.listdir(parent):
            if _NAME.fullmatch(name) or _OLDER_NAME.fullmatch(name):
                with suppress(OSError):
                    yield from _left(parent / name)


def remove(folder: Path) -> None:
    """Removes a folder with all that is in it, also what its owner may not read."""

    def open_up(_: Any, path: str, __: Any) -> None:
        with suppress(OSError):
            if stat.S_ISDIR(os.lstat(path).st_mode):
                os.chmod(path, 0o700)  # noqa: PTH101 - quick
                shutil.rmtree(path, ignore_errors=True)

    shutil.rmtree(folder, onerror=open_up)  # pyright: ignore[reportDeprecated] - `onexc` came with 3.12


def _left(folder: Path) -> Iterator[Path]:
    with closing_descriptor(os.open(folder, os.O_RDONLY | _CARE)) as lock:
        found = os.fstat(lock)
        is_old = bool(_NAME.fullmatch(folder.name)) or _is_old(found, folder)
        if found.st_uid == os.geteuid() and is_old and system.try_lock(lock) and not _is_in_use(folder):
            yield folder


def _is_old(found: os.stat_result, folder: Path) -> bool:
    """Whether nothing came or went in a private folder for a day, nor in those right below it."""
    times = [found.st_mtime, *(each.lstat().st_mtime for each in folder.iterdir())]
    return stat.S_IMODE(found.st_mode) == 0o700 and max(times) < time.time() - _OLD_S


def _is_in_use(folder: Path) -> bool:
    """Whether a command has it as its TMPDIR or works in it; one in the background may outlive us."""
    wanted = b"\0TMPDIR=" + os.fsencode(folder) + b"\0"
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if wanted in b"\0" + (process / "environ").read_bytes():
                return True
            if (process / "cwd").readlink().is_relative_to(folder.resolve()):
                return True
    return False
