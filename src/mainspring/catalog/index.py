"""The list of sessions, with an index beside it that only saves time.

The index may be deleted or damaged at any moment: it is rebuilt from the journals. Each session is read again
only when its files changed, and then only its new events. A damaged session is listed as such.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (apsw's stubs name a type that Python 3.11 does not have)

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Iterable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import msgspec

from mainspring.catalog.fold import SessionFold, SessionRow, advance, row_of
from mainspring.catalog.spent import SessionSpend
from mainspring.disk.files import make_file
from mainspring.disk.owner import owner_of
from mainspring.errors import JournalError
from mainspring.journal import tables
from mainspring.journal.file import JournalFile

_VERSION = 13
_RACY_NS = 100_000_000
_Signature = tuple[int, int, int, int]


class _Known(msgspec.Struct, frozen=True):
    """What the index holds about one session: its fold when its files looked like `signature`."""

    signature: _Signature
    fold: SessionFold
    problem: str = ""


_ENCODE = msgspec.json.Encoder().encode


def list_sessions(index: Path, folder: Path, names: Iterable[str]) -> list[SessionRow]:
    """The sessions of these names in the folder, the most recently changed first."""
    current = _current(index, folder, names)
    rows = [
        row_of(name, seen.fold, problem=seen.problem, is_owned=partial(_is_owned, folder / name))
        for name, seen in current.items()
    ]
    rows.sort(key=lambda row: (row.updated_us, row.id), reverse=True)
    return rows


def list_spends(index: Path, folder: Path, names: Iterable[str]) -> list[SessionSpend]:
    """What the sessions of these names spent."""
    current = _current(index, folder, names)
    return [SessionSpend(name, seen.fold.spent(), seen.problem) for name, seen in current.items()]


def _current(index: Path, folder: Path, names: Iterable[str]) -> dict[str, _Known]:
    known = _load(index)
    current: dict[str, _Known] = {}
    changed: dict[str, _Known] = {}
    for name in names:
        path = folder / name / tables.FILE_NAME
        seen = known.get(name)
        signature = _signature(path)
        if seen is None or seen.signature != signature:
            seen = changed[name] = _refreshed(path, name, None if seen is None else seen.fold, signature)
        current[name] = seen
    gone = known.keys() - current.keys()
    if changed or gone:
        _save(index, changed, gone)
    return current


def _is_owned(directory: Path) -> bool:
    owner = owner_of(directory)
    return owner is not None and owner.is_alive


def _signature(path: Path) -> _Signature:
    size, changed_ns = _look(os.fspath(path))
    wal_size, wal_changed_ns = _look(f"{path}-wal")
    # Readers leave an empty WAL behind; that is no change.
    return (size, changed_ns, wal_size, wal_changed_ns) if wal_size else (size, changed_ns, 0, 0)


def _look(path: str) -> tuple[int, int]:
    try:
        status = os.stat(path)  # noqa: PTH116 (ten thousand times: pathlib doubles the time)
    except OSError:
        return 0, 0
    return status.st_size, status.st_mtime_ns


def _refreshed(path: Path, name: str, fold: SessionFold | None, signature: _Signature) -> _Known:
    if time.time_ns() - max(signature[1], signature[3]) < _RACY_NS:
        # A write in the same tick of the file system's clock would leave the same signature.
        signature = (0, 0, 0, 0)
    try:
        with closing(JournalFile(path, name)) as file:
            return _Known(signature, advance(fold or SessionFold(), file))
    except JournalError as error:
        return _Known(signature, fold or SessionFold(), error.message)


def fold_version() -> int:
    """Of the folds in an index. They have spends by local days, so another time zone has others."""
    zone = f"{_VERSION} {time.tzname} {time.timezone} {time.altzone}"
    return zlib.crc32(zone.encode()) >> 1


def _load(index: Path) -> dict[str, _Known]:
    """What the index says; nothing when it is missing, damaged or of another version."""
    if not index.exists():
        return {}
    try:
        with closing(apsw.Connection(os.fspath(index))) as connection:
            connection.set_busy_timeout(1000)
            if connection.pragma("user_version") != fold_version():
                return {}
            decode = msgspec.json.Decoder(_Known).decode
            rows: list[Any] = connection.execute("SELECT id, known, crc FROM sessions").fetchall()
            return {name: decode(known) for name, known, crc in rows if zlib.crc32(known) == crc}
    except (apsw.Error, msgspec.MsgspecError, UnicodeDecodeError, TypeError):
        return {}


def _save(index: Path, changed: dict[str, _Known], gone: set[str]) -> None:
    try:
        try:
            _write(index, changed, gone)
        except (apsw.NotADBError, apsw.CorruptError, apsw.SQLError):
            for path in (index, Path(f"{index}-journal")):
                path.unlink(missing_ok=True)
            _write(index, changed, gone)
    except (apsw.Error, OSError):
        # Full, read-only or busy: the list is right without an index, the next one takes as long again.
        return


def _write(index: Path, changed: dict[str, _Known], gone: set[str]) -> None:
    make_file(index)
    with closing(apsw.Connection(os.fspath(index))) as connection:
        connection.set_busy_timeout(1000)
        connection.pragma("synchronous", "off")
        with connection:
            if connection.pragma("user_version") != fold_version():
                connection.execute("DROP TABLE IF EXISTS sessions")
                connection.execute("CREATE TABLE sessions (id TEXT PRIMARY KEY, known BLOB, crc INTEGER)")
                connection.pragma("user_version", fold_version())
            encoded = ((name, _ENCODE(known)) for name, known in changed.items())
            connection.executemany(
                "INSERT OR REPLACE INTO sessions VALUES (?, ?, ?)",
                ((name, known, zlib.crc32(known)) for name, known in encoded),
            )
            connection.executemany("DELETE FROM sessions WHERE id = ?", ((name,) for name in gone))
