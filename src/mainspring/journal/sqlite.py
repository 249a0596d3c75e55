"""The journal in a SQLite file, as the ports `Reader` and `Journal` describe it.

A thin layer: reading is `JournalFile` off the event loop, writing is the thread of `Writer`. What it adds is
the order on the event loop: the subscriber hears of an append before its caller does, and hears of it once,
also when the caller was cancelled. And what need not be durable at once is numbered here, when no append is
under way, and handed to the thread with the next one that must be: it costs no commit of its own.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path

from mainspring.disk.owner import Ownership, own
from mainspring.events import Blob, Event, Recorded
from mainspring.journal import Verification, hashchain, tables
from mainspring.journal.file import JournalFile
from mainspring.journal.waiting import Waiting
from mainspring.journal.writer import Append, Body, Writer

Parts = tuple[JournalFile, Writer, Ownership]

_WAITING_BYTES = 1024 * 1024
_DURABLE_WITHIN_S = 0.02
_IN_A_ROW = 16


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
        self._told_seq, self._told_us = writer.end
        self._numbered: list[tuple[Recorded, Body]] = []
        self._is_owing = False
        self._has_failed = False
        self._under_way = self._in_a_row = 0
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    def subscribe(
        self,
        on_appended: Callable[[Sequence[Recorded]], None],
        on_durable: Callable[[int], None] | None = None,
    ) -> None:
        self._on_appended, self._on_durable = on_appended, on_durable

    async def append(self, *events: Event, is_durable: bool = True) -> Sequence[Recorded]:
        if not events:
            return ()
        # Behind an append whose number is not known yet, or that failed, there is no number to give.
        if is_durable or self._under_way or self._has_failed or self._is_closed:
            return await self._append(events)
        return self._number(events)

    def _number(self, events: Sequence[Event]) -> Sequence[Recorded]:
        encoded = [hashchain.encoded(event) for event in events]
        time_us = max(self._told_us, time.time_ns() // 1000)
        recorded = [Recorded(seq, time_us, event) for seq, event in enumerate(events, self._told_seq + 1)]
        self._numbered.extend(zip(recorded, encoded, strict=True))
        self._is_owing = True
        if self._timer is None:
            self._timer = self._loop.call_later(_DURABLE_WITHIN_S, self._write_numbered)
        self._tell(recorded)
        return recorded

    def _write_numbered(self) -> None:
        self._timer = None
        if self._numbered:
            self._hand_over(Waiting(self._loop, is_heard=False), (), ())

    async def _settle(self) -> None:
        """What has a number is in the file when this returns."""
        if self._is_owing:
            await self._append(())

    async def last_seq(self) -> int:
        await self._settle()
        return self._told_seq

    async def read(
        self, *, after: int = 0, until: int | None = None, kinds: Collection[str] = (), limit: int = 1000
    ) -> list[Recorded]:
        await self._settle()
        return await super().read(after=after, until=until, kinds=kinds, limit=limit)

    async def last(self, *kinds: str) -> Recorded | None:
        await self._settle()
        return await super().last(*kinds)

    async def count(self, kind: str, *, after: int = 0, until: int | None = None) -> int:
        await self._settle()
        return await super().count(kind, after=after, until=until)

    async def chain_hash(self, seq: int) -> str:
        await self._settle()
        return await super().chain_hash(seq)

    async def verify(self) -> Verification:
        await self._settle()
        return await super().verify()

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
            if self._writer.waiting or self._is_owing:
                await self._append(())
        finally:
            self._is_closed, self._is_owing = True, False
            if self._timer is not None:
                self._timer.cancel()
            await asyncio.shield(asyncio.to_thread(close_writer, self._file, self._writer, self._ownership))

    async def _append(
        self, events: Sequence[Event], *, blobs: Sequence[tuple[str, bytes]] = ()
    ) -> Sequence[Recorded]:
        if self._is_closed:
            raise RuntimeError(f"the journal of session {self.session} is closed")
        waiting = Waiting(self._loop)
        if self._hand_over(waiting, events, blobs):
            self._in_a_row += 1
            if self._in_a_row == _IN_A_ROW:
                self._in_a_row = 0
                await asyncio.sleep(0)  # whoever records without end shall not be alone
        return await waiting.result()

    def _hand_over(
        self, waiting: Waiting, events: Sequence[Event], blobs: Sequence[tuple[str, bytes]]
    ) -> bool:
        """Has events written; whether that is done already, because nobody else is in the way."""
        encoded = [hashchain.encoded(event) for event in events]  # what raises takes no numbered event along
        numbered, self._numbered = self._numbered, []
        numbered_seq = self._told_seq
        if self._under_way == 0 and waiting.is_heard:
            told = partial(self._appended, waiting, numbered_seq)
            if self._writer.append_now(Append(events, encoded, blobs, told, numbered)):
                return True

        def tell(recorded: Sequence[Recorded], error: BaseException | None) -> None:
            told = partial(self._heard, waiting, numbered_seq, recorded, error)
            try:
                self._loop.call_soon_threadsafe(told)
            except RuntimeError:
                # The loop ended before the journal was closed: the events are durable, nobody can hear.
                if not self._loop.is_closed():
                    raise

        self._writer.append(Append(events, encoded, blobs, tell, numbered))
        self._under_way += 1
        return False

    def _heard(
        self,
        waiting: Waiting,
        numbered_seq: int,
        recorded: Sequence[Recorded],
        error: BaseException | None,
    ) -> None:
        self._under_way -= 1
        self._appended(waiting, numbered_seq, recorded, error)

    def _appended(
        self,
        waiting: Waiting,
        numbered_seq: int,
        recorded: Sequence[Recorded],
        error: BaseException | None,
    ) -> None:
        self._has_failed = error is not None
        waiting.end(recorded, error)  # wakes the caller in a later step of the loop, after the subscriber
        if error is not None:
            return
        self._is_owing = False
        if recorded:
            self._tell(recorded)
        if self._on_durable is not None:
            self._on_durable(recorded[-1].seq if recorded else numbered_seq)

    def _tell(self, recorded: Sequence[Recorded]) -> None:
        self._told_seq, self._told_us = recorded[-1].seq, recorded[-1].time_us
        if self._on_appended is not None:
            self._on_appended(recorded)


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
        if writer.is_stillborn and ownership.is_held:
            # An empty session would be listed, and could not be resumed: its disk was full from the start.
            import_module("shutil").rmtree(file.path.parent, ignore_errors=True)
    finally:
        ownership.release()
