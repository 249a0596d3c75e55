"""The journal in a SQLite file, as the ports `Reader` and `Journal` describe it.

A thin layer: reading is `JournalFile` off the event loop, writing is the thread of `Writer`. What it adds is
the order on the event loop: the subscriber hears of an append before its caller does, and hears of it once,
also when the caller was cancelled.
"""

from __future__ import annotations

import asyncio
import hashlib
import shutil
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path

from mainspring.disk.owner import Ownership, own
from mainspring.events import Blob, Event, Recorded
from mainspring.journal import Verification, hashchain, tables
from mainspring.journal.file import JournalFile
from mainspring.journal.waiting import Waiting
from mainspring.journal.writer import Append, Writer

Parts = tuple[JournalFile, Writer, Ownership]

_WAITING_BYTES = 1024 * 1024


class SqliteReader:
    """A session's journal, open for reading. `daily` is the file with a line for each of its days."""

    def __init__(self, file: JournalFile, daily: Path | None = None) -> None:
        self._file = file
        self._daily = daily

    @property
    def session(self) -> str:
        return self._file.session

    async def last_seq(self) -> int:
        return await asyncio.to_thread(self._file.last_seq)

    async def read(
        self, *, after: int = 0, until: int | None = None, kinds: Collection[str] = (), limit: int = 1000
    ) -> list[Recorded]:
        return await asyncio.to_thread(self._file.read, after=after, until=until, kinds=kinds, limit=limit)

    async def last(self, *kinds: str) -> Recorded | None:
        return await asyncio.to_thread(self._file.last, *kinds)

    async def count(self, kind: str, *, after: int = 0, until: int | None = None) -> int:
        return await asyncio.to_thread(self._file.count, kind, after=after, until=until)

    async def chain_hash(self, seq: int) -> str:
        return await asyncio.to_thread(self._file.chain_hash, seq)

    async def get(self, blob: Blob) -> bytes:
        return await asyncio.to_thread(self._file.get, blob)

    async def verify(self) -> Verification:
        return await asyncio.to_thread(self._file.verify, self._daily)

    async def close(self) -> None:
        await asyncio.to_thread(self._file.close)


class SqliteJournal(SqliteReader):
    """A session's journal, open for writing by this process and this event loop."""

    def __init__(self, file: JournalFile, writer: Writer, ownership: Ownership) -> None:
        super().__init__(file)
        self._writer = writer
        self._ownership = ownership
        self._loop = asyncio.get_running_loop()
        self._on_appended: Callable[[Sequence[Recorded]], None] | None = None
        self._waiting_bytes = 0
        self._on_durable: Callable[[int], None] | None = None
        self._told_seq = 0
        self._is_closed = False

    def subscribe(
        self,
        on_appended: Callable[[Sequence[Recorded]], None],
        on_durable: Callable[[int], None] | None = None,
    ) -> None:
        self._on_appended, self._on_durable = on_appended, on_durable

    async def append(self, *events: Event, is_durable: bool = True) -> Sequence[Recorded]:
        return await self._append(events, is_durable=is_durable) if events else ()

    async def put(self, data: bytes, media_type: str = "text/plain") -> Blob:
        sha256 = hashlib.sha256(data).hexdigest()
        waiting = self._writer.waiting
        self._waiting_bytes = len(data) + (self._waiting_bytes if waiting else 0)
        if self._waiting_bytes > _WAITING_BYTES:
            await self._append((), blobs=((sha256, data),))
        else:
            waiting[sha256] = data
        return Blob(sha256=sha256, size=len(data), media_type=media_type)

    async def anchor(self) -> None:
        await asyncio.to_thread(self._writer.anchor)

    async def get(self, blob: Blob) -> bytes:
        waiting = self._writer.waiting.get(blob.sha256)
        return await super().get(blob) if waiting is None else waiting

    async def close(self) -> None:
        """Raises `JournalUnwritable` when a kept blob could not be written, and closes all the same."""
        if self._is_closed:
            return
        try:
            if self._writer.waiting:
                await self._append(())
        finally:
            self._is_closed = True
            await asyncio.shield(asyncio.to_thread(close_writer, self._file, self._writer, self._ownership))

    async def _append(
        self,
        events: Sequence[Event],
        *,
        blobs: Sequence[tuple[str, bytes]] = (),
        is_durable: bool = True,
    ) -> Sequence[Recorded]:
        if self._is_closed:
            raise RuntimeError(f"the journal of session {self.session} is closed")
        waiting = Waiting(self._loop)

        def tell(recorded: Sequence[Recorded], error: BaseException | None, *, is_all_durable: bool) -> None:
            told = partial(self._appended, waiting, recorded, error, is_all_durable=is_all_durable)
            try:
                self._loop.call_soon_threadsafe(told)
            except RuntimeError:
                # The loop ended before the journal was closed: the events are durable, nobody can hear.
                if not self._loop.is_closed():
                    raise

        encoded = [hashchain.encoded(event) for event in events]
        self._writer.append(Append(events, encoded, blobs, tell, is_durable))
        return await waiting.result()

    def _appended(
        self,
        waiting: Waiting,
        recorded: Sequence[Recorded],
        error: BaseException | None,
        *,
        is_all_durable: bool,
    ) -> None:
        waiting.end(recorded, error)  # wakes the caller in a later step of the loop, after the subscriber
        if recorded:
            self._told_seq = recorded[-1].seq
            if self._on_appended is not None:
                self._on_appended(recorded)
        if is_all_durable and self._on_durable is not None:
            self._on_durable(self._told_seq)


def open_writer(directory: Path, session: str, daily: Path | None = None) -> Parts:
    """What a `SqliteJournal` is made of; blocks, so call it off the event loop."""
    ownership = own(directory, session)
    try:
        writer = Writer(directory / tables.FILE_NAME, session, ownership, daily=daily)
        try:
            return JournalFile(directory / tables.FILE_NAME, session), writer, ownership
        except BaseException:
            writer.close()
            raise
    except BaseException:
        ownership.release()
        raise


def close_writer(file: JournalFile, writer: Writer, ownership: Ownership) -> None:
    try:
        file.close()
        writer.close()
        if writer.is_stillborn:
            # An empty session would be listed, and could not be resumed: its disk was full from the start.
            shutil.rmtree(file.path.parent, ignore_errors=True)
    finally:
        ownership.release()
