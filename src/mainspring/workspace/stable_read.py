"""Reads a file so that what was read is one state of it, never a mixture of two."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable

from mainspring.workspace.tree import TreeEntry, entry_of, is_fresh

_ATTEMPTS = 3
_PART_BYTES = 1 << 20


def read_link(path: str) -> bytes:
    """Where a link points; `OSError` when it is none (any more)."""
    return os.fsencode(os.readlink(path))  # noqa: PTH115 - bytes, as they stand


def read_file(path: str, entry: TreeEntry, *, max_bytes: int) -> tuple[bytes | None, TreeEntry, str]:
    """The content with the status it had all the while it was read, or why there is none. The entry is the
    given one when that is its status."""
    for _ in range(_ATTEMPTS):
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            return None, entry, f"it cannot be read: {error.strerror}"
        try:
            before = os.fstat(fd)
            if not stat.S_ISREG(before.st_mode):
                return None, entry, "it changed while it was read"
            if before.st_size > max_bytes:
                return None, entry_of(before), too_large(max_bytes)
            data = _read(fd, before.st_size)
            # A long write moves the time only when it begins, so a fresh file is read twice.
            is_steady = not is_fresh(before.st_ctime_ns) or _read(fd, before.st_size) == data
            after = os.fstat(fd)
        except OSError as error:
            return None, entry, f"it cannot be read: {error.strerror}"
        finally:
            os.close(fd)
        moment = _moment(after)
        if is_steady and _moment(before) == moment and len(data) == after.st_size:
            is_known = moment == (entry.ctime_ns, entry.mtime_ns, entry.size, entry.inode)
            return data, entry if is_known and not entry.is_fresh else entry_of(after), ""
    return None, entry, "it changed while it was read"


def hash_file(path: str, entry: TreeEntry, *, is_stopped: Callable[[], bool]) -> tuple[str, TreeEntry, str]:
    """The SHA-256 of a file of any size with the status it had all the while, or why there is none."""
    for _ in range(_ATTEMPTS):
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            return "", entry, f"it cannot be read: {error.strerror}"
        try:
            before = os.fstat(fd)
            if not stat.S_ISREG(before.st_mode):
                break
            # What is appended meanwhile is not waited for.
            hashing, left = hashlib.sha256(), before.st_size
            while left > 0 and not is_stopped() and (part := os.read(fd, min(left, _PART_BYTES))):
                hashing.update(part)
                left -= len(part)
            after = os.fstat(fd)
        except OSError as error:
            return "", entry, f"it cannot be read: {error.strerror}"
        finally:
            os.close(fd)
        if not left and _moment(before) == _moment(after):
            return hashing.hexdigest(), entry_of(after), ""
    return "", entry, "it changed while it was read"


def too_large(max_bytes: int) -> str:
    return f"it is larger than {max_bytes / 1_000_000:.0f} MB"


def object_id(data: bytes, *, like: str) -> str:
    """The name that git gives to this content, by the kind of hash that `like` has."""
    hashing = hashlib.sha256() if len(like) == 64 else hashlib.sha1(usedforsecurity=False)
    hashing.update(b"blob %d\0" % len(data))
    hashing.update(data)
    return hashing.hexdigest()


def _read(fd: int, size: int) -> bytes:
    """The first bytes of a file; whoever asks compares its size afterwards."""
    data = os.pread(fd, size, 0) if size else b""
    while len(data) < size and (part := os.pread(fd, size - len(data), len(data))):
        data += part
    return data


def _moment(found: os.stat_result) -> tuple[int, int, int, int]:
    return found.st_ctime_ns, found.st_mtime_ns, found.st_size, found.st_ino
