"""Tells a service from work: a process that listens on a port serves others, and has no end of its own."""

from __future__ import annotations

import os
from pathlib import Path

from mainspring.sandbox.custody.tree import listed_below

_LISTENS = "0A"


def listening_port(root: int) -> int | None:
    """The TCP port that a process or one below it listens on; None when there is none."""
    for pid in (root, *(found.pid for found in listed_below(root))):
        held = _sockets(pid)
        for port, socket in _listening(pid):
            if socket in held:
                return port
    return None


def _sockets(pid: int) -> set[str]:
    """The inodes of the sockets that a process holds."""
    held: set[str] = set()
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            target = str(Path(f"/proc/{pid}/fd/{name}").readlink())
            if target.startswith("socket:["):
                held.add(target[len("socket:[") : -1])
    except OSError:  # it ends at this moment, or is somebody else's
        return held
    return held


def _listening(pid: int) -> list[tuple[int, str]]:
    """Port and inode of each listening socket that a process can see."""
    found: list[tuple[int, str]] = []
    for table in ("tcp", "tcp6"):
        try:
            rows = Path(f"/proc/{pid}/net/{table}").read_text("ascii", "replace").splitlines()[1:]
        except OSError:
            continue
        fields = [row.split() for row in rows]
        found += [
            (int(row[1].rpartition(":")[2], 16), row[9])
            for row in fields
            if len(row) > 9 and row[3] == _LISTENS
        ]
    return found
