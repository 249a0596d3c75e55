"""The stores that we have are held to the same contract: that of a journal, and that of all sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from mainspring.catalog import Sessions
from mainspring.catalog.sqlite import SqliteSessions
from mainspring.testing import journals, sessions
from mainspring.testing.memory import MemoryJournal, MemorySessions

STORES: dict[str, Callable[[Path], Sessions]] = {"sqlite": SqliteSessions, "memory": MemorySessions}


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


def test_who_lost_a_journal_in_memory_writes_nothing_more(tmp_path: Path) -> None:
    store = MemorySessions(tmp_path)
    asyncio.run(sessions.a_lost_owner_writes_nothing_more(store, store.lose_owner))


def test_an_export_of_one_store_is_brought_into_the_other(tmp_path: Path) -> None:
    async def moved() -> None:
        one, other = SqliteSessions(tmp_path / "disk"), MemorySessions(tmp_path / "memory")
        await sessions.a_session_is_exported_and_brought_in_with_the_same_hashes(one)
        for source, target in ((one, other), (other, SqliteSessions(tmp_path / "again"))):
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
