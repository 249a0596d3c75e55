"""A journal in Postgres, open for reading, and one unchanging view of it for checks, copies and exports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import msgspec

from mainspring.errors import JournalDamaged
from mainspring.events import Blob, Recorded, decode
from mainspring.journal import Verification, hashchain, tables
from mainspring.journal.anchor import Anchor
from mainspring.journal.postgres.connection import StoreConnection
from mainspring.journal.stored import Row
from mainspring.journal.verification import against_anchor, check, damaged

_T = TypeVar("_T")
_LAST = 2**63 - 1
_PAGE = 1000
_PIECE_BYTES = 1_000_000

_SELECTED = """
SELECT seq, time_us, kind, body FROM mainspring.events
WHERE session = $1 AND seq > $2 AND seq <= $3 {} ORDER BY seq LIMIT $4
"""
_NEWEST = """
SELECT max(seq) FROM unnest($2::text[]) AS wanted(name), LATERAL (
    SELECT seq FROM mainspring.events WHERE session = $1 AND kind = wanted.name ORDER BY seq DESC LIMIT 1
) AS found
"""
_LAST_SEQ = "SELECT last_seq FROM mainspring.sessions WHERE id = $1"
_COUNT = "SELECT count(*) FROM mainspring.events WHERE session = $1 AND kind = $2 AND seq > $3 AND seq <= $4"
_HASH = "SELECT hash FROM mainspring.events WHERE session = $1 AND seq = $2"
_BLOB = "SELECT size, codec, data FROM mainspring.blobs WHERE session = $1 AND sha256 = $2 ORDER BY piece"
_ROWS = """
SELECT seq, time_us, kind, body, hash FROM mainspring.events
WHERE session = $1 AND seq > $2 AND seq <= $3 ORDER BY seq LIMIT $4
"""
_BLOB_NAMES = "SELECT DISTINCT sha256 FROM mainspring.blobs WHERE session = $1"
_ANCHOR = "SELECT anchor_seq, anchor_head, last_seq, head FROM mainspring.sessions WHERE id = $1"


class PostgresReader:
    """A session's journal, open for reading."""

    def __init__(self, session: str, connection: StoreConnection) -> None:
        self._session = session
        self._connection = connection

    @property
    def session(self) -> str:
        return self._session

    async def _settled(self) -> StoreConnection:
        """The connection, once all that can be read is in the database."""
        return self._connection

    async def last_seq(self) -> int:
        return await (await self._settled()).use(lambda c: c.fetchval(_LAST_SEQ, self.session)) or 0

    async def read(
        self, *, after: int = 0, until: int | None = None, kinds: Collection[str] = (), limit: int = 1000
    ) -> list[Recorded]:
        end = _LAST if until is None else until
        chosen = "AND kind = ANY($5)" if kinds else ""
        more = (list(kinds),) if kinds else ()

        async def found(connection: Any) -> list[Recorded]:
            rows = await connection.fetch(
                _SELECTED.format(chosen), self.session, max(after, 0), max(end, 0), max(limit, 0), *more
            )
            numbers = [row[0] for row in rows]
            if not kinds and numbers != list(range(max(after, 0) + 1, max(after, 0) + 1 + len(rows))):
                raise ValueError("an event is missing")
            return [await self._recorded(connection, *row) for row in rows]

        return await self._sound(found)

    async def last(self, *kinds: str) -> Recorded | None:
        async def found(connection: Any) -> Recorded | None:
            if kinds:
                seq = await connection.fetchval(_NEWEST, self.session, list(kinds))
            else:
                seq = await connection.fetchval(_LAST_SEQ, self.session)
            if not seq:
                return None
            row = await connection.fetchrow(_SELECTED.format(""), self.session, seq - 1, seq, 1)
            if row is None:
                raise ValueError(f"event {seq} is missing")
            return await self._recorded(connection, *row)

        return await self._sound(found)

    async def count(self, kind: str, *, after: int = 0, until: int | None = None) -> int:
        end = _LAST if until is None else until
        return await (await self._settled()).use(lambda c: c.fetchval(_COUNT, self.session, kind, after, end))

    async def chain_hash(self, seq: int) -> str:
        found = await (await self._settled()).use(lambda c: c.fetchval(_HASH, self.session, seq))
        return found.hex() if found else ""

    async def get(self, blob: Blob) -> bytes:
        try:
            return await (await self._settled()).use(lambda c: read_blob(c, self.session, blob.sha256))
        except ValueError as error:
            raise JournalDamaged(
                f"In session {self.session} {error}.", remedy="Restore it from a backup or an export."
            ) from error

    async def verify(self) -> Verification:
        async with stored_events(await self._settled(), self.session) as stored:
            return await asyncio.to_thread(stored.verdict)

    async def close(self) -> None:
        await self._connection.close()

    async def _sound(self, found: Callable[[Any], Coroutine[Any, Any, _T]]) -> _T:
        try:
            return await (await self._settled()).use(found)
        except (msgspec.MsgspecError, ValueError, TypeError) as error:
            raise damaged(self.session, await self.verify()) from error

    async def _recorded(self, connection: Any, seq: int, time_us: int, kind: str, body: bytes) -> Recorded:
        spilled = hashchain.referenced(body)
        if spilled is not None:
            body = await read_blob(connection, self.session, spilled.sha256)
        return Recorded(seq, time_us, decode(kind, body))


async def read_blob(connection: Any, session: str, sha256: str) -> bytes:
    """The blob's bytes; ValueError when they are missing or not what the hash names."""
    pieces = await connection.fetch(_BLOB, session, bytes.fromhex(sha256))
    if not pieces:
        raise ValueError(f"blob {sha256[:12]} is missing")
    size, codec, _ = pieces[0]
    return tables.checked(sha256, size, codec, b"".join(piece[2] for piece in pieces))


def pieces_of(sha256: str, data: bytes) -> Iterator[tuple[bytes, int, int, str, bytes]]:
    """A blob as it is kept, piece by piece: its hash, number of the piece, size of all, codec, bytes."""
    codec, packed = tables.pack(data)
    for piece, start in enumerate(range(0, max(len(packed), 1), _PIECE_BYTES)):
        yield bytes.fromhex(sha256), piece, len(data), codec, packed[start : start + _PIECE_BYTES]


@asynccontextmanager
async def stored_events(connection: StoreConnection, session: str) -> AsyncGenerator[PostgresEvents]:
    """One view of a journal, to be used in another thread while this one waits."""
    async with connection.held() as held, held.transaction(isolation="repeatable_read", readonly=True):
        yield PostgresEvents(held, session, await held.fetchrow(_ANCHOR, session))


class PostgresEvents:
    """What a transaction sees of a journal, as `StoredEvents` describes it, and its anchor."""

    def __init__(self, connection: Any, session: str, ends: Any) -> None:
        self.connection, self._session, self._loop = connection, session, asyncio.get_running_loop()
        self.is_known = ends is not None
        anchor_seq, anchor_head, last_seq, head = ends or (0, b"", 0, b"")
        self.anchor = Anchor(events=anchor_seq, head=anchor_head.hex()) if anchor_seq else None
        self.end = Anchor(events=last_seq, head=head.hex())

    def verdict(self) -> Verification:
        """What checking everything finds; the journal must also end where the list of sessions says."""
        verdict = check(self, self.anchor)
        if verdict.problem:
            return verdict
        whole = against_anchor(verdict, self.end, self)
        return whole if whole.problem else verdict

    def rows(self, until: int | None = None) -> Iterator[Row]:
        after, end = -1, _LAST if until is None else until
        while page := self._wait(self.connection.fetch(_ROWS, self._session, after, end, _PAGE)):
            yield from (tuple(row) for row in page)
            after = page[-1][0]

    def hash_at(self, seq: int) -> bytes:
        return self._wait(self.connection.fetchval(_HASH, self._session, seq)) or b""

    def blob(self, sha256: str) -> bytes:
        return self._wait(read_blob(self.connection, self._session, sha256))

    def fault_beside_events(self, seen: set[str]) -> str:
        names: Sequence[Any] = self._wait(self.connection.fetch(_BLOB_NAMES, self._session))
        for (key,) in names:
            if key.hex() not in seen:
                try:
                    self.blob(key.hex())
                except ValueError as error:
                    return f"a blob cannot be read ({error})"
                seen.add(key.hex())
        return ""

    def _wait(self, asked: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(asked, self._loop).result()
