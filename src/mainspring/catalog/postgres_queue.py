"""Work that machines share, in Postgres: two tables, claimed with SKIP LOCKED, and NOTIFY as a hint.

A claim is good for as long as its worker says hello. Whoever works on a session has its lease as well, which
keeps two from writing: a session whose lease lives is offered to nobody, whatever became of its worker.
When something is to be tried again, or wakes, is written and read as how far away it is, so that a machine
with a wrong clock makes nobody wait.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from typing import Any, TypeVar

import asyncpg

from mainspring.catalog.fold import SessionRow
from mainspring.catalog.postgres import PostgresSessions
from mainspring.catalog.queue import ClaimChoice, Claimed, QueuedSession, Release, WorkerRow
from mainspring.disk.log import log
from mainspring.journal.postgres.connection import StoreConnection, connected_to
from mainspring.journal.postgres.schema import when_ready

_T = TypeVar("_T")
_CHANNEL = "mainspring_queue"

_COLUMNS = """
q.session, q.queue, q.labels, q.person, q.options, q.added, coalesce(q.worker, ''), q.iterations, q.crashes,
extract(epoch FROM q.retry - clock_timestamp())::float8,
extract(epoch FROM q.wake - clock_timestamp())::float8, q.is_drained, q.is_set_aside, q.detail, q.idle_seq
"""
_PUT = """
INSERT INTO mainspring.queue (session, queue, labels, person, options) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (session) DO UPDATE SET queue = $2, labels = $3, person = $4, options = $5, crashes = 0,
    retry = NULL, wake = NULL, idle_seq = -1, is_set_aside = false, is_drained = false, detail = ''
"""
_LOOK = f"SELECT {_COLUMNS} FROM mainspring.queue AS q WHERE session = $1"  # noqa: S608 - our own words
_ITEMS = f"""
SELECT {_COLUMNS} FROM mainspring.queue AS q JOIN mainspring.sessions AS s ON s.id = q.session
WHERE q.worker IS NOT NULL OR q.is_set_aside OR q.idle_seq <> s.last_seq OR q.wake IS NOT NULL
ORDER BY q.added, q.session
"""  # noqa: S608 - our own words
_WORKERS = """
SELECT id, queue, labels, capacity, host, pid, version, started,
    extract(epoch FROM clock_timestamp() - seen)::float8, until > clock_timestamp(), is_draining
FROM mainspring.workers WHERE seen > clock_timestamp() - interval '1 day' ORDER BY started DESC, id
"""
_HELLO = """
INSERT INTO mainspring.workers AS known (id, queue, labels, capacity, host, pid, version, seen, until)
VALUES ($1, $2, $3, $4, $5, $6, $7, clock_timestamp(), clock_timestamp() + make_interval(secs => $8))
ON CONFLICT (id) DO UPDATE SET seen = excluded.seen, until = excluded.until RETURNING is_draining
"""
_GOODBYE = "DELETE FROM mainspring.workers WHERE id = $1"
_DRAIN = "UPDATE mainspring.workers SET is_draining = true WHERE id = $1"
_FREE = """
(q.worker IS NULL OR (q.worker = $3 AND q.session <> ALL($4::text[]))
    OR NOT EXISTS (SELECT 1 FROM alive WHERE alive.id = q.worker))
"""
_OFFER = f"""
WITH alive AS (SELECT id FROM mainspring.workers WHERE until > clock_timestamp()),
served AS (
    SELECT person, count(alive.id) AS count, max(claimed) AS last
    FROM mainspring.queue LEFT JOIN alive ON alive.id = worker GROUP BY person
), ready AS (
    SELECT q.session, served.last AS served, served.count
        + row_number() OVER (PARTITION BY q.person ORDER BY q.added, q.session) AS turn
    FROM mainspring.queue AS q JOIN mainspring.sessions AS s ON s.id = q.session
    JOIN served ON served.person = q.person
    LEFT JOIN mainspring.leases AS lease ON lease.name = 'session/' || q.session
    WHERE q.queue = $1 AND q.labels <@ $2::text[] AND NOT q.is_set_aside AND {_FREE}
        AND ($6::text[] IS NULL OR q.session = ANY($6))
        AND q.session <> ALL($7::text[])
        AND (q.idle_seq <> s.last_seq OR q.wake <= clock_timestamp())
        AND (q.retry IS NULL OR q.retry <= clock_timestamp())
        AND (lease.owner IS NULL OR lease.until <= clock_timestamp())
)
SELECT {_COLUMNS} FROM mainspring.queue AS q JOIN ready ON ready.session = q.session
WHERE NOT q.is_set_aside AND {_FREE}
ORDER BY ready.turn, ready.served NULLS FIRST, q.added, q.session LIMIT $5 FOR UPDATE OF q SKIP LOCKED
"""  # noqa: S608 - our own words
_TAKE = """
UPDATE mainspring.queue SET worker = $2, claimed = clock_timestamp(), iterations = $3, crashes = $4,
    detail = $5, retry = NULL, wake = NULL, idle_seq = -1 WHERE session = $1
"""
_IDLE = """
UPDATE mainspring.queue SET worker = NULL, idle_seq = $2, is_drained = false, crashes = 0, wake =
    coalesce(clock_timestamp() + make_interval(secs => $3), CASE WHEN wake > clock_timestamp() THEN wake END)
WHERE session = $1
"""
_SET_ASIDE = """
UPDATE mainspring.queue SET worker = NULL, is_set_aside = true, crashes = $2, detail = $3 WHERE session = $1
"""
_DRAINING = "UPDATE mainspring.queue SET is_drained = true WHERE session = ANY($1::text[])"
_RELEASE = """
UPDATE mainspring.queue SET worker = NULL, crashes = $3, detail = $4,
    retry = clock_timestamp() + make_interval(secs => $5),
    wake = clock_timestamp() + make_interval(secs => $6), idle_seq = coalesce($7, -1), is_drained = $8
WHERE session = $1 AND worker = $2
"""
_RETRY = """
UPDATE mainspring.queue SET is_set_aside = false, crashes = 0, retry = NULL, idle_seq = -1, detail = ''
WHERE session = $1 RETURNING session
"""
_NEXT = """
SELECT extract(epoch FROM min(at) - clock_timestamp())::float8 FROM mainspring.queue AS q
LEFT JOIN mainspring.leases AS lease ON lease.name = 'session/' || q.session AND lease.owner IS NOT NULL
LEFT JOIN mainspring.workers AS other ON other.id = q.worker
CROSS JOIN LATERAL unnest(ARRAY[q.retry, q.wake, lease.until, other.until]) AS at
WHERE q.queue = $1 AND q.labels <@ $2::text[] AND NOT q.is_set_aside AND q.worker IS DISTINCT FROM $3
    AND (q.worker IS NOT NULL OR q.retry IS NOT NULL OR q.wake IS NOT NULL) AND at > clock_timestamp()
"""
_POKE = f"SELECT pg_notify('{_CHANNEL}', '')"


class PostgresQueue:
    """The work of one database."""

    def __init__(self, sessions: PostgresSessions) -> None:
        self._sessions = sessions
        self._connection = StoreConnection(sessions.address)

    async def close(self) -> None:
        await self._connection.close()

    async def put(self, item: QueuedSession) -> None:
        given = (item.session, item.queue, item.labels, item.person, item.options)
        await self._use(lambda c: c.execute(_PUT, *given))
        await self.poke(item.session)

    async def look(self, session: str) -> QueuedSession | None:
        row = await self._use(lambda c: c.fetchrow(_LOOK, session))
        return _item(row) if row is not None else None

    async def items(self) -> list[QueuedSession]:
        return [_item(row) for row in await self._use(lambda c: c.fetch(_ITEMS))]

    async def workers(self) -> list[WorkerRow]:
        return [_worker(row) for row in await self._use(lambda c: c.fetch(_WORKERS))]

    async def hello(self, worker: WorkerRow, lease_s: float) -> bool:
        given = (worker.id, worker.queue, worker.labels, worker.capacity, worker.host, worker.pid)
        said = when_ready(lambda c: c.fetchval(_HELLO, *given, worker.version, lease_s))
        is_draining = await self._use(said)
        return not is_draining

    async def goodbye(self, worker: str) -> None:
        await self._use(lambda c: c.execute(_GOODBYE, worker))

    async def drain(self, worker: str) -> None:
        await self._use(lambda c: c.execute(_DRAIN, worker))
        await self.poke("")

    async def claim(
        self,
        worker: WorkerRow,
        mine: Sequence[str],
        limit: int,
        choose: Callable[[Claimed], Awaitable[ClaimChoice]],
        only: Collection[str] | None = None,
        without: Collection[str] = (),
    ) -> list[QueuedSession]:
        own = await self._sessions.rows_of(mine) if mine else []

        async def offer(connection: Any) -> list[QueuedSession]:
            among = None if only is None else list(only)
            asked = (worker.queue, worker.labels, worker.id, list(mine), limit, among, list(without))
            items = [_item(row) for row in await connection.fetch(_OFFER, *asked)]
            rows = {row.id: row for row in await self._sessions.rows_of([item.session for item in items])}
            offered = [(item, rows[item.session]) for item in items]
            choice = await choose(Claimed(offered=offered, mine=own))
            await _carry_out(connection, worker.id, choice, rows)
            return [item for item in items if item.session in choice.taken]

        return await self._use(offer)

    async def next_s(self, worker: WorkerRow) -> float | None:
        return await self._use(lambda c: c.fetchval(_NEXT, worker.queue, worker.labels, worker.id))

    async def standing(self, sessions: Sequence[str]) -> list[SessionRow]:
        return await self._sessions.rows_of(sessions)

    async def draining(self, sessions: Sequence[str]) -> None:
        await self._use(lambda c: c.execute(_DRAINING, list(sessions)))

    async def release(self, session: str, worker: str, given: Release) -> None:
        times = (_away_s(given.retry_us), _away_s(given.wake_us))
        rest = (given.crashes, given.detail, *times, given.idle_seq, given.is_drained)
        await self._use(lambda c: c.execute(_RELEASE, session, worker, *rest))

    async def retry(self, session: str) -> bool:
        is_found = await self._use(lambda c: c.fetchval(_RETRY, session)) is not None
        await self.poke(session)
        return is_found

    async def poke(self, session: str, why: str = "poke") -> None:  # noqa: ARG002 - all look at everything
        await self._use(lambda c: c.execute(_POKE))

    async def hear(
        self,
        on_hint: Callable[[], None],
        worker: WorkerRow,  # noqa: ARG002
        room: Callable[[], int],  # noqa: ARG002
    ) -> None:
        await _listen(self._sessions, on_hint)

    async def _use(self, do: Callable[[Any], Coroutine[Any, Any, _T]]) -> _T:
        return await self._connection.use(do)


async def _carry_out(connection: Any, worker: str, choice: ClaimChoice, rows: dict[str, SessionRow]) -> None:
    for session in choice.taken:
        crashes, detail = choice.crashes.get(session, (0, ""))
        await connection.execute(_TAKE, session, worker, rows[session].iterations, crashes, detail)
    for session, wake_us in choice.idle.items():
        await connection.execute(_IDLE, session, rows[session].events, _away_s(wake_us))
    for session, why in choice.set_aside.items():
        await connection.execute(_SET_ASIDE, session, choice.crashes.get(session, (0, ""))[0], why)


async def _listen(sessions: PostgresSessions, on_hint: Callable[[], None]) -> None:
    """Listens on a connection of its own. A hint that is lost, with the connection or behind a pooler, costs
    a little time: who waits for it looks by themselves as well."""
    while True:
        try:
            connection = await connected_to(sessions.address)
            try:
                await _hear(connection, on_hint)
            finally:
                connection.terminate()
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            log("no hints from the database", error=str(error))
        await asyncio.sleep(sessions.address.lease_s)


async def _hear(connection: Any, on_hint: Callable[[], None]) -> None:
    """Calls back for every hint until the connection is lost."""
    ended = asyncio.Event()

    def hear(*_: Any) -> None:
        on_hint()

    def end(_: Any) -> None:
        ended.set()

    connection.add_termination_listener(end)
    await connection.add_listener(_CHANNEL, hear)
    await ended.wait()


def _item(row: Any) -> QueuedSession:
    session, queue, labels, person, options, added, worker, iterations, crashes, retry, wake, *rest = row
    is_drained, is_set_aside, detail, idle_seq = rest
    return QueuedSession(
        session=session,
        queue=queue,
        labels=tuple(labels),
        person=person,
        options=tuple(options),
        added_us=_us(added) or 0,
        worker=worker,
        iterations=iterations,
        crashes=crashes,
        retry_us=_from_now_us(retry),
        wake_us=_from_now_us(wake),
        is_drained=is_drained,
        is_set_aside=is_set_aside,
        detail=detail,
        idle_seq=idle_seq,
    )


def _worker(row: Any) -> WorkerRow:
    name, queue, labels, capacity, host, pid, version, started, silent_s, is_alive, is_draining = row
    return WorkerRow(
        id=name,
        queue=queue,
        labels=tuple(labels),
        capacity=capacity,
        host=host,
        pid=pid,
        version=version,
        started_us=_us(started) or 0,
        silent_s=silent_s,
        is_alive=is_alive,
        is_draining=is_draining,
    )


def _us(time: Any) -> int | None:
    return None if time is None else round(time.timestamp() * 1e6)


def _away_s(at_us: int | None) -> float | None:
    return None if at_us is None else (at_us - time.time_ns() // 1000) / 1e6


def _from_now_us(away_s: float | None) -> int | None:
    return None if away_s is None else time.time_ns() // 1000 + round(away_s * 1e6)
