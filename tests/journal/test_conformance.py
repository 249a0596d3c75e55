import asyncio
from pathlib import Path

import pytest

from mainspring.journal import Journal, Reader
from mainspring.journal.store import Store
from mainspring.testing.journals import CHECKS


class SqlitePlace:
    def __init__(self, home: Path) -> None:
        self.store = Store(home)

    async def open(self) -> Journal:
        if not (self.store.shelf.folder / "one").exists():
            return await self.store.create("one")
        return await self.store.open("one")

    async def read(self) -> Reader:
        return await self.store.read("one")


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_journal_in_sqlite(check, tmp_path):
    asyncio.run(check(SqlitePlace(tmp_path)))
