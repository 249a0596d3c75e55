"""How journals lie in Postgres: numbered steps forward, each in one transaction, never back."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from mainspring.errors import JournalForeign, JournalUnwritable
from mainspring.journal.postgres.connection import StoreAddress, StoreConnection

_T = TypeVar("_T")

_FIRST = """
CREATE SCHEMA IF NOT EXISTS mainspring;
CREATE TABLE mainspring.store (version integer NOT NULL);
INSERT INTO mainspring.store VALUES (0);
CREATE TABLE mainspring.sessions (
    id text COLLATE "C" PRIMARY KEY, last_seq bigint NOT NULL DEFAULT 0, head bytea NOT NULL,
    time_us bigint NOT NULL DEFAULT 0, changed timestamptz NOT NULL DEFAULT clock_timestamp(),
    anchor_seq bigint NOT NULL DEFAULT 0, anchor_head bytea NOT NULL DEFAULT ''
);
CREATE TABLE mainspring.events (
    session text COLLATE "C" NOT NULL REFERENCES mainspring.sessions ON DELETE CASCADE,
    seq bigint NOT NULL, time_us bigint NOT NULL, kind text COLLATE "C" NOT NULL,
    body bytea NOT NULL, hash bytea NOT NULL, PRIMARY KEY (session, seq)
);
CREATE INDEX events_by_kind ON mainspring.events (session, kind, seq);
CREATE TABLE mainspring.blobs (
    session text COLLATE "C" NOT NULL REFERENCES mainspring.sessions ON DELETE CASCADE,
    sha256 bytea NOT NULL, piece integer NOT NULL, size bigint NOT NULL, codec text NOT NULL,
    data bytea NOT NULL, PRIMARY KEY (session, sha256, piece)
);
CREATE TABLE mainspring.leases (
    name text COLLATE "C" PRIMARY KEY, epoch bigint NOT NULL, owner bytea, until timestamptz NOT NULL
);
CREATE TABLE mainspring.folds (
    session text COLLATE "C" NOT NULL REFERENCES mainspring.sessions ON DELETE CASCADE,
    version bigint NOT NULL, known bytea NOT NULL, PRIMARY KEY (session, version)
);

ALTER TABLE mainspring.blobs ALTER COLUMN data SET STORAGE EXTERNAL;
"""

_QUEUE = """
CREATE TABLE mainspring.workers (
    id text COLLATE "C" PRIMARY KEY, queue text NOT NULL, labels text[] NOT NULL, capacity integer NOT NULL,
    host text NOT NULL, pid integer NOT NULL, version text NOT NULL,
    started timestamptz NOT NULL DEFAULT clock_timestamp(), seen timestamptz NOT NULL,
    until timestamptz NOT NULL, is_draining boolean NOT NULL DEFAULT false
);
CREATE TABLE mainspring.queue (
    session text COLLATE "C" PRIMARY KEY REFERENCES mainspring.sessions ON DELETE CASCADE,
    queue text NOT NULL, labels text[] NOT NULL, person text NOT NULL, options text[] NOT NULL,
    added timestamptz NOT NULL DEFAULT clock_timestamp(), worker text COLLATE "C",
    claimed timestamptz, iterations integer NOT NULL DEFAULT 0, crashes integer NOT NULL DEFAULT 0,
    retry timestamptz, wake timestamptz, idle_seq bigint NOT NULL DEFAULT -1,
    is_drained boolean NOT NULL DEFAULT false, is_set_aside boolean NOT NULL DEFAULT false,
    detail text NOT NULL DEFAULT ''
);
CREATE INDEX queue_by_worker ON mainspring.queue (worker) WHERE worker IS NOT NULL;
"""

_FILES = """
CREATE TABLE mainspring.files (name text COLLATE "C" PRIMARY KEY, data bytea);
"""

STEPS = (_FIRST, _QUEUE, _FILES)
"""Step n takes a store from version n to n + 1. A step that was released is never changed."""

VERSION = len(STEPS)


class PostgresTables:
    """The tables of one database."""

    def __init__(self, address: StoreAddress) -> None:
        self._address = address

    @property
    def shown(self) -> str:
        return self._address.shown

    async def migrate(self) -> tuple[int, int]:
        return await self._use(migrate)

    async def ready_version(self) -> int:
        return await self._use(require_ready)

    async def _use(self, do: Callable[[Any], Coroutine[Any, Any, _T]]) -> _T:
        connection = StoreConnection(self._address)
        try:
            return await connection.use(do)
        finally:
            await connection.close()


async def stored_version(connection: Any) -> int:
    """The version of the tables; 0 when there are none."""
    if await connection.fetchval("SELECT to_regclass('mainspring.store') IS NULL"):
        return 0
    return await connection.fetchval("SELECT version FROM mainspring.store")


async def migrate(connection: Any) -> tuple[int, int]:
    """Brings the tables to this version, in its caller's transaction; gives the version before and after."""
    # Two who migrate at once: the second waits for the first, and finds nothing left to do.
    await connection.execute("SELECT pg_advisory_xact_lock(7309475598837)")
    before = await stored_version(connection)
    _require_known(before)
    for step in STEPS[before:]:
        await connection.execute(step)
    await connection.execute("UPDATE mainspring.store SET version = $1", VERSION)
    return before, VERSION


async def require_ready(connection: Any) -> int:
    """The version of the tables; refuses a database that has others than this program works with."""
    version = await stored_version(connection)
    _require_known(version)
    if version == 0:
        raise JournalUnwritable(
            "The database has no tables of mainspring.", remedy="Run: mainspring store init"
        )
    if version < VERSION:
        raise JournalUnwritable(
            f"The tables have version {version}, and this program works with {VERSION}.",
            remedy="Run: mainspring store migrate",
        )
    return version


def when_ready(do: Callable[[Any], Coroutine[Any, Any, _T]]) -> Callable[[Any], Coroutine[Any, Any, _T]]:
    """The same, after a look whether the tables are those that this program works with."""

    async def checked(connection: Any) -> _T:
        await require_ready(connection)
        return await do(connection)

    return checked


def _require_known(version: int) -> None:
    if version > VERSION:
        raise JournalForeign(
            f"The tables have version {version}, and this program knows versions up to {VERSION}.",
            remedy="Upgrade mainspring.",
        )
