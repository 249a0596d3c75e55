"""The sessions of one home folder, for a program with an event loop: make, open and read their journals."""

from __future__ import annotations

import asyncio

from mainspring.journal import tables
from mainspring.journal.shelf import Shelf
from mainspring.journal.sqlite import Parts, SqliteJournal, SqliteReader, close_writer, open_writer


class Store(Shelf):
    """A shelf whose journals are opened for an event loop."""

    async def create(self, session: str | None = None) -> SqliteJournal:
        """The journal of a new session, open for writing."""
        return await self.open(await asyncio.to_thread(self._create, session))

    async def open(self, session: str) -> SqliteJournal:
        """The journal of a session, for writing; `JournalOwned` when another process writes it."""
        loop = asyncio.get_running_loop()
        opening = loop.run_in_executor(None, open_writer, self.directory(session), session)
        try:
            return SqliteJournal(*await asyncio.shield(opening))
        except asyncio.CancelledError:
            opening.add_done_callback(_give_back)
            raise

    async def read(self, session: str) -> SqliteReader:
        return SqliteReader(await asyncio.to_thread(self.file, session))

    def _create(self, session: str | None) -> str:
        with self.new(session) as (name, directory), tables.explained(name):
            tables.create(directory / tables.FILE_NAME).close()
        return name


def _give_back(opened: asyncio.Future[Parts]) -> None:
    """Closes what was opened for someone who no longer waits."""
    if not opened.cancelled() and opened.exception() is None:
        close_writer(*opened.result())
