"""A journal as a file that can be read, without an event loop and whoever writes it meanwhile.

Reading never changes the journal. While nobody has it open for writing, reading leaves no trace in its folder
either. What cannot be read raises `JournalDamaged`, which says up to which event the journal is sound.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (apsw's stubs name a type that Python 3.11 does not have)

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, TypeVar

import apsw
import msgspec

from mainspring.errors import ConfigError, JournalDamaged, JournalError, JournalOwned
from mainspring.events import Blob, Recorded, decode
from mainspring.journal import Verification, hashchain, tables
from mainspring.journal.anchor import Anchor, load_anchor
from mainspring.journal.daily import anchors_in
from mainspring.journal.verification import against_anchor, check, damaged

_T = TypeVar("_T")
_END = 2**63 - 1
_RARE = 1000
_SELECTED = "SELECT seq, time_us, kind, body FROM events WHERE seq > ? AND seq <= ?"
_COUNTED = "SELECT count(*) FROM (SELECT 1 FROM events WHERE seq > ? AND seq <= ?"


class JournalFile:
    """One session's journal, open for reading. Threads may share it; they take turns."""

    def __init__(self, path: Path, session: str) -> None:
        self.path = path
        self.session = session
        self._turn = threading.Lock()
        self._is_closed = False
        self._name = os.fspath(path)
        self._settled = _settled_state(self._name)
        try:
            self._connection = tables.connect_reader(path, session, is_settled=self._settled is not None)
        except JournalDamaged:
            if not self._was_disturbed():
                raise
            self._settled = None
            self._connection = tables.connect_reader(path, session, is_settled=False)

    def last_seq(self) -> int:
        return self._read(_last_seq)

    def read(
        self, *, after: int = 0, until: int | None = None, kinds: Collection[str] = (), limit: int = 1000
    ) -> list[Recorded]:
        if until is not None:
            limit = max(0, min(limit, until - after))  # no step beyond `until`: what follows may be damaged
        bindings = (after, _END if until is None else until, *kinds, limit)

        def found(connection: apsw.Connection) -> list[Recorded]:
            chosen = self._chosen(connection, bindings) if kinds else ""
            sql = _SELECTED + chosen + " ORDER BY seq LIMIT ?"
            return self._recorded(connection, sql, bindings, after)

        return self._read(found)

    def last(self, *kinds: str) -> Recorded | None:
        return self._read(lambda connection: self._newest(connection, kinds))

    def count(self, kind: str, *, after: int = 0, until: int | None = None) -> int:
        bindings = (kind, after, _END if until is None else until)
        return self._read(lambda connection: self._counted(connection, bindings))

    def chain_hash(self, seq: int) -> str:
        sql = "SELECT hash FROM events WHERE seq = ?"
        found: Any = self._read(lambda connection: connection.execute(sql, (seq,)).get)
        return found.hex() if isinstance(found, bytes) else ""

    def get(self, blob: Blob) -> bytes:
        return self._read(lambda connection: self._bytes_of(connection, blob))

    def verify(self, daily: Path | None = None) -> Verification:
        """Checks everything, against the anchor and the lines of a file that is kept elsewhere."""
        anchor = self.anchor()
        lines = _daily_anchors(daily, self.session) if daily else []

        def checked(connection: apsw.Connection) -> Verification:
            stored = tables.SqliteEvents(connection)
            verdict = check(stored, anchor)
            against = (against_anchor(verdict, line, stored) for line in lines)
            return next((found for found in against if found.problem), verdict)

        return self._read(checked)

    def anchor(self) -> Anchor | None:
        """What the journal must hold at least; to be read before the journal, which may grow meanwhile."""
        return load_anchor(self.path.parent, self.session)

    def scan(self, use: Callable[[tables.SqliteEvents], _T]) -> _T:
        """What `use` makes of one unchanging view of the journal; it is called only once."""
        with self._turn, tables.explained(self.session):
            if self._was_disturbed():
                self._reconnect()
            self._connection.execute("BEGIN")
            try:
                result = use(tables.SqliteEvents(self._connection))
            finally:
                self._connection.execute("ROLLBACK")
            if self._was_disturbed():
                raise JournalOwned(
                    f"Session {self.session} was opened for writing while it was being read.",
                    remedy="Try again.",
                )
            return result

    def close(self) -> None:
        with self._turn:
            self._is_closed = True
            self._connection.close()

    def _read(self, use: Callable[[apsw.Connection], _T]) -> _T:
        with self._turn, tables.explained(self.session):
            if self._was_disturbed():
                self._reconnect()
            try:
                result = use(self._connection)
            except (apsw.CorruptError, JournalDamaged):
                if not self._was_disturbed():
                    raise
            else:
                if not self._was_disturbed():
                    return result
            self._reconnect()
            return use(self._connection)

    def _was_disturbed(self) -> bool:
        """Someone writes, or wrote, the file that this connection takes to be at rest."""
        if self._is_closed:
            raise JournalError(f"The journal of session {self.session} is closed.", remedy="Open it again.")
        return self._settled is not None and self._settled != _settled_state(self._name)

    def _reconnect(self) -> None:
        self._connection.close()
        self._settled = None
        self._connection = tables.connect_reader(self.path, self.session, is_settled=False)

    def _recorded(
        self, connection: apsw.Connection, sql: str, bindings: tuple[int | str, ...], after: int
    ) -> list[Recorded]:
        try:
            rows: list[Any] = connection.execute(sql, bindings).fetchall()
        except (apsw.CorruptError, UnicodeDecodeError) as error:
            raise self._damaged(connection) from error
        if len(bindings) == 3 and [row[0] for row in rows] != list(range(after + 1, after + 1 + len(rows))):
            raise self._damaged(connection)
        try:
            return [
                Recorded(seq, time_us, decode(kind, body if body[:1] != b"@" else _spilled(connection, body)))
                for seq, time_us, kind, body in rows
            ]
        except (msgspec.MsgspecError, ValueError, TypeError) as error:
            raise self._damaged(connection) from error

    def _damaged(self, connection: apsw.Connection) -> JournalDamaged:
        return damaged(self.session, check(tables.SqliteEvents(connection)))

    def _chosen(self, connection: apsw.Connection, bindings: tuple[int | str, ...]) -> str:
        """How to find the events of some kinds: rare ones and those of one kind through the index. What is
        frequent is found sooner by walking the journal in order than by a sort."""
        kinds = f"({','.join('?' * (len(bindings) - 3))})"
        indexed = f" AND kind IN {kinds}"
        if len(bindings) == 4:
            return indexed
        try:
            found: int = connection.execute(_COUNTED + indexed + " LIMIT ?)", (*bindings[:-1], _RARE)).get
        except apsw.CorruptError as error:
            raise self._damaged(connection) from error
        return indexed if found < _RARE else f" AND +kind IN {kinds}"

    def _counted(self, connection: apsw.Connection, bindings: tuple[str, int, int]) -> int:
        sql = "SELECT count(*) FROM events WHERE kind = ? AND seq > ? AND seq <= ?"
        try:
            return connection.execute(sql, bindings).get
        except apsw.CorruptError as error:
            raise self._damaged(connection) from error

    def _newest(self, connection: apsw.Connection, kinds: tuple[str, ...]) -> Recorded | None:
        # One descent of the index per kind; `kind IN (…) ORDER BY seq` would sort every event of these kinds.
        try:
            if kinds:
                sql = "SELECT max(seq) FROM events WHERE kind = ?"
                seq = max(connection.execute(sql, (kind,)).get or 0 for kind in kinds)
            else:
                seq = _last_seq(connection)
        except apsw.CorruptError as error:
            raise self._damaged(connection) from error
        if seq == 0:
            return None
        sql = "SELECT seq, time_us, kind, body FROM events WHERE seq = ?"
        found_event = self._recorded(connection, sql, (seq,), seq - 1)
        if not found_event:
            raise self._damaged(connection)
        return found_event[0]

    def _bytes_of(self, connection: apsw.Connection, blob: Blob) -> bytes:
        try:
            return tables.required_blob(connection, blob.sha256)
        except ValueError as error:
            raise JournalDamaged(
                f"In session {self.session} {error}.", remedy="Restore it from a backup or an export."
            ) from error


def _spilled(connection: apsw.Connection, stored: bytes) -> bytes:
    blob = hashchain.referenced(stored)
    return stored if blob is None else tables.required_blob(connection, blob.sha256)


def _last_seq(connection: apsw.Connection) -> int:
    return connection.execute("SELECT max(seq) FROM events").get or 0


def _settled_state(path: str) -> tuple[int, int] | None:
    """Size and time of a journal that no process has open for writing: then there is no WAL beside it."""
    try:
        if os.path.exists(path + tables.WAL):  # noqa: PTH110 - asked around every use
            return None
        status = os.stat(path)  # noqa: PTH116
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def _daily_anchors(daily: Path, session: str) -> list[Anchor]:
    try:
        return list(anchors_in(daily, session))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ConfigError(
            f"{daily} cannot be read: {error.strerror}.",
            remedy="Correct `daily_anchor` under [journal] in config.toml.",
        ) from error
