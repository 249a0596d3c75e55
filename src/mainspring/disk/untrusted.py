"""Reads files that a repository, or anybody else, may have put there: as data, whatever they really are.

Regular files only; a pipe, socket or device is never waited for. No more is read than was asked for. With a
`root`, a path below it must not lead out of it by a link. What is refused is an `OSError` whose `strerror`
ends the sentence "FILE cannot be read: ...".
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

if sys.platform == "win32":
    _FLAGS = _STEP = os.O_RDONLY | getattr(os, "O_BINARY", 0)
else:
    _FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC
    _STEP = (os.O_PATH if sys.platform == "linux" else os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW
_MIB = 1 << 20


def read_untrusted(path: Path, *, max_bytes: int, root: Path | None = None) -> bytes:
    """The whole content; a file that has more bytes is refused."""
    data = read_start(path, max_bytes=max_bytes + 1, root=root)
    if len(data) > max_bytes:
        size = f"{max_bytes // _MIB} MiB" if max_bytes >= _MIB else f"{max_bytes:,} bytes"
        raise OSError(errno.EFBIG, f"it is larger than {size}", str(path))
    return data


def read_untrusted_text(path: Path, *, max_bytes: int, root: Path | None = None) -> str:
    """The same as text in UTF-8; what is none is refused."""
    try:
        return read_untrusted(path, max_bytes=max_bytes, root=root).decode("utf-8")
    except UnicodeDecodeError as error:
        raise OSError(errno.EILSEQ, "it is not UTF-8 text", str(path)) from error


def read_start(path: Path, *, max_bytes: int, root: Path | None = None) -> bytes:
    """The content up to a number of bytes."""
    with open_untrusted(path, root=root) as file:
        return file.read(max_bytes)


def read_untrusted_lines(path: Path, *, max_line_bytes: int) -> Iterator[bytes]:
    """The lines of a file of any size; a line that is longer than this is refused."""
    with open_untrusted(path) as file:
        while line := file.readline(max_line_bytes + 1):
            if len(line) > max_line_bytes:
                raise OSError(
                    errno.EFBIG, f"it has a line of more than {max_line_bytes // _MIB} MiB", str(path)
                )
            yield line


@contextmanager
def open_untrusted(path: Path, *, root: Path | None = None) -> Generator[BufferedReader]:
    """A file for who reads it in parts, and bounds them."""
    real = Path(os.path.realpath(path, strict=True))
    if root is not None and _leads_out(path, real, root):
        raise OSError(errno.EXDEV, f"it is a link that leads out of {root.absolute()}", str(path))
    # A device may do something when it is opened, so it is looked at first, and again when it is open.
    _check_kind(real.lstat(), path)
    try:
        descriptor = open_resolved(real, _FLAGS)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error  # its own names one step of the path
    with os.fdopen(descriptor, "rb") as file:
        _check_kind(os.fstat(file.fileno()), path)
        yield file


def open_resolved(real: Path, flags: int) -> int:
    """Opens a resolved path step by step; a link in it came after it was resolved, and is refused."""
    if sys.platform == "win32":
        return os.open(real, flags)
    current = os.open("/", _STEP)
    try:
        for name in real.parts[1:-1]:
            below = os.open(name, _STEP, dir_fd=current)
            os.close(current)
            current = below
        return os.open(real.name or ".", flags, dir_fd=current)
    finally:
        os.close(current)


def _leads_out(path: Path, real: Path, root: Path) -> bool:
    """A path that was not below the root to begin with was named by a person, and may lead anywhere."""
    is_below = Path(os.path.abspath(path)).is_relative_to(os.path.abspath(root))  # noqa: PTH100 - links stay
    return is_below and not real.is_relative_to(os.path.realpath(root))


def _check_kind(found: os.stat_result, path: Path) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder", str(path))
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is a pipe, socket or device, not a file", str(path))
