"""The stores that we have are held to the same contract: that of a journal, and that of all sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from mainspring.catalog import Sessions
from mainspring.catalog.postgres import PostgresSessions
from mainspring.catalog.sqlite import SqliteSessions
from mainspring.disk.owner import LOCK_NAME, Owner
from mainspring.journal.tables import FILE_NAME
from mainspring.testing import journals, session_faults, sessions
from mainspring.testing.memory import MemoryJournal, MemorySessions
from tests.postgres import execute, postgres


def _postgres(folder: Path) -> PostgresSessions:
    return PostgresSessions(asyncio.run(postgres().new_store()), folder)


STORES: dict[str, Callable[[Path], Sessions]] = {
    "sqlite": SqliteSessions,
    "memory": MemorySessions,
    "postgres": _postgres,
}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Sessions:
    return STORES[request.param](tmp_path)


@pytest.mark.parametrize("check", journals.CHECKS, ids=lambda check: check.__name__)
def test_a_journal(
    check: Callable[[journals.JournalPlace], Coroutine[Any, Any, None]], store: Sessions
) -> None:
    asyncio.run(check(sessions.JournalOf(store)))


@pytest.mark.parametrize("check", sessions.CHECKS, ids=lambda check: check.__name__)
def test_sessions(check: Callable[[Sessions], Coroutine[Any, Any, None]], store: Sessions) -> None:
    asyncio.run(check(store))


def lose_owner(store: Sessions, session: str) -> None:
    """Takes a session from its owner, as if that had died."""
    if isinstance(store, MemorySessions):
        store.lose_owner(session)
        return
    if isinstance(store, PostgresSessions):
        execute(
            store.address, "UPDATE mainspring.leases SET until = now() WHERE name = $1", f"session/{session}"
        )
        return
    # What a process leaves that takes over a lock which outlived its owner, and then dies: another lock file.
    lock = store.directory(session) / LOCK_NAME
    record = msgspec.json.decode(lock.read_bytes(), type=Owner)
    fresh = lock.with_suffix(".fresh")
    fresh.write_bytes(msgspec.json.encode(msgspec.structs.replace(record, born=1)))
    fresh.replace(lock)


def change(store: Sessions, session: str, statement: str, *bindings: int) -> None:
    connection = apsw.Connection(str(store.directory(session) / FILE_NAME))
    connection.execute(statement, bindings)
    connection.close()


def cut(store: Sessions, session: str, events: int) -> None:
    if isinstance(store, MemorySessions):
        store.cut(session, events)
    elif isinstance(store, PostgresSessions):
        execute(
            store.address, "DELETE FROM mainspring.events WHERE session = $1 AND seq > $2", session, events
        )
    else:
        change(store, session, "DELETE FROM events WHERE seq > ?", events)


def alter(store: Sessions, session: str, seq: int) -> None:
    if isinstance(store, MemorySessions):
        store.alter(session, seq)
    elif isinstance(store, PostgresSessions):
        altered = "UPDATE mainspring.events SET body = '{}' WHERE session = $1 AND seq = $2"
        execute(store.address, altered, session, seq)
    else:
        change(store, session, "UPDATE events SET body = CAST('{}' AS BLOB) WHERE seq = ?", seq)


def test_who_lost_a_journal_writes_nothing_more(store: Sessions) -> None:
    asyncio.run(session_faults.a_lost_owner_writes_nothing_more(store, partial(lose_owner, store)))


def test_a_journal_that_lost_its_end_is_not_written(store: Sessions) -> None:
    asyncio.run(session_faults.a_journal_that_lost_its_end_is_not_written(store, partial(cut, store)))


def test_an_altered_journal_is_not_written(store: Sessions) -> None:
    asyncio.run(session_faults.an_altered_journal_is_not_written(store, partial(alter, store)))


def test_a_journal_may_be_ahead_of_its_anchor(store: Sessions) -> None:
    asyncio.run(session_faults.a_journal_may_be_ahead_of_its_anchor(store, partial(lose_owner, store)))


def test_an_export_of_one_store_is_brought_into_the_other(tmp_path: Path) -> None:
    async def moved() -> None:
        one, other = SqliteSessions(tmp_path / "disk"), MemorySessions(tmp_path / "memory")
        await sessions.a_session_is_exported_and_brought_in_with_the_same_hashes(one)
        shared = PostgresSessions(await postgres().new_store(), tmp_path / "shared")
        for source, target in ((one, other), (other, shared), (shared, SqliteSessions(tmp_path / "again"))):
            with (tmp_path / "lines").open("wb+") as lines:
                before = await source.export("one", lines)
                lines.seek(0)
                assert await target.import_lines(lines) == "one"
            reader = await target.read("one")
            assert (await reader.verify()).head == before.head
            await reader.close()

    asyncio.run(moved())


class OneJournal:
    """A journal without a store, as generated sessions run on."""

    def __init__(self) -> None:
        self.journal = MemoryJournal()

    async def open(self) -> MemoryJournal:
        return self.journal

    async def read(self) -> MemoryJournal:
        return self.journal


ALONE = [check for check in journals.CHECKS if "second_writer" not in check.__name__]


@pytest.mark.parametrize("check", ALONE, ids=lambda check: check.__name__)
def test_a_journal_without_a_store(
    check: Callable[[journals.JournalPlace], Coroutine[Any, Any, None]],
) -> None:
    asyncio.run(check(OneJournal()))
