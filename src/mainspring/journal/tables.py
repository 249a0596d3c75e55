"""How a journal lies in its SQLite file: schema, blobs, and what a SQLite error means.

Knows nothing of threads or event loops.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (apsw's stubs name a type that Python 3.11 does not have)

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import apsw

from mainspring.disk.files import make_file
from mainspring.errors import JournalDamaged, JournalError, JournalForeign, JournalOwned, JournalUnwritable
from mainspring.journal.stored import Row, UnreadableStore

FILE_NAME = "journal.sqlite"
APPLICATION_ID = 0x6D737072  # "mspr"
SCHEMA_VERSION = 1

_SCHEMA = """
CREATE TABLE events (
    seq INTEGER PRIMARY KEY, time_us INTEGER NOT NULL, kind TEXT NOT NULL,
    body BLOB NOT NULL, hash BLOB NOT NULL
);
CREATE INDEX events_by_kind ON events (kind, seq);
CREATE TABLE blobs (
    sha256 BLOB PRIMARY KEY NOT NULL, size INTEGER NOT NULL, codec TEXT NOT NULL, data BLOB NOT NULL
);
"""
BUSY_MS = 5000


WAL = "-wal"
"""What SQLite adds to the name of a file for what is not in it yet."""


def wal_of(path: Path) -> Path:
    return path.with_name(path.name + WAL)


def create(path: Path) -> apsw.Connection:
    """A connection to a new, empty journal, which is durable once its file is synced: nobody sees the file
    before that, so its tables need no journal and no syncs of their own."""
    make_file(path)
    connection = apsw.Connection(os.fspath(path))
    connection.pragma("journal_mode", "off")
    connection.pragma("synchronous", "off")
    with connection:
        connection.pragma("application_id", APPLICATION_ID)
        connection.pragma("user_version", SCHEMA_VERSION)
        connection.execute(_SCHEMA)
    _prepare_for_writing(connection)
    return connection


def connect_writer(path: Path, session: str) -> apsw.Connection:
    with explained(session):
        _require_content(path, session)
        connection = apsw.Connection(os.fspath(path), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            connection.set_busy_timeout(BUSY_MS)
            _require_ours(connection, session)
            _prepare_for_writing(connection)
        except BaseException:
            connection.close()
            raise
        return connection


def connect_reader(path: Path, session: str, *, is_settled: bool) -> apsw.Connection:
    """A read-only connection. `is_settled` promises that nobody writes the file, so that reading makes no
    file beside it and works on a read-only disk; the caller checks that promise around each use."""
    with explained(session):
        _require_content(path, session)
        uri = "file:" + quote(os.fspath(path.absolute())) + ("?immutable=1" if is_settled else "")
        connection = apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
        try:
            connection.set_busy_timeout(BUSY_MS)
            # A file that lost its tail is refused whole otherwise; this way its whole events can be read.
            connection.pragma("writable_schema", 1)
            connection.pragma("cell_size_check", 1)
            _require_ours(connection, session)
        except BaseException:
            connection.close()
            raise
        return connection


def _prepare_for_writing(connection: apsw.Connection) -> None:
    connection.set_busy_timeout(BUSY_MS)
    connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", "full")
    connection.wal_autocheckpoint(0)


def _require_content(path: Path, session: str) -> None:
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        raise JournalDamaged(
            f"Session {session} has no journal file; nothing is readable.",
            remedy="Restore it from a backup or an export.",
        ) from None
    except OSError as error:
        raise JournalUnwritable(
            f"The journal of session {session} cannot be used ({error.strerror}).",
            remedy="Check the permissions of its folder.",
        ) from error
    if size == 0:
        raise JournalDamaged(
            f"The journal of session {session} is an empty file; nothing is readable.",
            remedy="Restore it from a backup or an export.",
        )


def _require_ours(connection: apsw.Connection, session: str) -> None:
    if connection.pragma("application_id") != APPLICATION_ID:
        raise JournalForeign(
            f"The journal file of session {session} is some other program's database; nothing was read.",
            remedy="Move it away, or restore the journal from a backup or an export.",
        )
    version: int = connection.pragma("user_version")
    if version > SCHEMA_VERSION:
        raise JournalForeign(
            f"The journal of session {session} has format version {version}, and this program reads up to"
            f" {SCHEMA_VERSION}; nothing was read.",
            remedy="Upgrade mainspring.",
        )
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    if version < 1 or not {"events", "blobs"} <= tables:
        raise JournalDamaged(
            f"The journal of session {session} has lost its tables; nothing is readable.",
            remedy="Restore it from a backup or an export.",
        )


def pack(data: bytes) -> tuple[str, bytes]:
    """The codec and the bytes to keep: compressed when that saves at least an eighth."""
    if len(data) >= 128:
        packed = zlib.compress(data, 3)
        if len(packed) < len(data) - len(data) // 8:
            return "zlib", packed
    return "raw", data


def unpack(codec: str, data: bytes, size: int) -> bytes:
    """The bytes that were packed; ValueError or zlib.error when they cannot have been."""
    if codec == "raw":
        return data
    if codec != "zlib":
        raise ValueError(f"unknown codec {codec}")
    return zlib.decompressobj().decompress(data, size + 1)


def keep_blob(connection: apsw.Connection, sha256: str, data: bytes) -> None:
    key = bytes.fromhex(sha256)
    if connection.execute("SELECT 1 FROM blobs WHERE sha256 = ?", (key,)).get is None:
        codec, packed = pack(data)
        connection.execute("INSERT INTO blobs VALUES (?, ?, ?, ?)", (key, len(data), codec, packed))


def required_blob(connection: apsw.Connection, sha256: str) -> bytes:
    """The blob's bytes; ValueError when they are missing or not what the hash names."""
    row: Any = connection.execute(
        "SELECT size, codec, data FROM blobs WHERE sha256 = ?", (bytes.fromhex(sha256),)
    ).fetchone()
    if row is None:
        raise ValueError(f"blob {sha256[:12]} is missing")
    return checked(sha256, *row)


class SqliteEvents:
    """What a connection sees of a journal, as `StoredEvents` describes it."""

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection

    def rows(self, until: int | None = None) -> Iterator[Row]:
        # NOT INDEXED: the order and the content come from the table, never from an index that may be damaged.
        sql = "SELECT seq, time_us, kind, body, hash FROM events NOT INDEXED {} ORDER BY seq"
        try:
            if until is None:
                yield from self.connection.execute(sql.format(""))
            else:
                yield from self.connection.execute(sql.format("WHERE seq <= ?"), (until,))
        except (apsw.CorruptError, UnicodeDecodeError) as error:
            raise UnreadableStore(str(error)) from error

    def hash_at(self, seq: int) -> bytes:
        found: Any = self.connection.execute("SELECT hash FROM events WHERE seq = ?", (seq,)).get
        return found or b""

    def blob(self, sha256: str) -> bytes:
        return required_blob(self.connection, sha256)

    def fault_beside_events(self, seen: set[str]) -> str:
        rows: Iterator[Any] = self.connection.execute(
            "SELECT sha256, size, codec, data FROM blobs NOT INDEXED"
        )
        try:
            for key, size, codec, data in rows:
                if key.hex() not in seen:
                    checked(key.hex(), size, codec, data)
                    seen.add(key.hex())
            found: str = self.connection.execute("PRAGMA integrity_check(1)").get
        except (ValueError, TypeError, AttributeError) as error:
            return f"a blob cannot be read ({error})"
        except apsw.CorruptError as error:
            return f"the file is corrupt behind its events ({error})"
        return "" if found == "ok" else f"the file is corrupt ({found})"


def checked(sha256: str, size: int, codec: str, packed: bytes) -> bytes:
    try:
        data = unpack(codec, packed, size)
    except zlib.error as error:
        raise ValueError(f"blob {sha256[:12]} cannot be decompressed") from error
    if hashlib.sha256(data).hexdigest() != sha256:
        raise ValueError(f"blob {sha256[:12]} does not match its hash")
    return data


@contextmanager
def explained(session: str) -> Generator[None]:
    """Turns what SQLite raises into our errors, by type."""
    try:
        yield
    except apsw.Error as error:
        raise explain(error, session) from error
    except UnicodeDecodeError as error:
        raise explain(apsw.CorruptError(str(error)), session) from error


def explain(error: apsw.Error, session: str) -> JournalError:
    match error:
        case apsw.FullError():
            message, remedy = "The disk is full", "Free some space and resume the session."
        case apsw.IOError() | apsw.TooBigError() | apsw.NoMemError():
            message, remedy = (
                f"Its disk reported an error ({error})",
                "Check the disk and its limits, then resume.",
            )
        case apsw.ReadOnlyError() | apsw.PermissionsError() | apsw.CantOpenError():
            message, remedy = (
                f"Its file cannot be opened ({error})",
                "Check who may read and write its folder.",
            )
        case apsw.BusyError() | apsw.LockedError() | apsw.ProtocolError():
            message, remedy = (
                "Another program holds its file locked",
                "Wait for that program to finish, and retry.",
            )
        case apsw.ConstraintError():
            return JournalOwned(
                f"Another process wrote to the journal of session {session}; this one wrote nothing.",
                remedy="Stop one of the two and resume.",
            )
        case apsw.NotADBError():
            return JournalForeign(
                f"The journal file of session {session} is not a SQLite database; nothing is readable.",
                remedy="Restore it from a backup or an export.",
            )
        case _:
            return JournalDamaged(
                f"The journal file of session {session} is damaged ({error}).",
                remedy=f"`mainspring verify {session}` says what is readable.",
            )
    return JournalUnwritable(f"The journal of session {session} cannot be used. {message}.", remedy=remedy)
