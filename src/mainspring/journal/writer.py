"""The one that writes a journal: a thread of its own, or who appends, one at a time.

Whatever waits when the thread turns to its queue is committed in one transaction, yet each append stands or
falls by itself. What was not committed leaves no trace: number and hash of the next event come from the disk
again. Only events that were numbered before they were given to it stay, and go first in the next transaction.
It checkpoints while nobody waits. Where the disk is quick and no other journal is written, who appends does
it without the thread: handing over would take as long again. Knows nothing of event loops: each append brings
whom to tell.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (apsw's stubs name a type that Python 3.11 does not have)

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import apsw
import msgspec

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
_QUICK_S = 0.002
"""How long whoever appends may be held up by a commit; so many in a row must have been quicker than that."""
_QUICK_COMMITS = 8
_SMALL_BYTES = hashchain.INLINE_BYTES

Body = tuple[str, bytes]
"""The kind of an event, and what is kept of it."""


class Told(Protocol):
    """Who is told what was written, or why it was not."""

    def __call__(self, recorded: Sequence[Recorded], error: BaseException | None, /) -> None: ...


class Append(msgspec.Struct, frozen=True, gc=False):
    """Events with their kinds and bodies, blobs to keep with them, and whom to tell. `numbered` are events
    that somebody acts upon already: they stand before these, whether these can be written or not."""

    events: Sequence[Event]
    encoded: Sequence[Body]
    blobs: Sequence[tuple[str, bytes]]
    tell: Told
    numbered: Sequence[tuple[Recorded, Body]] = ()


def _nobody(_recorded: Sequence[Recorded], _error: BaseException | None) -> None:
    pass


_Ended = tuple[Append, Sequence[Recorded], BaseException | None]
_CHECKPOINT = Append((), (), (), _nobody)
"""Asks the thread to look whether a checkpoint is due."""

_open: set[int] = set()
"""The writers of this process."""


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
        self._owed: list[tuple[Recorded, Body]] = []
        self._wal_pages = 0
        self._connection.set_wal_hook(self._note_wal)
        self._quick_commits = 0
        self._turn = threading.Lock()
        """Held by whoever works with the connection."""
        self._queue: queue.SimpleQueue[Append | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"journal {session}", daemon=True)
        self._thread.start()
        _open.add(id(self))

    @property
    def end(self) -> tuple[int, int]:
        """Number and time of the newest event that is durable."""
        return self._durable_head.seq, self._durable_head.time_us

    def append(self, item: Append) -> None:
        self._queue.put(item)

    def append_now(self, item: Append) -> bool:
        """Writes in the thread of the caller, who has nothing in the queue, and tells before it returns.
        False when that might take long; then nothing was done."""
        if self._quick_commits < _QUICK_COMMITS or len(_open) > 1 or not self._is_small(item):
            return False
        if not self._turn.acquire(blocking=False):
            return False
        owed = len(self._owed)
        try:
            self._owed.extend(item.numbered)  # these are kept, whatever comes
            if not self._begin_now():
                del self._owed[owed:]
                return False
            [(_, recorded, error)] = self._write_each([item])
        except BaseException:  # a signal comes to the thread of the event loop, anywhere
            self._undo()
            raise
        finally:
            self._turn.release()
        if self._wal_pages > _CHECKPOINT_PAGES:
            self._queue.put(_CHECKPOINT)
        item.tell(recorded, error)
        return True

    def _is_small(self, item: Append) -> bool:
        if self.waiting or item.blobs:
            return False
        return sum([len(body) for _, body in item.encoded]) <= _SMALL_BYTES

    def _begin_now(self) -> bool:
        """Begins a transaction, unless somebody else is in one or the disk has a fault."""
        try:
            self._connection.set_busy_timeout(0)
            self._connection.execute("BEGIN IMMEDIATE")
        except apsw.Error:
            self._quick_commits = 0
            return False
        finally:
            self._connection.set_busy_timeout(tables.BUSY_MS)
        return True

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
        _open.discard(id(self))
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
                with self._turn:
                    ended = self._write_each(batch) if batch else []
                for item, recorded, error in ended:
                    item.tell(recorded, error)
                if self._wal_pages > (_CHECKPOINT_PAGES if self._queue.empty() else _CHECKPOINT_NOW_PAGES):
                    with self._turn:
                        self._checkpoint(apsw.SQLITE_CHECKPOINT_PASSIVE)
        except BaseException as error:
            # A fault of ours: nobody may wait for ever for a thread that is gone.
            self._quick_commits = 0
            self._refuse(batch, error)
            while is_open:
                batch, is_open = self._next_batch()
                self._refuse(batch, error)
            raise
        finally:
            self._connection.set_busy_timeout(0)
            self._checkpoint(apsw.SQLITE_CHECKPOINT_TRUNCATE)
            self._connection.close()

    def _next_batch(self) -> tuple[list[Append], bool]:
        batch: list[Append] = []
        item = self._queue.get()
        while item is not None:
            if item is not _CHECKPOINT:
                batch.append(item)
            self._owed.extend(item.numbered)
            if len(batch) == _GROUP or self._queue.empty():
                return batch, True
            item = self._queue.get_nowait()
        return batch, False

    def _write_each(self, batch: list[Append]) -> list[_Ended]:
        """Writes what can be written, and gives whom to tell of what."""
        try:
            written = self._write(batch)
        except apsw.Error as error:
            self._undo()
            if len(batch) > 1:
                return [ended for item in batch for ended in self._write_each([item])]
            refusal = tables.explain(error, self._session)
        except JournalError as error:
            self._undo()
            refusal = error
        else:
            return [(item, recorded, None) for item, recorded in zip(batch, written, strict=True)]
        self._has_refused = True
        return [(item, (), refusal) for item in batch]

    @property
    def is_stillborn(self) -> bool:
        """Whether the first events of a new journal could not be written: nothing is in it."""
        return self._is_empty and self._has_refused

    def _refuse(self, batch: list[Append], error: BaseException) -> None:
        self._has_refused = True
        for item in batch:
            item.tell((), error)

    def _write(self, batch: list[Append]) -> list[list[Recorded]]:
        connection, began = self._connection, time.monotonic()
        if not connection.in_transaction:
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
        for recorded, body in self._owed:
            if recorded.seq != head.seq + 1:
                raise apsw.ConstraintError(f"event {recorded.seq} follows {head.seq}")
            head = self._insert([body], recorded.time_us, head)
        written: list[list[Recorded]] = []
        for item in batch:
            for sha256, data in item.blobs:
                tables.keep_blob(connection, sha256, data)
            # A clock set back must not make a later event look older.
            time_us = max(head.time_us, time.time_ns() // 1000)
            written.append(
                [Recorded(seq, time_us, event) for seq, event in enumerate(item.events, head.seq + 1)]
            )
            head = self._insert(item.encoded, time_us, head)
        connection.execute("COMMIT")
        is_quick = time.monotonic() - began < _QUICK_S
        self._quick_commits = self._quick_commits + 1 if is_quick else 0
        self._head = self._durable_head = head
        self._owed.clear()
        self._is_empty = head.seq == 0
        for sha256 in blobs:
            self.waiting.pop(sha256, None)
        return written

    def _insert(self, bodies: Sequence[Body], time_us: int, head: ChainHead) -> ChainHead:
        """Adds events to the chain, and gives its new end."""
        seq, hash_ = head.seq, head.hash
        rows: list[tuple[Any, ...]] = []
        keep = partial(tables.keep_blob, self._connection)
        for kind, body in bodies:
            seq += 1
            stored = hashchain.stored_form(body, keep)
            hash_ = hashchain.chain(hash_, seq, time_us, kind, stored)
            rows.append((seq, time_us, kind, stored, hash_))
        self._connection.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?)", rows)
        return ChainHead(seq, time_us, hash_)

    def _undo(self) -> None:
        self._head, self._quick_commits = None, 0
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
