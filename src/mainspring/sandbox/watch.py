"""What changed in folders since the last look, told by the kernel (inotify), without scanning them.

Only the making, removing and renaming of entries counts, unless writes are asked for too. A folder is added
before it is listed, so whatever happens after the listing is told at the next look.
"""

from __future__ import annotations

import ctypes
import os
import struct

import msgspec

_CREATE, _DELETE, _MOVED_FROM, _MOVED_TO = 0x100, 0x200, 0x40, 0x80
_UNMOUNT, _OVERFLOW, _IGNORED, _IS_DIR = 0x2000, 0x4000, 0x8000, 0x40000000
_ONLY_DIR, _DONT_FOLLOW = 0x01000000, 0x02000000
_WANTED = _CREATE | _DELETE | _MOVED_FROM | _MOVED_TO | _ONLY_DIR | _DONT_FOLLOW
_WRITES = 0x2 | 0x4 | 0x8 | 0x400 | 0x800  # modified, status changed, closed after writing, gone, moved
_HEAD = struct.Struct("iIII")
_READ_SIZE = 256 * 1024


class Changes(msgspec.Struct):
    """`folders` have other entries than before; below `trees` all may be new. `is_all`: some were lost."""

    folders: set[str] = msgspec.field(default_factory=set[str])
    trees: set[str] = msgspec.field(default_factory=set[str])
    is_all: bool = False

    def __bool__(self) -> bool:
        return bool(self.folders or self.trees or self.is_all)


class FolderWatch:
    """Raises `OSError` when the kernel has no room for it."""

    def __init__(self, *, has_writes: bool = False) -> None:
        self._wanted = _WANTED | (_WRITES if has_writes else 0)
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            raise _error()
        self._paths: dict[int, str] = {}

    def add(self, path: str) -> None:
        """From here on changes in a folder are told under this path."""
        number = self._libc.inotify_add_watch(self._fd, os.fsencode(path), self._wanted)
        if number < 0:
            raise _error()
        self._paths[number] = path

    @property
    def count(self) -> int:
        return len(self._paths)

    def changes(self) -> Changes:
        """What happened since the last time."""
        found = Changes()
        while data := self._read():
            at = 0
            while at < len(data):
                number, mask, _, length = _HEAD.unpack_from(data, at)
                name = data[at + _HEAD.size : at + _HEAD.size + length].rstrip(b"\0")
                at += _HEAD.size + length
                self._note(found, number, mask, os.fsdecode(name))
        return found

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _note(self, found: Changes, number: int, mask: int, name: str) -> None:
        if mask & (_OVERFLOW | _UNMOUNT):
            found.is_all = True
        elif mask & _IGNORED:
            self._paths.pop(number, None)
        elif path := self._paths.get(number):
            found.folders.add(path)
            if mask & _IS_DIR:
                found.trees.add(f"{path}/{name}")

    def _read(self) -> bytes:
        try:
            return os.read(self._fd, _READ_SIZE)
        except BlockingIOError:
            return b""


def _error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
