"""The sessions of one home folder, each in a SQLite file, as the port `Sessions` describes them.

A thin layer over `SessionFiles` and what reads and writes journal files: what blocks is done off the event
loop. What was opened for somebody who no longer waits is closed again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Generator, Iterable, Mapping
from contextlib import asynccontextmanager, closing, contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import BinaryIO

import msgspec

from mainspring.catalog.day import Today
from mainspring.catalog.fold import SessionRow
from mainspring.catalog.folder import SessionFiles, unknown
from mainspring.catalog.spent import SessionSpend
from mainspring.disk.files import make_folder
from mainspring.disk.owner import Owner, owned, owner_of
from mainspring.disk.shared_files import NO_FILES, LocalFiles, NamedFiles
from mainspring.errors import JournalError, JournalUnwritable
from mainspring.events import Origin
from mainspring.journal import KnownEvents, Verification, tables
from mainspring.journal.anchor import Anchor, write_anchor
from mainspring.journal.lines import Header
from mainspring.journal.sqlite import Parts, SqliteJournal, SqliteReader, close_writer, open_writer
from mainspring.journal.verification import check, not_writable

_TRANSFER = "mainspring.catalog.transfer"


class SqliteSessions:
    """The sessions under one home folder. `daily` is a file that gets a line for each day of one."""

    def __init__(self, home: Path, *, daily: Path | None = None) -> None:
        self.home = home
        self._daily = daily
        self.shelf = SessionFiles(home)
        self._parents: dict[str, str] = {}  # which never change

    async def create(self, session: str | None = None) -> SqliteJournal:
        name = await asyncio.to_thread(self._create, session)
        try:
            return await self.open(name)
        except JournalUnwritable:
            remove = import_module("shutil").rmtree
            await asyncio.to_thread(remove, self.directory(name), ignore_errors=True)
            raise

    async def open(self, session: str) -> SqliteJournal:
        loop = asyncio.get_running_loop()
        opening = loop.run_in_executor(None, open_writer, self.directory(session), session, self._daily)
        try:
            with self._not_deleted(session):
                return SqliteJournal(*await asyncio.shield(opening))
        except asyncio.CancelledError:
            opening.add_done_callback(_give_back)
            raise

    async def delete(self, session: str, *, last_seq: int | None = None, also: Collection[str] = ()) -> bool:
        with self._not_deleted(session):
            return await asyncio.to_thread(self._delete, session, last_seq, {session, *also})

    async def accept(self, session: str) -> Verification:
        return await asyncio.to_thread(self._accept, session)

    async def read(self, session: str) -> SqliteReader:
        return SqliteReader(await asyncio.to_thread(self.shelf.file, session), self._daily)

    async def find(self, prefix: str) -> str:
        return await asyncio.to_thread(self.shelf.find, prefix)

    async def names(self) -> list[str]:
        return await asyncio.to_thread(self.shelf.newest_names)

    async def rows(self) -> list[SessionRow]:
        return await asyncio.to_thread(self.shelf.sessions)

    async def spends(self) -> list[SessionSpend]:
        return await asyncio.to_thread(self.shelf.spends)

    async def owner(self, session: str) -> Owner | None:
        return await asyncio.to_thread(owner_of, self.directory(session))

    @asynccontextmanager
    async def lock(self, name: str) -> AsyncGenerator[None]:
        directory = self.home / name
        make_folder(directory)
        with owned(directory, name):
            yield

    async def lock_owner(self, name: str) -> Owner | None:
        return await asyncio.to_thread(owner_of, self.home / name)

    def today(self) -> Today:
        return Today(self.shelf)

    async def fork(
        self,
        session: str,
        *,
        at: int | None = None,
        workspace: str = "",
        origin: Origin | None = None,
        is_repaired: bool = False,
        files: NamedFiles = NO_FILES,
    ) -> tuple[str, int]:
        fork = import_module("mainspring.catalog.fork").fork
        forked = partial(fork, workspace=workspace, origin=origin, is_repaired=is_repaired, files=files)
        with self._not_deleted(session):
            return await asyncio.to_thread(forked, self.shelf, session, at=at)

    async def compose(
        self, events_of: KnownEvents, *, session: str | None = None, files: NamedFiles = NO_FILES
    ) -> str:
        compose = import_module("mainspring.catalog.compose").compose
        return await asyncio.to_thread(compose, self.shelf, events_of, session=session, files=files)

    async def export(
        self,
        session: str,
        to: BinaryIO,
        *,
        blobs_beside: Path | None = None,
        readable_only: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> Header:
        def written() -> Header:
            with closing(self.shelf.file(session)) as file:
                return import_module(_TRANSFER).export(
                    file,
                    to,
                    blobs_beside=blobs_beside,
                    readable_only=readable_only,
                    environment=environment,
                )

        return await asyncio.to_thread(written)

    async def import_lines(
        self, lines: Iterable[bytes], *, blobs_beside: Path | None = None, files: NamedFiles = NO_FILES
    ) -> str:
        import_journal = import_module(_TRANSFER).import_journal
        return await asyncio.to_thread(
            import_journal, self.shelf, lines, blobs_beside=blobs_beside, files=files
        )

    def directory(self, session: str) -> Path:
        return self.shelf.directory(session)

    def files(self, session: str) -> LocalFiles:
        return LocalFiles(self.directory(session))

    def secret_files(self, session: str) -> LocalFiles:
        return self.files(session)

    @contextmanager
    def _not_deleted(self, session: str) -> Generator[None]:
        """What fails because another process deletes the session says that it is gone."""
        try:
            yield
        except JournalError as error:
            if (self.shelf.folder / session).is_dir():
                raise
            raise unknown(session) from error

    def _accept(self, session: str) -> Verification:
        directory = self.directory(session)
        with owned(directory, session), closing(self.shelf.file(session)) as file:
            verdict = file.scan(check)
            if verdict.problem:
                raise not_writable(session, verdict)
            write_anchor(directory, Anchor(events=verdict.events, head=verdict.head))
        return msgspec.structs.replace(verdict, anchored_seq=verdict.events)

    def _delete(self, session: str, last_seq: int | None, going: Collection[str]) -> bool:
        with self.shelf.deleting(session), owned(self.directory(session), session):
            if last_seq is not None:
                with closing(self.shelf.file(session)) as file:
                    if file.last_seq() != last_seq:
                        return False
            if self._is_forked(session, going):
                return False
            self.shelf.remove(session)
            self._parents.pop(session, None)
        return True

    def _is_forked(self, session: str, going: Collection[str]) -> bool:
        names = self.shelf.names()
        if not self._parents.keys() >= set(names):
            known = (row for row in self.shelf.sessions() if row.events or row.state == "damaged")
            self._parents.update((row.id, row.parent) for row in known)
        return any(self._parents.get(name) == session for name in names if name not in going)

    def _create(self, session: str | None) -> str:
        with self.shelf.new(session) as (name, directory), tables.explained(name):
            tables.create(directory / tables.FILE_NAME).close()
        return name


def _give_back(opened: asyncio.Future[Parts]) -> None:
    """Closes what was opened for someone who no longer waits."""
    if not opened.cancelled() and opened.exception() is None:
        close_writer(*opened.result())
