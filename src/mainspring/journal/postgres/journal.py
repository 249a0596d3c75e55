"""A journal in Postgres, open for writing by this process and this event loop.

An append is one statement that checks the lease, moves the end of the chain on from where this process knows
it to be, and adds the events; so it counts once however often it is sent. What waits while one is under way,
and what was numbered before, goes with the next. The lease is renewed by a task; it ends with the process.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from mainspring.disk.log import log
from mainspring.errors import JournalError
from mainspring.events import Blob, Event, Recorded
from mainspring.journal import Verification, hashchain
from mainspring.journal.anchor import Anchor
from mainspring.journal.postgres import leases
from mainspring.journal.postgres.connection import StoreConnection, literal
from mainspring.journal.postgres.reader import PostgresReader, pieces_of
from mainspring.journal.postgres.schema import when_ready
from mainspring.journal.stored import Row
from mainspring.journal.verification import anchored, not_writable
from mainspring.journal.waiting import Waiting

_WAITING_BYTES = 1024 * 1024
_DURABLE_WITHIN_S = 0.02

_APPEND = """
WITH lease AS (
    SELECT 1 FROM mainspring.leases
    WHERE name = {lease} AND epoch = {epoch} AND owner IS NOT NULL AND until > clock_timestamp() FOR SHARE
), moved AS (
    UPDATE mainspring.sessions
    SET last_seq = {last_seq}, head = {head}, time_us = {time_us}, changed = clock_timestamp()
    WHERE id = {session} AND last_seq = {before} AND EXISTS (SELECT 1 FROM lease) RETURNING id
){blobs}{events} SELECT 1 FROM moved
"""
_BLOBS = """, blobs AS (
    INSERT INTO mainspring.blobs SELECT moved.id, piece.* FROM moved, (VALUES {rows}) AS piece
    ON CONFLICT DO NOTHING
)"""
_EVENTS = """, added AS (
    INSERT INTO mainspring.events SELECT moved.id, event.* FROM moved, (VALUES {rows}) AS event
)"""
_HEAD = "SELECT last_seq, head, time_us, anchor_seq, anchor_head FROM mainspring.sessions WHERE id = $1"
_KEEP_ANCHOR = """
UPDATE mainspring.sessions SET anchor_seq = $4, anchor_head = $5
WHERE id = $1 AND $4 > 0 AND EXISTS (
    SELECT 1 FROM mainspring.leases WHERE name = $2 AND epoch = $3 AND owner IS NOT NULL
)
"""
_BROKEN = """
SELECT place, seq, hash FROM (
    SELECT seq, hash, row_number() OVER (ORDER BY seq) AS place, sha256(
        coalesce(lag(hash) OVER (ORDER BY seq), decode(repeat('00', 32), 'hex'))
        || int8send(seq) || int8send(time_us) || int4send(octet_length(convert_to(kind, 'UTF8')))
        || convert_to(kind, 'UTF8') || body
    ) AS expected FROM mainspring.events WHERE session = $1
) AS chain WHERE expected <> hash OR place <> seq ORDER BY seq LIMIT 1
"""
_HIGHEST = "SELECT coalesce(max(seq), 0) FROM mainspring.events WHERE session = $1"
_NEWEST = "SELECT seq, hash FROM mainspring.events WHERE session = $1 AND seq = $2"


class ChainEnd(msgspec.Struct, frozen=True, gc=False):
    """Where the chain ends."""

    seq: int
    hash: bytes
    time_us: int


class _Append(msgspec.Struct, frozen=True, gc=False):
    """Events with their kinds and bodies. Either somebody waits for their numbers, or they have them."""

    events: Sequence[Event]
    encoded: Sequence[tuple[str, bytes]]
    waiting: Waiting | None = None
    numbered: Sequence[Recorded] = ()


async def open_journal(session: str, connection: StoreConnection) -> PostgresJournal:
    """Takes the session for this process, once its chain is known to be sound."""
    name, mine = leases.of_session(session), leases.record()
    lease_s = connection.address.lease_s
    taken = when_ready(lambda c: leases.take(c, name, lease_s, mine=mine, shown=session))
    epoch = await connection.use(taken)
    try:
        end, verdict = await connection.use(lambda c: sound_end(c, session))
        if verdict.problem:
            raise not_writable(session, verdict)
    except BaseException:
        await connection.use(lambda c: leases.give_back(c, name, epoch))
        raise
    return PostgresJournal(session, connection, epoch, end)


async def sound_end(connection: Any, session: str) -> tuple[ChainEnd, Verification]:
    """Where the chain ends, and whether all hashes up to there are right; the database computes them."""
    last_seq, head, time_us, anchor_seq, anchor_head = await connection.fetchrow(_HEAD, session)
    end = ChainEnd(last_seq, head, time_us)
    broken = await connection.fetchrow(_BROKEN, session)
    newest = await connection.fetchrow(_NEWEST, session, last_seq)
    if broken is not None:
        place, seq, _ = broken
        problem = (
            f"event {place} does not match its hash"
            if seq == place
            else f"event {place} is missing, the next one is {seq}"
        )
        return end, _broken_at(place, problem)
    if last_seq and newest is None:
        found = await connection.fetchval(
            "SELECT max(seq) FROM mainspring.events WHERE session = $1", session
        )
        events = found or 0
        verdict = Verification(events=events, blobs=0, head="")
        return end, anchored(verdict, Anchor(events=last_seq, head=head.hex()), "")
    if last_seq and newest[1] != head:
        return end, _broken_at(last_seq, f"event {last_seq} does not match its hash")
    verdict = Verification(events=last_seq, blobs=0, head=head.hex())
    if not anchor_seq:
        return end, verdict
    found = await connection.fetchrow(_NEWEST, session, anchor_seq)
    anchor = Anchor(events=anchor_seq, head=anchor_head.hex())
    return end, anchored(verdict, anchor, found[1].hex() if found else "")


def _broken_at(seq: int, problem: str) -> Verification:
    return Verification(events=seq - 1, blobs=0, head="", problem=problem, broken_seq=seq)


class PostgresJournal(PostgresReader):
    def __init__(self, session: str, connection: StoreConnection, epoch: int, end: ChainEnd) -> None:
        super().__init__(session, connection)
        self._lease, self._epoch, self._end = leases.of_session(session), epoch, end
        self._blobs: dict[str, bytes] = {}
        self._blob_bytes = 0
        self._queue: list[_Append] = []
        self._numbered: list[_Append] = []
        self._timer: asyncio.TimerHandle | None = None
        self._has_failed = False
        self._loop = asyncio.get_running_loop()
        self._writing: asyncio.Task[None] | None = None
        self._renewing = asyncio.create_task(leases.keep_renewed(connection, self._lease, epoch))
        self._on_appended: Callable[[Sequence[Recorded]], None] | None = None
        self._on_durable: Callable[[int], None] | None = None
        self._is_lost = self._is_closed = False

    def subscribe(
        self,
        on_appended: Callable[[Sequence[Recorded]], None],
        on_durable: Callable[[int], None] | None = None,
    ) -> None:
        self._on_appended, self._on_durable = on_appended, on_durable

    async def append(self, *events: Event, is_durable: bool = True) -> Sequence[Recorded]:
        if not events:
            return ()
        # Behind an append whose number is not known yet, or that failed, there is no number to give.
        if is_durable or self._is_writing or self._has_failed or self._is_closed:
            return await self._append(events)
        return self._number(events)

    def _number(self, events: Sequence[Event]) -> Sequence[Recorded]:
        encoded = [hashchain.encoded(event) for event in events]
        newest = self._numbered[-1].numbered[-1] if self._numbered else self._end
        time_us = max(newest.time_us, time.time_ns() // 1000)
        recorded = [Recorded(seq, time_us, event) for seq, event in enumerate(events, newest.seq + 1)]
        self._numbered.append(_Append(events, encoded, numbered=recorded))
        if self._timer is None:
            self._timer = self._loop.call_later(_DURABLE_WITHIN_S, self._write_numbered)
        if self._on_appended is not None:
            self._on_appended(recorded)
        return recorded

    def _write_numbered(self) -> None:
        self._timer = None
        if self._numbered and not self._is_writing:
            self._writing = self._loop.create_task(self._write_queue())

    async def _settled(self) -> StoreConnection:
        if self._numbered:
            await self._append(())
        return self._connection

    async def put(self, data: bytes, media_type: str = "text/plain") -> Blob:
        sha256 = hashlib.sha256(data).hexdigest()
        self._blob_bytes = len(data) + (self._blob_bytes if self._blobs else 0)
        self._blobs[sha256] = data
        if self._blob_bytes > _WAITING_BYTES:
            await self._append(())
        return Blob(sha256=sha256, size=len(data), media_type=media_type)

    async def get(self, blob: Blob) -> bytes:
        waiting = self._blobs.get(blob.sha256)
        return await super().get(blob) if waiting is None else waiting

    async def anchor(self) -> None:
        await (await self._settled()).use(self._keep_anchor)

    async def close(self) -> None:
        """Raises `JournalUnwritable` when a kept blob could not be written, and closes all the same."""
        if self._is_closed:
            return
        try:
            if self._numbered or (self._blobs and not self._is_lost):
                await self._append(())
        finally:
            self._is_closed, self._numbered = True, []
            if self._timer is not None:
                self._timer.cancel()
            await asyncio.shield(self._end_lease())

    async def _end_lease(self) -> None:
        self._renewing.cancel()
        await asyncio.wait([self._renewing, *([self._writing] if self._writing else [])])
        try:
            await self._connection.use(self._keep_anchor)
            await self._connection.use(lambda c: leases.give_back(c, self._lease, self._epoch))
        except JournalError as error:
            # The lease ends by itself, and a journal may be ahead of its anchor.
            log("lease not given back", session=self.session, error=error.message)
        finally:
            await self._connection.close()

    async def _keep_anchor(self, connection: Any) -> None:
        end = self._end
        await connection.execute(_KEEP_ANCHOR, self.session, self._lease, self._epoch, end.seq, end.hash)

    async def _append(self, events: Sequence[Event]) -> Sequence[Recorded]:
        if self._is_closed:
            raise RuntimeError(f"the journal of session {self.session} is closed")
        encoded = [hashchain.encoded(event) for event in events]
        waiting = Waiting(self._loop)
        self._queue.append(_Append(events, encoded, waiting))
        if not self._is_writing:
            self._writing = self._loop.create_task(self._write_queue())
        return await waiting.result()

    @property
    def _is_writing(self) -> bool:
        return self._writing is not None and not self._writing.done()

    async def _write_queue(self) -> None:
        while self._queue or (self._numbered and not self._has_failed):
            batch, self._queue = [*self._numbered, *self._queue], []
            blobs = dict(self._blobs)
            try:
                written = await self._write(batch, blobs)
            except Exception as error:  # noqa: BLE001 - handed to everybody who waits, or to the next who does
                self._has_failed = True
                for item in batch:
                    if item.waiting is not None:
                        item.waiting.end((), error)
                continue
            self._has_failed, self._numbered = False, []
            for sha256 in blobs:
                self._blobs.pop(sha256, None)
            for item, recorded in zip(batch, written, strict=True):
                if item.waiting is None:
                    continue
                item.waiting.end(recorded, None)  # wakes the caller in a later step of the loop
                if recorded and self._on_appended is not None:
                    self._on_appended(recorded)
            if self._on_durable is not None and self._end.seq:
                self._on_durable(self._end.seq)

    async def _write(self, batch: Sequence[_Append], blobs: dict[str, bytes]) -> list[list[Recorded]]:
        rows: list[Row] = []
        written: list[list[Recorded]] = []
        end = self._end
        for item in batch:
            recorded, end = self._chained(item, end, rows, blobs)
            written.append(recorded)
        pieces = [piece for sha256, data in blobs.items() for piece in pieces_of(sha256, data)]
        if await self._move(end, rows, pieces):
            self._end = end
            return written
        self._is_lost = True
        raise leases.lost(self.session)

    def _chained(
        self, item: _Append, end: ChainEnd, rows: list[Row], blobs: dict[str, bytes]
    ) -> tuple[list[Recorded], ChainEnd]:
        # A clock set back must not make a later event look older.
        time_us = item.numbered[0].time_us if item.numbered else max(end.time_us, time.time_ns() // 1000)
        seq, head = end.seq, end.hash
        recorded: list[Recorded] = []
        for event, (kind, body) in zip(item.events, item.encoded, strict=True):
            seq += 1
            stored = hashchain.stored_form(body, blobs.__setitem__)
            head = hashchain.chain(head, seq, time_us, kind, stored)
            rows.append((seq, time_us, kind, stored, head))
            recorded.append(Recorded(seq, time_us, event))
        return recorded, ChainEnd(seq, head, time_us)

    async def _move(
        self, end: ChainEnd, rows: Sequence[Row], pieces: Sequence[tuple[int | str | bytes, ...]]
    ) -> bool:
        """Whether the journal ends there now; what was sent before and did arrive counts as well."""
        moved = await self._connection.tell(
            _APPEND.format(
                lease=literal(self._lease),
                epoch=self._epoch,
                session=literal(self.session),
                before=self._end.seq,
                last_seq=end.seq,
                head=literal(end.hash),
                time_us=end.time_us,
                blobs=_BLOBS.format(rows=_values(pieces)) if pieces else "",
                events=_EVENTS.format(rows=_values(rows)) if rows else "",
            )
        )
        if moved or not rows:
            return bool(moved)
        found = await self._connection.use(lambda c: c.fetchrow(_HEAD, self.session))
        return found is not None and (found[0], found[1]) == (end.seq, end.hash)


def _values(rows: Sequence[tuple[int | str | bytes, ...]]) -> str:
    return ", ".join(f"({', '.join(map(literal, row))})" for row in rows)
