"""Number and hash of a journal's newest event, kept outside it.

A journal that ends before its anchor lost events. One that goes on after its anchor is sound: the anchor is
written at the end of a turn and when the journal is closed, not with each step. Without an anchor nothing is
expected of a journal.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from mainspring.disk.files import write_private
from mainspring.disk.formats import refuse_newer_json
from mainspring.errors import JournalDamaged
from mainspring.events.decoding import DECODE_ERRORS

FILE_NAME = "anchor.json"
_FORMAT = 1


class Anchor(msgspec.Struct, frozen=True, kw_only=True):
    """`stamp` tells whether the journal's file is still as it was when it was closed, and its chain known to
    be sound; it is empty while the journal is open."""

    events: int
    head: str
    stamp: tuple[int, ...] = ()
    format_version: int = _FORMAT


def load_anchor(folder: Path, session: str) -> Anchor | None:
    """The anchor in the folder of a session, None when there is none; `JournalDamaged` for something else."""
    path = folder / FILE_NAME
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unreadable(session, error.strerror or str(error)) from error
    refuse_newer_json(path, data, _FORMAT)
    try:
        return msgspec.json.decode(data, type=Anchor)
    except DECODE_ERRORS as error:
        raise _unreadable(session, str(error)) from error


def write_anchor(folder: Path, anchor: Anchor) -> None:
    write_private(folder / FILE_NAME, msgspec.json.encode(anchor))


def stamp_of(path: Path, wal: Path) -> tuple[int, ...]:
    """What changes with every change of a journal's file; empty while it is, or may be, written."""
    try:
        if wal.exists():
            return ()
        status = path.stat()
    except OSError:
        return ()
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def fresh_stamp(path: Path, wal: Path) -> tuple[int, ...]:
    """The stamp of a file at rest. Clocks of file systems are coarse: the modification time is set to one
    that no write gives, so that a write in the same tick is seen as well."""
    before = stamp_of(path, wal)
    if not before:
        return ()
    time_ns = before[2] - 1
    os.utime(path, ns=(time_ns, time_ns))
    after = stamp_of(path, wal)
    return after if after[2:3] == (time_ns,) else ()


def _unreadable(session: str, why: str) -> JournalDamaged:
    return JournalDamaged(
        f"The anchor of session {session}, which tells how many events it must have, cannot be read ({why}).",
        remedy=f"`mainspring verify --accept {session}` anchors the journal as it is now.",
    )
