"""Journals and sessions in memory: quick enough for thousands of sessions, and a test can set their clock.

`MemoryJournal` is one journal for one test. `MemorySessions` is a whole store, as the port `Sessions`
describes it: exclusive writers, forks, exports, spending, and a way to lose a writer as if its process had
died. Events pass through their stored form, so that what is read is what a file would give.
"""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import tempfile
import time
import weakref
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import BinaryIO

import msgspec

from mainspring.catalog.day import spent_today
from mainspring.catalog.fold import SessionFold, SessionRow, advance, row_of
from mainspring.catalog.folder import unknown, valid_id
from mainspring.catalog.fork import changed_start, first_body, shared_events
from mainspring.catalog.prefixes import match_prefix
from mainspring.catalog.spent import SessionSpend, Spent
from mainspring.disk.ids import new_id
from mainspring.disk.owner import Owner, refusal, this_process
from mainspring.disk.shared_files import NO_FILES, LocalFiles, NamedFiles
from mainspring.errors import JournalDamaged, JournalOwned, UsageError
from mainspring.events import Blob, Event, Origin, Recorded, decode
from mainspring.journal import KnownEvents, Verification, hashchain
from mainspring.journal.lines import Header, read_header, read_lines, write_lines
from mainspring.journal.stored import Row
from mainspring.journal.verification import damaged, not_writable
from mainspring.testing.memory_events import Events, brought, chained, restored


class MemoryJournal:
    """A journal for one test: `recorded` may be read at any time, and `now_us` be set."""

    def __init__(
        self,
        recorded: Iterable[Recorded] = (),
        *,
        blobs: dict[str, bytes] | None = None,
        session: str = "memory",
    ) -> None:
        self.session = session
        self._events = Events(recorded, {} if blobs is None else blobs)
        self.now_us = self.recorded[-1].time_us if self.recorded else 1_000_000
        self._on_appended: Callable[[Sequence[Recorded]], None] | None = None
        self._on_durable: Callable[[int], None] | None = None

    @property
    def recorded(self) -> list[Recorded]:
        return self._events.recorded

    @property
    def blobs(self) -> dict[str, bytes]:
        return self._events.blobs

    async def append(self, *events: Event, is_durable: bool = True) -> Sequence[Recorded]:  # noqa: ARG002 - all is
        added: list[Recorded] = []
        for body in [hashchain.encoded(event) for event in events]:
            self.now_us = self._time_us()
            added.append(Recorded(len(self.recorded) + len(added) + 1, self.now_us, decode(*body)))
        self.recorded.extend(added)
        if added and self._on_appended is not None:
            self._on_appended(added)
        if added and self._on_durable is not None:
            self._on_durable(added[-1].seq)
        return tuple(added)

    def subscribe(
        self,
        on_appended: Callable[[Sequence[Recorded]], None],
        on_durable: Callable[[int], None] | None = None,
    ) -> None:
        self._on_appended, self._on_durable = on_appended, on_durable

    async def last_seq(self) -> int:
        return len(self.recorded)

    async def read(
        self, *, after: int = 0, until: int | None = None, kinds: Collection[str] = (), limit: int = 1000
    ) -> list[Recorded]:
        return self._events.read(after=after, until=until, kinds=kinds, limit=limit)

    async def last(self, *kinds: str) -> Recorded | None:
        return self._events.last(*kinds)

    async def count(self, kind: str, *, after: int = 0, until: int | None = None) -> int:
        return sum(item.kind == kind for item in self.recorded[max(after, 0) : until])

    async def chain_hash(self, seq: int) -> str:
        rows = self._events.rows()
        return rows[seq - 1][4].hex() if 0 < seq <= len(rows) else ""

    async def put(self, data: bytes, media_type: str = "text/plain") -> Blob:
        sha256 = hashlib.sha256(data).hexdigest()
        self.blobs[sha256] = data
        return Blob(sha256=sha256, size=len(data), media_type=media_type)

    async def get(self, blob: Blob) -> bytes:
        if blob.sha256 not in self.blobs:
            raise JournalDamaged("There is no such blob.")
        return self.blobs[blob.sha256]

    async def verify(self) -> Verification:
        return self._events.verdict()

    async def anchor(self) -> None:
        return

    async def close(self) -> None:
        return

    def _time_us(self) -> int:
        return self.now_us + 1000


class _Kept:
    """A session of a store. Each opening for writing has a number, and only the newest may write."""

    def __init__(self, events: Events) -> None:
        self.events = events
        self.epoch = 0
        self.owner: Owner | None = None

    @property
    def is_owned(self) -> bool:
        return self.owner is not None and self.owner.is_alive


class _Opened(MemoryJournal):
    """A session's journal, open for writing, on the clock of the machine."""

    def __init__(self, session: str, kept: _Kept, on_change: Callable[[str], None]) -> None:
        super().__init__(session=session)
        self._events = kept.events
        self._kept, self._epoch = kept, kept.epoch
        self._on_change = on_change
        self._is_closed = False

    async def append(self, *events: Event, is_durable: bool = True) -> Sequence[Recorded]:
        self._require_ours()
        recorded = await super().append(*events, is_durable=is_durable)
        self._on_change(self.session)
        return recorded

    async def put(self, data: bytes, media_type: str = "text/plain") -> Blob:
        self._require_ours()
        return await super().put(data, media_type)

    async def anchor(self) -> None:
        if self._kept.epoch == self._epoch and not self._is_closed:
            self._events.keep_anchor()

    async def close(self) -> None:
        await self.anchor()
        self._is_closed = True
        if self._kept.epoch == self._epoch:
            self._kept.owner = None

    def _require_ours(self) -> None:
        if self._is_closed:
            raise RuntimeError(f"the journal of session {self.session} is closed")
        if self._kept.epoch != self._epoch:
            raise JournalOwned(
                f"This process is no longer the owner of session {self.session}; it wrote nothing.",
                remedy="Resume the session when nobody else works on it.",
            )

    def _time_us(self) -> int:
        last = self.recorded[-1].time_us if self.recorded else 0
        return max(last, time.time_ns() // 1000)


class _Today:
    def __init__(self, sessions: MemorySessions) -> None:
        self._sessions = sessions

    @asynccontextmanager
    async def held(self) -> AsyncGenerator[Spent]:
        async with self._sessions.day_lock:
            yield spent_today(await self._sessions.spends())


class MemorySessions:
    """Sessions that are gone with this object. Files beside their journals lie in a folder of the disk, a
    temporary one when none is given."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or Path(tempfile.mkdtemp())
        if folder is None:
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._kept: dict[str, _Kept] = {}
        self._locks: dict[str, Owner] = {}
        self.day_lock = asyncio.Lock()

    async def create(self, session: str | None = None) -> MemoryJournal:
        return await self.open(self._add(self._new_name(session), Events((), {})))

    async def open(self, session: str) -> MemoryJournal:
        kept = self._free(session)
        verdict = kept.events.verdict()
        if verdict.problem:
            raise not_writable(session, verdict)
        kept.epoch += 1
        kept.owner = this_process()
        return _Opened(session, kept, self._changed)

    async def delete(self, session: str, *, last_seq: int | None = None, also: Collection[str] = ()) -> bool:
        kept = self._free(session)
        others = [each for each in await self.rows() if each.id not in (session, *also)]
        if last_seq not in (None, len(kept.events.recorded)) or session in [each.parent for each in others]:
            return False
        shutil.rmtree(self.directory(session))
        del self._kept[session]
        return True

    async def accept(self, session: str) -> Verification:
        kept = self._free(session)
        before, kept.events.anchor = kept.events.anchor, None
        verdict = kept.events.verdict()
        if verdict.problem:
            kept.events.anchor = before
            raise not_writable(session, verdict)
        kept.events.keep_anchor()
        return verdict

    async def read(self, session: str) -> MemoryJournal:
        kept = self._known(session)
        reader = MemoryJournal(session=session)
        reader._events = kept.events
        return reader

    async def find(self, prefix: str) -> str:
        valid_id(prefix)
        return prefix if prefix in self._kept else match_prefix(prefix, self._kept)

    async def names(self) -> list[str]:
        return list(reversed(self._kept))

    async def rows(self) -> list[SessionRow]:
        rows = [
            row_of(
                name,
                advance(SessionFold(), kept.events),
                problem="",
                is_owned=lambda kept=kept: kept.is_owned,
            )
            for name, kept in self._kept.items()
        ]
        return sorted(rows, key=lambda row: (row.updated_us, row.id), reverse=True)

    async def spends(self) -> list[SessionSpend]:
        return [
            SessionSpend(name, advance(SessionFold(), kept.events).spent())
            for name, kept in self._kept.items()
        ]

    async def owner(self, session: str) -> Owner | None:
        return self._known(session).owner

    def lose_owner(self, session: str) -> None:
        """As if the process that writes a session had died, or its lease had run out: it can no longer
        append, and others may open the session."""
        kept = self._known(session)
        kept.epoch += 1
        if kept.owner is not None:
            kept.owner = msgspec.structs.replace(kept.owner, is_alive=False)

    def cut(self, session: str, events: int) -> None:
        """As if everything after so many events had been deleted where the journal is kept."""
        self._known(session).events.cut(events)

    def alter(self, session: str, seq: int) -> None:
        """As if an event had been changed where the journal is kept."""
        self._known(session).events.alter(seq)

    @asynccontextmanager
    async def lock(self, name: str) -> AsyncGenerator[None]:
        if name in self._locks:
            raise refusal(name, self._locks[name])
        self._locks[name] = this_process()
        try:
            yield
        finally:
            del self._locks[name]

    async def lock_owner(self, name: str) -> Owner | None:
        return self._locks.get(name)

    def today(self) -> _Today:
        return _Today(self)

    async def fork(
        self,
        session: str,
        *,
        at: int | None = None,
        workspace: str = "",
        origin: Origin | None = None,
        is_repaired: bool = False,  # noqa: ARG002 - all is readable here
        files: NamedFiles = NO_FILES,
    ) -> tuple[str, int]:
        events = self._known(session).events
        verdict = events.verdict()
        if verdict.problem and (at is None or at > verdict.events):
            raise damaged(session, verdict)
        until = shared_events(session, verdict.events, at)
        name, rows = new_id(), list[Row]()
        changes = changed_start(name, session, until, workspace, origin)
        for seq, time_us, kind, stored, _ in events.rows()[:until]:
            body = first_body(stored, kind, changes) if seq == 1 else stored
            rows.append(chained(rows, time_us, kind, body))
        self._add(name, restored(rows, dict(events.blobs)), files)
        return name, until

    async def compose(
        self, events_of: KnownEvents, *, session: str | None = None, files: NamedFiles = NO_FILES
    ) -> str:
        name, last_us = self._new_name(session), 0
        recorded: list[Recorded] = []
        directory = self._folder / name
        directory.mkdir(parents=True)
        try:
            for time_us, event in events_of(name, directory):
                last_us = max(last_us, time_us)
                recorded.append(Recorded(len(recorded) + 1, last_us, decode(*hashchain.encoded(event))))
        except BaseException:
            shutil.rmtree(directory)
            raise
        return self._add(name, Events(recorded, {}), files)

    async def export(
        self,
        session: str,
        to: BinaryIO,
        *,
        blobs_beside: Path | None = None,
        readable_only: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> Header:
        events = self._known(session).events
        verdict = events.verdict()
        if verdict.problem and not readable_only:
            raise damaged(session, verdict)
        header, rows = Header.of(session, verdict, blobs_beside, environment), events.rows()[: verdict.events]
        write_lines(to, header, sorted(events.blobs.items()), rows, blobs_beside=blobs_beside)
        return header

    async def import_lines(
        self, lines: Iterable[bytes], *, blobs_beside: Path | None = None, files: NamedFiles = NO_FILES
    ) -> str:
        rest = iter(lines)
        header = read_header(next(rest, b""))
        name = self._new_name(header.session)
        return self._add(name, brought(read_lines(header, rest, blobs_beside)), files)

    def directory(self, session: str) -> Path:
        self._known(session)
        return self._folder / session

    def files(self, session: str) -> LocalFiles:
        return LocalFiles(self.directory(session))

    def secret_files(self, session: str) -> LocalFiles:
        return self.files(session)

    def _free(self, session: str) -> _Kept:
        if (kept := self._known(session)).is_owned:
            raise refusal(session, kept.owner)
        return kept

    def _known(self, session: str) -> _Kept:
        if kept := self._kept.get(session):
            return kept
        raise unknown(valid_id(session))

    def _new_name(self, session: str | None) -> str:
        name = new_id() if session is None else valid_id(session)
        if name in self._kept:
            raise UsageError(f"Session {name} exists already.")
        return name

    def _add(self, name: str, events: Events, files: NamedFiles = NO_FILES) -> str:
        (self._folder / name).mkdir(parents=True, exist_ok=True)
        events.keep_anchor()
        self._kept[name] = _Kept(events)
        for each, content in files.items():
            self.files(name).write(each, content)
        return name

    def _changed(self, name: str) -> None:
        self._kept[name] = self._kept.pop(name)
