"""File access for tools under the same policy as commands; synchronous, meant for a thread.

A path is resolved first, judged by the policy, and then opened without following any symbolic link, so
what was judged is what is opened. Only regular files are read or written; a write replaces the file in
one step and keeps its mode and owner. A refusal is a `PathRefused`; other trouble is an `OSError`.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from mainspring.disk.scan import Scan
from mainspring.disk.unfinished import unfinished_name
from mainspring.disk.untrusted import open_resolved
from mainspring.errors import PathRefused
from mainspring.sandbox.custody.kernel import syscall
from mainspring.sandbox.policy import Confinement

SYS_OPENAT2 = 437
RESOLVE_NO_MAGICLINKS = 0x02
RESOLVE_NO_SYMLINKS = 0x04
NEVER_FILES = (Path("/proc"), Path("/sys"), Path("/dev"))
READ_SIZE = 1 << 20


class Version(msgspec.Struct, frozen=True):
    """Tells whether a file is still the one that was read."""

    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int


class Content(msgspec.Struct, frozen=True):
    """`data` may be a part of the file; `size` is the whole."""

    path: Path
    data: bytes
    size: int
    mode: int
    version: Version


class FolderEntry(msgspec.Struct, frozen=True):
    name: str
    is_dir: bool
    is_link: bool


class Files:
    """Paths given to it may be relative to the workspace."""

    def __init__(self, policy: Confinement, scan: Scan | None = None) -> None:
        self.policy = policy
        self.scan = scan or Scan()

    def resolve(self, path: str | Path) -> Path:
        """The real path, symbolic links followed; it need not exist."""
        text = os.fspath(path)
        if not text or "\0" in text:
            raise PathRefused("A path must not be empty or hold a NUL byte.")
        try:
            return Path(os.path.realpath(self.policy.workspace / text))
        except OSError as error:
            raise PathRefused(f"`{text[:200]}` is not a usable path: {error.strerror}.") from error

    def read(self, path: str | Path, *, offset: int = 0, max_bytes: int = 1 << 30) -> Content:
        real = self._readable(path)
        with _opened(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY) as fd:
            found = os.fstat(fd)
            self._check_kind(real, found)
            os.lseek(fd, offset, os.SEEK_SET)
            data = _read_up_to(fd, max_bytes)
        return Content(real, data, found.st_size, stat.S_IMODE(found.st_mode), _version(found))

    def version(self, path: str | Path) -> Version | None:
        """What a path leads to now, of whatever kind; None when there is nothing. It is not opened."""
        try:
            return _version(self._readable(path).lstat())
        except (FileNotFoundError, NotADirectoryError):
            return None

    def entries(self, path: str | Path = ".") -> list[FolderEntry]:
        """A folder's entries by name; hidden ones are left out."""
        real = self._readable(path)
        with _opened(real, os.O_RDONLY | os.O_DIRECTORY) as fd:
            found = self.scan.read(fd)
        return [
            FolderEntry(name, name in found.folders or (is_link and (real / name).is_dir()), is_link)
            for name in sorted(found.names)
            if not self.policy.refuses_read(real / name)
            for is_link in (name in found.links,)
        ]

    def write(
        self,
        path: str | Path,
        data: bytes,
        *,
        unchanged_since: Version | None = None,
        mode: int | None = None,
        is_new: bool = False,
    ) -> Version:
        """Creates or replaces a file, with the folders above it. Refuses when it is not the given version, or
        is there although it should be new. A file that is replaced keeps its mode; a new one gets this, or
        the usual one."""
        real = self.writable(path)
        with self._folder(real.parent) as folder:

            def check() -> os.stat_result | None:
                old = _lstat(real.name, folder)
                self._check_replaceable(real, old, unchanged_since)
                if is_new and old is not None:
                    raise PathRefused(f"`{path}` was created meanwhile. Read it first.")
                return old

            return _replace(folder, real.name, data, check, mode)

    def remove(self, path: str | Path, *, unchanged_since: Version | None = None) -> None:
        real = self.writable(path)
        with _opened(real.parent, os.O_RDONLY | os.O_DIRECTORY) as folder:
            old = _lstat(real.name, folder)
            if old is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(real))
            self._check_replaceable(real, old, unchanged_since)
            os.unlink(real.name, dir_fd=folder)

    def writable(self, path: str | Path) -> Path:
        """The real path of one that may be written; raises when it may not."""
        real = self.resolve(path)
        if real == self.policy.workspace or real == real.parent:
            raise PathRefused(f"`{path}` is a folder.")
        why = self.policy.refuses_write(real) or _pseudo(real)
        if why:
            raise PathRefused(f"`{path}` may not be written: {why}.")
        return real

    def _readable(self, path: str | Path) -> Path:
        real = self.resolve(path)
        why = self.policy.refuses_read(real) or _pseudo(real)
        if why:
            raise PathRefused(f"`{path}` may not be read: {why}.")
        return real

    def _check_kind(self, real: Path, found: os.stat_result) -> None:
        if stat.S_ISDIR(found.st_mode):
            raise PathRefused(f"`{real}` is a folder.")
        if not stat.S_ISREG(found.st_mode):
            raise PathRefused(f"`{real}` is a pipe, socket or device, not a file.")
        # As root we could read what the system keeps from everybody.
        is_ours = any(real.is_relative_to(root) for root in (self.policy.workspace, *self.policy.readable))
        is_for_root = os.geteuid() == 0 and not found.st_mode & stat.S_IROTH and found.st_uid == 0
        if is_for_root and not is_ours and real.is_relative_to("/etc"):
            raise PathRefused(f"`{real}` may not be read: only the administrator may.")

    def _check_replaceable(self, real: Path, old: os.stat_result | None, wanted: Version | None) -> None:
        if old is None:
            if wanted is not None:
                raise PathRefused(f"`{real}` was removed after it was read. Read it again.")
            return
        self._check_kind(real, old)
        if wanted is not None and _version(old) != wanted:
            raise PathRefused(f"`{real}` changed after it was read. Read it again.")
        if not old.st_mode & stat.S_IWUSR:
            raise PathRefused(f"`{real}` is marked read-only (mode {stat.S_IMODE(old.st_mode):04o}).")

    @contextmanager
    def _folder(self, real: Path) -> Generator[int]:
        """A descriptor of the folder, made if it is missing, never through a symbolic link."""
        missing: list[str] = []
        while not real.exists():
            missing.append(real.name)
            real = real.parent
        with _opened(real, os.O_RDONLY | os.O_DIRECTORY) as first:
            current = os.dup(first)
        try:
            for name in reversed(missing):
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=current)
                below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=current)
                os.close(current)
                current = below
            yield current
        finally:
            os.close(current)


class _OpenHow(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64)]


@contextmanager
def _opened(real: Path, flags: int) -> Generator[int]:
    """Opens a resolved path; a symbolic link anywhere in it appeared after it was judged."""
    try:
        fd = _open_without_links(real, flags | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise PathRefused(f"`{real}` was replaced by a symbolic link while it was opened.") from error
        if error.errno == errno.ENXIO:
            raise PathRefused(f"`{real}` is a pipe, socket or device, not a file.") from error
        raise OSError(error.errno, os.strerror(error.errno or 0), str(real)) from error
    try:
        yield fd
    finally:
        os.close(fd)


def _open_without_links(real: Path, flags: int) -> int:
    how = _OpenHow(flags, 0, RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS)
    path = ctypes.c_char_p(os.fsencode(real))
    size = ctypes.c_size_t(ctypes.sizeof(how))
    try:
        return syscall(SYS_OPENAT2, ctypes.c_int(-100), path, ctypes.byref(how), size)
    except OSError as error:
        # Kernels before 5.6 do not have it; some container filters answer EPERM for what they do not know.
        if error.errno not in (errno.ENOSYS, errno.EPERM):
            raise
    return open_resolved(real, flags)


def _replace(
    folder: int, name: str, data: bytes, check: Callable[[], os.stat_result | None], mode: int | None
) -> Version:
    """`check` gives what is there and refuses what must stay. It is asked again at the last moment: getting
    the data onto the disk takes long enough for somebody else to write."""
    old = check()
    temporary = unfinished_name()
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    fd = os.open(temporary, flags, 0o666 if old is None else 0o600, dir_fd=folder)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        if old is not None:
            with suppress(PermissionError):
                os.fchown(fd, old.st_uid, old.st_gid)
            os.fchmod(fd, stat.S_IMODE(old.st_mode))
        elif mode is not None:
            os.fchmod(fd, mode & 0o777)
        os.fsync(fd)
        check()
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        return _version(os.fstat(fd))
    except (OSError, PathRefused):
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        raise
    finally:
        os.close(fd)


def _read_up_to(fd: int, max_bytes: int) -> bytes:
    parts: list[bytes] = []
    left = max_bytes
    while left > 0 and (part := os.read(fd, min(left, READ_SIZE))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _lstat(name: str, folder: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _version(found: os.stat_result) -> Version:
    return Version(found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _pseudo(real: Path) -> str:
    is_pseudo = any(real.is_relative_to(folder) for folder in NEVER_FILES)
    return "it belongs to the kernel" if is_pseudo else ""
