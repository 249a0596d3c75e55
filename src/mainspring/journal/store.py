"""The sessions of one home folder, for a program with an event loop: make, open and read their journals."""

from __future__ import annotations

import asyncio

from mainspring.journal import tables
from mainspring.journal.shelf import Shelf
from mainspring.journal.sqlite import SqliteJournal, SqliteReader, open_writer


class Store(Shelf):
    """A shelf whose journals are opened for an event loop."""

    async def create(self, session: str | None = None) -> SqliteJournal:
        """The journal of a new session, open for writing."""
        return await self.open(await asyncio.to_thread(self._create, session))

    async def open(self, session: str) -> SqliteJournal:
        """The journal of a session, for writing; `JournalOwned` when another process writes it."""
        return SqliteJournal(*await asyncio.to_thread(open_writer, self.directory(session), session))

    async def read(self, session: str) -> SqliteReader:
        return SqliteReader(await asyncio.to_thread(self.file, session))

    def _create(self, session: str | None) -> str:
        with self.new(session) as (name, directory), tables.explained(name):
            tables.create(directory / tables.FILE_NAME).close()
        return name
