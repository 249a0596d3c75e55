"""How a session whose events are known comes into a Postgres database: whole or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from mainspring.catalog.folder import exists, unknown
from mainspring.disk.shared_files import NamedFiles
from mainspring.journal import hashchain
from mainspring.journal.lines import refused
from mainspring.journal.postgres.files import write_files
from mainspring.journal.postgres.reader import PostgresEvents, pieces_of
from mainspring.journal.stored import Row

Item = str | tuple[str, bytes] | Row
"""The hash of a blob to copy, a blob, or an event."""

_CHUNK = 1000

CREATE = """
WITH made AS (INSERT INTO mainspring.sessions (id, head) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING id)
SELECT id FROM made UNION ALL SELECT id FROM mainspring.sessions WHERE id = $1 AND last_seq = 0
    AND NOT EXISTS (SELECT 1 FROM mainspring.leases WHERE name = 'session/' || $1)
"""
"""Also gives one that was made and never opened, as when the answer to its making was lost."""

_FINISH = """
UPDATE mainspring.sessions SET last_seq = $2, head = $3, time_us = $4, anchor_seq = $2, anchor_head = $3
WHERE id = $1
"""
_ADD_EVENTS = "INSERT INTO mainspring.events VALUES ($1, $2, $3, $4, $5, $6)"
_ADD_PIECES = "INSERT INTO mainspring.blobs VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING"
_COPY_BLOB = """
INSERT INTO mainspring.blobs SELECT $1, sha256, piece, size, codec, data FROM mainspring.blobs
WHERE session = $2 AND sha256 = $3 ON CONFLICT DO NOTHING
"""
_KEEP = "SELECT true FROM mainspring.sessions WHERE id = $1 FOR KEY SHARE"
"""Nobody deletes it until the transaction ends; who runs it goes on."""


async def make_session(
    held: Any, name: str, items: Iterator[Item], files: NamedFiles, *, copied_from: str
) -> None:
    """Makes a session in its caller's transaction: of events, and of blobs, given or named in another one,
    which nobody deletes meanwhile."""
    end: Row = (0, 0, "", b"", hashchain.GENESIS)
    if copied_from and not await held.fetchval(_KEEP, copied_from):
        raise unknown(copied_from)
    if not await held.fetchval(CREATE, name, hashchain.GENESIS):
        raise exists(name, "Delete it first, to import it again.")
    while chunk := await asyncio.to_thread(lambda: list(islice(items, _CHUNK))):
        events = await _add(held, name, chunk, copied_from)
        end = events[-1] if events else end
    await held.execute(_FINISH, name, end[0], end[4], end[1])
    await write_files(held, f"sessions/{name}", files)
    verdict = await asyncio.to_thread(PostgresEvents(held, name, (end[0], end[4]) * 2).verdict)
    if verdict.problem:
        raise refused(f"after its last line {verdict.problem}", verdict.broken_seq)


async def _add(held: Any, name: str, chunk: Iterable[Item], copied_from: str) -> list[Row]:
    events: list[Row] = []
    for item in chunk:
        if isinstance(item, str):
            await held.execute(_COPY_BLOB, name, copied_from, bytes.fromhex(item))
        elif len(item) == 2:
            await held.executemany(_ADD_PIECES, [(name, *piece) for piece in pieces_of(*item)])
        else:
            events.append(item)
    await held.executemany(_ADD_EVENTS, [(name, *event) for event in events])
    return events
