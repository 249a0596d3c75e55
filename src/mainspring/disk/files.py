"""Files that several processes share: replaced whole, or locked while they are changed."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from mainspring import system


def write_private(path: Path, content: bytes, *, is_synced: bool = True) -> None:
    """Replaces a file whole, readable by its owner only, synced before and after it takes its name; a cache
    need not be."""
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            if is_synced:
                os.fsync(file.fileno())
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    if is_synced:
        sync(path.parent)


def make_folder(path: Path) -> None:
    """Makes a folder, with those above it that are missing, for its owner only."""
    if not path.parent.is_dir() and path.parent != path:
        make_folder(path.parent)
    path.mkdir(mode=0o700, exist_ok=True)


def make_file(path: Path) -> None:
    """Makes an empty file for its owner only, unless it is there: for what others open by its name."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))


def close_tree(path: Path) -> None:
    """Closes a file, or a folder with all in it, to other users."""
    for folder, folders, files in os.walk(path):
        for name in (*folders, *files):
            close_to_others(Path(folder, name))
    close_to_others(path)


def close_to_others(path: Path) -> bool:
    """Takes what is ours away from other users; says whether it was open to them."""
    with suppress(OSError):
        found = path.lstat()
        is_kept = stat.S_ISLNK(found.st_mode) or found.st_uid != os.geteuid()
        if not is_kept and found.st_mode & 0o077:
            path.chmod(stat.S_IMODE(found.st_mode) & 0o700)
            return True
    return False


@contextmanager
def closing_descriptor(descriptor: int) -> Generator[int]:
    """Closes a file descriptor at the end of a block."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def sync(path: Path) -> None:
    """Makes what a file holds durable, or the names in a folder."""
    with closing_descriptor(os.open(path, os.O_RDONLY)) as handle:
        os.fsync(handle)


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Keeps out everybody else who changes a file in this way, until the block or its process ends."""
    make_folder(path.parent)
    name = path.with_suffix(".lock")
    with closing_descriptor(os.open(name, os.O_RDWR | os.O_CREAT, 0o600)) as lock:
        system.lock(lock)
        yield


@contextmanager
def folder_locked(folder: Path, *, is_shared: bool = False) -> Generator[None]:
    """Keeps out everybody else who locks this folder, unless all share it, until the block or its process
    ends."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    with closing_descriptor(os.open(folder, flags)) as handle:
        system.lock(handle, is_shared=is_shared)
        yield


@contextmanager
def try_locked(path: Path) -> Generator[bool]:
    """The same without waiting: whether nobody else holds it."""
    make_folder(path.parent)
    name = path.with_suffix(".lock")
    with closing_descriptor(os.open(name, os.O_RDWR | os.O_CREAT, 0o600)) as lock:
        yield system.try_lock(lock)


def output_files() -> tuple[Path, ...]:
    """The files that this process's standard output and error are written to, where the system names them."""
    found: list[Path] = []
    for descriptor in (1, 2):
        with suppress(OSError):
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                found.append(Path(f"/proc/self/fd/{descriptor}").readlink())
    return tuple(found)
