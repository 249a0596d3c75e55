"""The port to all sessions: which there are, who writes them, what they spent, how they are made and copied.

Everything outside `journal/` and this package uses sessions through `Sessions`; only `app/stores.py` names
the implementation. A session has a journal, wherever that is kept, and a local folder (`directory`).

A shared database keeps journals, ownership (an epoch that every append checks), named locks, the critical
section of the day, and small files beside a journal (`files`): what was left for the process that runs it,
and its secrets, encrypted. What concerns one machine stays in its local folder: processes/ and the log of the
daemon.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import BinaryIO, Protocol

from mainspring.catalog.families import DOCS_TITLE
from mainspring.catalog.fold import SessionFold, SessionRow, local_day, take
from mainspring.catalog.prefixes import match_prefix, none_begins_with
from mainspring.catalog.queue import (
    DEFAULT_QUEUE,
    ClaimChoice,
    Claimed,
    QueuedSession,
    Release,
    WorkerRow,
    WorkQueue,
)
from mainspring.catalog.spent import Purpose, SessionSpend, Spent
from mainspring.disk.owner import Owner
from mainspring.disk.shared_files import NO_FILES, NamedFiles, SharedFiles
from mainspring.events import Origin
from mainspring.journal import Journal, JournalReader, KnownEvents, Verification
from mainspring.journal.lines import Header

__all__ = [
    "DEFAULT_QUEUE",
    "DOCS_TITLE",
    "ClaimChoice",
    "Claimed",
    "Header",
    "Owner",
    "Purpose",
    "QueuedSession",
    "Release",
    "SessionFold",
    "SessionRow",
    "SessionSpend",
    "Spent",
    "WorkQueue",
    "WorkerRow",
    "local_day",
    "match_prefix",
    "none_begins_with",
    "take",
]

UNREADABLE = "Unreadable"
"""The kind of an event that stands in a repaired copy for one that cannot be decoded."""


class Day(Protocol):
    """What all sessions spend in one day of this machine's time zone."""

    def held(self) -> AbstractAsyncContextManager[Spent]:
        """What they have spent today, on record; nobody else who asks here reserves until this ends."""
        ...


class Sessions(Protocol):
    """All sessions of one store. A session that does not exist is `UnknownSession` everywhere."""

    async def create(self, session: str | None = None) -> Journal:
        """The journal of a new session, open for writing; without an id it gets one. `UsageError` when there
        is a session of that id already."""
        ...

    async def open(self, session: str) -> Journal:
        """The journal of a session, for writing; `JournalOwned` names the process that has it. What a process
        left that is gone is taken over, and from then on that process could not append any more.
        `JournalDamaged` when the chain is broken or ends before its anchor: nothing is written on it."""
        ...

    async def delete(self, session: str, *, last_seq: int | None = None, also: Collection[str] = ()) -> bool:
        """Deletes a session with its files, for ever; `JournalOwned` names the process that runs it. False,
        and it stays, when another one was forked from it that is none of those that `also` go, or with a
        `last_seq` when something is recorded after that event. A fork in the making is waited for."""
        ...

    async def accept(self, session: str) -> Verification:
        """Anchors a journal as it is, for a person who restored an older copy of it; its chain must be sound
        (`JournalDamaged`)."""
        ...

    async def read(self, session: str) -> JournalReader:
        """The journal of a session, for reading, whoever writes it meanwhile."""
        ...

    async def find(self, prefix: str) -> str:
        """The one session whose id begins with `prefix`."""
        ...

    async def names(self) -> list[str]:
        """The ids of all sessions, the most recently changed first."""
        ...

    async def rows(self) -> list[SessionRow]:
        """Every session as the list shows it, the most recently changed first. A session that cannot be read
        is listed as damaged."""
        ...

    async def spends(self) -> list[SessionSpend]:
        """What each session spent. A fork does not pay for its parent."""
        ...

    async def owner(self, session: str) -> Owner | None:
        """Who writes a session now, or wrote it when it crashed (`is_alive` tells which); None after it was
        closed in order. It may have changed by the time it is used."""
        ...

    def lock(self, name: str) -> AbstractAsyncContextManager[None]:
        """Keeps everybody else who asks for this name out until the block or its process ends;
        `JournalOwned` when somebody has it. Names are words of ours, with / between them."""
        ...

    async def lock_owner(self, name: str) -> Owner | None:
        """Who has the lock, or had it when it crashed; None when nobody has."""
        ...

    def today(self) -> Day:
        """What all these sessions spend today, for a cap that they share."""
        ...

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
        """Makes a session that begins as a copy of another, up to event `at` or whole, perhaps for another
        workspace, with these `files` beside it; gives its id and how many events it shares. With
        `is_repaired` each event that cannot be read has one of the kind `Unreadable` in its place."""
        ...

    async def compose(
        self, events_of: KnownEvents, *, session: str | None = None, files: NamedFiles = NO_FILES
    ) -> str:
        """Makes a session whose events are known already, with these `files` beside it, whole or not at all,
        and gives its id."""
        ...

    async def export(
        self,
        session: str,
        to: BinaryIO,
        *,
        blobs_beside: Path | None = None,
        readable_only: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> Header:
        """Writes a sound journal as lines; of a damaged one, `readable_only` writes what comes before the
        damage. With `blobs_beside` each blob becomes a file in that folder."""
        ...

    async def import_lines(
        self, lines: Iterable[bytes], *, blobs_beside: Path | None = None, files: NamedFiles = NO_FILES
    ) -> str:
        """Makes the session that exported lines describe, with the same hashes, and these `files` beside
        it, or nothing at all; gives its id."""
        ...

    def directory(self, session: str) -> Path:
        """The folder on this machine for the files beside the journal of a session."""
        ...

    def files(self, session: str) -> SharedFiles:
        """The small files beside the journal of a session that all who use these sessions share, such as
        what is left for the process that runs it. They are deleted with it."""
        ...

    def secret_files(self, session: str) -> SharedFiles:
        """The same for what may not be read where the journals are kept: encrypted there, or of this machine
        alone."""
        ...


@asynccontextmanager
async def reading(sessions: Sessions, session: str) -> AsyncGenerator[JournalReader]:
    """The journal of a session, for reading, closed at the end."""
    reader = await sessions.read(session)
    try:
        yield reader
    finally:
        await reader.close()


async def running(sessions: Sessions, session: str) -> Owner | None:
    """The process that runs a session now; None when nobody does."""
    owner = await sessions.owner(session)
    return owner if owner is not None and owner.is_alive else None
