"""What somebody may put where a file is expected."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest


def _socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # the path of a socket is short
    try:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path.name)
        listener.close()
    finally:
        os.chdir(here)


def _large(path: Path) -> None:
    path.touch()
    os.truncate(path, 2 << 30)


def _link_out(path: Path) -> None:
    # Above the folder of the test, whichever file of it is replaced.
    outside = (
        next(folder for folder in path.parents if folder.name in ("workspace", "home")).parent / "outside"
    )
    outside.write_text("hunter2")
    path.symlink_to(outside)


def _unreadable(path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    path.write_text("x")
    path.chmod(0)


HOSTILE: dict[str, Callable[[Path], object]] = {
    "device": lambda path: path.symlink_to("/dev/zero"),
    "pipe": os.mkfifo,
    "socket": _socket,
    "large": _large,
    "loop": lambda path: path.symlink_to(path.name),
    "link-out": _link_out,
    "unreadable": _unreadable,
    "folder": Path.mkdir,
    "no-text": lambda path: path.write_bytes(b"\xff\xfe\x80"),
}


def plant(kind: str, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    HOSTILE[kind](path)
