"""The one thread that writes a journal.

Whatever waits when it turns to its queue is committed in one transaction, yet each append stands or falls by
itself. What was not committed leaves no trace: number and hash of the next event come from the disk again.
An append that need not be durable at once shares the sync of the next one that must be, or of a moment
without any. It checkpoints while nobody waits. Knows nothing of event loops: each append brings whom to tell.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (apsw's stubs name a type that Python 3.11 does not have)

from __future__ import annotations

import errno
import queue
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import apsw
import msgspec

from mainspring.disk.files import sync
from mainspring.disk.log import log
from mainspring.disk.owner import Ownership
from mainspring.errors import JournalDamaged, JournalError, JournalOwned
from mainspring.events import Event, Recorded
from mainspring.journal import hashchain, tables
from mainspring.journal.anchor import Anchor, fresh_stamp, load_anchor, stamp_of, write_anchor
from mainspring.journal.daily import append_line, today
from mainspring.journal.verification import check_chain, not_writable

_GROUP = 256
_PAGE_BYTES = 4096
# A commit into a WAL that grows takes twice as long as one into a WAL that starts again after a checkpoint.
_CHECKPOINT_PAGES = 1024 * 1024 // _PAGE_BYTES
_CHECKPOINT_NOW_PAGES = 64 * _CHECKPOINT_PAGES
_SYNC_AFTER_S = 0.01


class Told(Protocol):
    """Who is told what was written, or why it was not, and whether all that was written so far is durable;
    once more, without events, when it becomes so later."""

    def __call__(
        self, recorded: Sequence[Recorded], error: BaseException | None, /, *, is_all_durable: bool
    ) -> None: ...


class Append(msgspec.Struct, frozen=True, gc=False):
    """Events with their kinds and bodies, blobs to keep with them, and whom to tell."""

    events: Sequence[Event]
    encoded: Sequence[tuple[str, bytes]]
    blobs: Sequence[tuple[str, bytes]]
    tell: Told
    is_durable: bool = True


class ChainHead(msgspec.Struct, frozen=True, gc=False):
    """Where the chain ends."""

    seq: int
    time_us: int
    hash: bytes


class Writer:
    """Owns the writing connection. `waiting` are blobs by hash that go with the next commit; `daily` is the
    file that gets a line for each day on which a turn ended."""

    def __init__(self, path: Path, session: str, ownership: Ownership, *, daily: Path | None = None) -> None:
        self._path, self._session, self._ownership = path, session, ownership
        self._daily, self._day = daily, ("", Anchor(events=0, head=""))
        self._anchor = load_anchor(path.parent, session)
        is_untouched = self._anchor is not None and self._anchor.stamp == stamp_of(path, tables.wal_of(path))
        self._connection = tables.connect_writer(path, session)
        try:
            with tables.explained(session):
                self._head: ChainHead | None = self._sound_head(is_untouched=is_untouched)
        except BaseException:
            self._connection.close()
            raise
        self.waiting: dict[str, bytes] = {}
        self._is_empty = self._head.seq == 0
        self._has_refused = False
        self._durable_head = self._head
        self._unsynced: tuple[Append, ChainHead] | None = None
        self._fault: JournalError | None = None
        self._is_fault_told = False
        self._wal_pages = 0
        self._connection.set_wal_hook(self._note_wal)
        self._queue: queue.SimpleQueue[Append | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"journal {session}", daemon=True)
        self._thread.start()

    def append(self, item: Append) -> None:
        self._queue.put(item)

    def anchor(self) -> None:
        """Keeps where the chain ends now in the file beside the journal."""
        self._keep_anchor(())
        head, (day, _) = self._durable_head, self._day
        if self._daily:
            if day != today():
                self._end_day()
            self._day = (today(), Anchor(events=head.seq, head=head.hash.hex()))

    def close(self) -> None:
        """Returns when everything asked for before is written or refused, and the file is closed."""
        self._queue.put(None)
        self._thread.join()
        if self._fault is not None:
            raise self._fault
        wal = tables.wal_of(self._path)
        if self._anchor is None or not self._anchor.stamp or self._anchor.stamp != stamp_of(self._path, wal):
            self._keep_anchor(fresh_stamp(self._path, wal))
        self._end_day()

    def _end_day(self) -> None:
        day, anchor = self._day
        if self._daily is None or not day:
            return
        try:
            append_line(self._daily, day, self._session, anchor)
        except OSError as error:
            # The session is sound without it; `doctor` says that the file cannot be written.
            log("daily line not written", session=self._session, error=str(error))

    def _keep_anchor(self, stamp: tuple[int, ...]) -> None:
        head = self._durable_head
        if head.seq == 0 or not self._ownership.is_held:
            return
        anchor = Anchor(events=head.seq, head=head.hash.hex(), stamp=stamp)
        if anchor == self._anchor:
            return
        try:
            write_anchor(self._path.parent, anchor)
        except OSError as error:
            # The old anchor stays, and a journal may be ahead of its anchor: the next one makes up for it.
            log("anchor not written", session=self._session, error=str(error))
        else:
            self._anchor = anchor

    def _sound_head(self, *, is_untouched: bool) -> ChainHead:
        """Where the chain ends, once no earlier owner can commit any more and every event is known to be
        sound; a file that is as it was when it was closed is not read again for that."""
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            if not is_untouched:
                verdict = check_chain(tables.SqliteEvents(connection), self._anchor)
                if verdict.problem:
                    raise not_writable(self._session, verdict)
            return read_head(connection, self._session)
        finally:
            connection.execute("ROLLBACK")

    def _run(self) -> None:
        batch: list[Append] = []
        is_open = True
        try:
            while is_open:
                batch, is_open = self._next_batch()
                if batch and (fault := self._told_fault()):
                    self._refuse(batch, fault)
                elif batch:
                    self._write_each(batch)
                if self._wal_pages > (_CHECKPOINT_PAGES if self._queue.empty() else _CHECKPOINT_NOW_PAGES):
                    self._checkpoint(apsw.SQLITE_CHECKPOINT_PASSIVE)
        except BaseException as error:
            # A fault of ours: nobody may wait for ever for a thread that is gone.
            self._refuse(batch, error)
            while is_open:
                batch, is_open = self._next_batch()
                self._refuse(batch, error)
            raise
        finally:
            self._sync()
            self._connection.set_busy_timeout(0)
            self._rewrite()
            self._checkpoint(apsw.SQLITE_CHECKPOINT_TRUNCATE)
            self._connection.close()

    def _next_batch(self) -> tuple[list[Append], bool]:
        batch: list[Append] = []
        item = self._next_item()
        while item is not None:
            batch.append(item)
            if len(batch) == _GROUP or self._queue.empty():
                return batch, True
            item = self._queue.get_nowait()
        return batch, False

    def _next_item(self) -> Append | None:
        if self._unsynced is not None and self._fault is None:
            try:
                return self._queue.get(timeout=_SYNC_AFTER_S)
            except queue.Empty:
                self._sync()
        return self._queue.get()

    def _sync(self) -> None:
        """Makes durable what was only written."""
        if self._unsynced is None or self._fault is not None:
            return
        try:
            sync(tables.wal_of(self._path))  # SQLite has no locks on it that closing the file could drop
        except OSError as error:
            is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            self._note_fault(apsw.FullError(str(error)) if is_full else apsw.IOError(str(error)))
        else:
            self._note_durable()

    def _note_durable(self) -> None:
        if self._unsynced is not None:
            (newest, self._durable_head), self._unsynced = self._unsynced, None
            newest.tell((), None, is_all_durable=True)

    def _note_fault(self, error: apsw.Error) -> None:
        """What was only written may be lost: the system may drop what it could not sync, and call the next
        sync a success. So nothing is written behind it before all of it stands in the file itself."""
        log("journal not synced", session=self._session, error=str(error))
        self._fault, self._is_fault_told = tables.explain(error, self._session), False

    def _told_fault(self) -> JournalError | None:
        """Why nothing can be written; somebody is told before anything is done about it."""
        if self._is_fault_told:
            self._rewrite()
        self._is_fault_told = self._fault is not None
        return self._fault

    def _rewrite(self) -> None:
        if self._fault is None:
            return
        try:
            frames, moved = self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_FULL)
        except apsw.Error:
            return  # what was told of the disk still holds
        if frames == moved:
            self._fault = None
            self._note_durable()

    def _write_each(self, batch: list[Append]) -> None:
        try:
            written = self._write(batch)
        except apsw.Error as error:
            self._undo()
            if self._unsynced and getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_FSYNC:
                self._note_fault(error)
                self._refuse(batch, self._told_fault() or tables.explain(error, self._session))
            elif len(batch) > 1:
                for item in batch:
                    self._write_each([item])
            else:
                self._refuse(batch, tables.explain(error, self._session))
        except JournalError as error:
            self._undo()
            self._refuse(batch, error)
        else:
            for item, recorded in zip(batch, written, strict=True):
                item.tell(recorded, None, is_all_durable=self._unsynced is None)

    @property
    def is_stillborn(self) -> bool:
        """Whether the first events of a new journal could not be written: nothing is in it."""
        return self._is_empty and self._has_refused

    def _refuse(self, batch: list[Append], error: BaseException) -> None:
        self._has_refused = True
        for item in batch:
            item.tell((), error, is_all_durable=False)

    def _write(self, batch: list[Append]) -> list[list[Recorded]]:
        connection = self._connection
        is_durable = any(item.is_durable for item in batch)
        tables.set_durable(connection, is_durable=is_durable)
        connection.execute("BEGIN IMMEDIATE")
        if not self._ownership.is_held:
            raise JournalOwned(
                f"This process is no longer the owner of session {self._session}; it wrote nothing.",
                remedy="Resume the session when nobody else works on it.",
            )
        head = self._head or read_head(connection, self._session)
        blobs = self.waiting.copy()
        for sha256, data in blobs.items():
            tables.keep_blob(connection, sha256, data)
        written: list[list[Recorded]] = []
        for item in batch:
            for sha256, data in item.blobs:
                tables.keep_blob(connection, sha256, data)
            recorded, rows, head = self._chained(item, head)
            connection.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?)", rows)
            written.append(recorded)
        connection.execute("COMMIT")
        self._head = head
        self._unsynced = None if is_durable else (batch[-1], head)
        self._durable_head = head if is_durable else self._durable_head
        self._is_empty = head.seq == 0
        for sha256 in blobs:
            self.waiting.pop(sha256, None)
        return written

    def _chained(
        self, item: Append, head: ChainHead
    ) -> tuple[list[Recorded], list[tuple[Any, ...]], ChainHead]:
        seq, hash_ = head.seq, head.hash
        # A clock set back must not make a later event look older.
        time_us = max(head.time_us, time.time_ns() // 1000)
        recorded: list[Recorded] = []
        rows: list[tuple[Any, ...]] = []
        keep = partial(tables.keep_blob, self._connection)
        for event, (kind, body) in zip(item.events, item.encoded, strict=True):
            seq += 1
            stored = hashchain.stored_form(body, keep)
            hash_ = hashchain.chain(hash_, seq, time_us, kind, stored)
            rows.append((seq, time_us, kind, stored, hash_))
            recorded.append(Recorded(seq, time_us, event))
        return recorded, rows, ChainHead(seq, time_us, hash_)

    def _undo(self) -> None:
        self._head = None
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def _note_wal(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        self._wal_pages = pages
        return apsw.SQLITE_OK

    def _checkpoint(self, mode: int) -> None:
        self._wal_pages = 0
        try:
            self._connection.wal_checkpoint(mode=mode)
        except (
            apsw.BusyError,
            apsw.LockedError,
            apsw.FullError,
            apsw.IOError,
            apsw.ReadOnlyError,
            apsw.CorruptError,
        ):
            # Nothing is lost: events stay in the WAL, and an append that cannot be written says so itself.
            return


def read_head(connection: apsw.Connection, session: str) -> ChainHead:
    """Where the chain on disk ends, after checking its last link."""
    rows: list[Any] = connection.execute(
        "SELECT seq, time_us, kind, body, hash FROM events ORDER BY seq DESC LIMIT 2"
    ).fetchall()
    if not rows:
        return ChainHead(0, 0, hashchain.GENESIS)
    seq, time_us, kind, body, hash_ = rows[0]
    previous = rows[1][4] if len(rows) == 2 else hashchain.GENESIS
    if not hashchain.follows(previous, seq, time_us, kind, body, hash_):
        raise JournalDamaged(
            f"The last event of session {session}, number {seq}, does not match its hash.",
            remedy=f"`mainspring verify {session}` says what is readable.",
            seq=seq,
        )
    return ChainHead(seq, time_us, hash_)
