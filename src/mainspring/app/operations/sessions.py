"""Which sessions there are, and what happened in them; read without owning their journals."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Collection, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec

from mainspring.app.records import workspace_of
from mainspring.app.stores import sessions_of
from mainspring.catalog import SessionRow as SessionRow  # noqa: PLC0414 - faces name it
from mainspring.catalog import reading, running
from mainspring.context.history import is_live, read_all, undone_ranges
from mainspring.disk.usage import bytes_in
from mainspring.errors import UnknownSession, UsageError
from mainspring.events import (
    FixStarted,
    GoalEnded,
    GoalPaused,
    GoalSet,
    Recorded,
    TasksStarted,
    TurnEnded,
    TurnStarted,
)
from mainspring.journal import JournalReader, events_in
from mainspring.settings import Config

_POLL_S = 0.1


async def list_sessions(config: Config) -> list[SessionRow]:
    """Every session, the most recently changed first."""
    return await sessions_of(config).rows()


def with_children(rows: Sequence[SessionRow]) -> list[SessionRow]:
    """The same, with each child behind its parent, the first one first, where that is listed as well."""
    listed = {row.id for row in rows}
    children: dict[str, list[SessionRow]] = {}
    for row in sorted(rows, key=lambda row: row.started_us):
        if row.agent and row.parent in listed:
            children.setdefault(row.parent, []).append(row)
    return [
        each
        for row in rows
        if not (row.agent and row.parent in listed)
        for each in (row, *children.get(row.id, ()))
    ]


async def session_bytes(config: Config, sessions: Collection[str]) -> dict[str, int]:
    """The room that each of these sessions takes on disk."""
    store = sessions_of(config)
    folders = {session: store.directory(session) for session in sessions}
    return await asyncio.to_thread(lambda: {name: bytes_in(folder) for name, folder in folders.items()})


async def newest_session(config: Config, folder: Path) -> str:
    """The newest session that works in a folder."""
    if found := await newest_in(folder, await list_sessions(config), config):
        return found
    raise UsageError(
        "There is no session in this folder.", remedy="Name one; `mainspring sessions` lists them."
    )


async def newest_in(folder: Path, rows: Iterable[SessionRow], config: Config) -> str:
    """The first of these sessions that works in a folder and for nobody else; empty when none does."""
    return next((row.id for row in await rows_in(folder, rows, config) if not row.agent), "")


async def rows_in(folder: Path, rows: Iterable[SessionRow], config: Config) -> Iterator[SessionRow]:
    """Those of these sessions that work in a folder."""
    here, store = str(await asyncio.to_thread(folder.resolve)), sessions_of(config)
    return (row for row in rows if workspace_of(row, store, config) == here)


@asynccontextmanager
async def journal_of(config: Config, session: str) -> AsyncGenerator[JournalReader]:
    """The journal of the one session whose id begins so, for reading."""
    sessions = sessions_of(config)
    async with reading(sessions, await sessions.find(session)) as reader:
        yield reader


async def find_session(config: Config, session: str) -> str:
    """The whole id of the one session whose id begins so."""
    return await sessions_of(config).find(session)


async def has_open_tasks(config: Config, session: str) -> bool:
    """Whether a person gave a session tasks, and some are not over."""
    async with journal_of(config, session) as journal:
        last = await journal.last("TasksStarted", "TasksEnded")
    return last is not None and isinstance(last.event, TasksStarted) and not last.event.call


async def has_open_fix(config: Config, session: str) -> bool:
    """Whether a command was to be made to pass in a session, and that is not over."""
    async with journal_of(config, session) as journal:
        last = await journal.last("FixStarted", "FixEnded")
    return last is not None and isinstance(last.event, FixStarted)


async def is_run(config: Config, session: str) -> bool:
    """Whether a process works on a session now, or holds it."""
    return await running(sessions_of(config), session) is not None


def journal_stamp(folder: Path) -> tuple[tuple[int, int], ...]:
    """Another value once the journal in the folder of a session was written, at the price of a few looks at
    files; what is written within the same tick of the system's clock may leave it as it is."""
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        found = (each.stat() for each in entries if each.name.startswith("journal"))
        return tuple((each.st_mtime_ns, each.st_size) for each in found)
    return ()


def session_folder(config: Config, session: str) -> Path:
    return sessions_of(config).directory(session)


async def read_events(config: Config, session: str) -> AsyncGenerator[Recorded]:
    """Everything that is on record for a session."""
    async with journal_of(config, session) as reader:
        async for recorded in events_in(reader):
            yield recorded


class ListedSession(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    folder: str
    title: str
    updated_us: int


class SessionsPage(msgspec.Struct, frozen=True):
    """Some sessions; `next` is what the page after it begins after, empty when there is none."""

    sessions: tuple[ListedSession, ...]
    next: str = ""


async def sessions_page(
    config: Config, folder: Path | None = None, *, after: str = "", size: int = 50
) -> SessionsPage:
    """Sessions, of a folder or all, the most recently changed first, from the one after `after` on."""
    rows = await list_sessions(config)
    rows = list(rows if folder is None else await rows_in(folder, rows, config))
    ids = [row.id for row in rows]
    if after and after not in ids:
        raise UsageError(f"There is no session {after!r} to list from.", remedy="Begin the list again.")
    start = ids.index(after) + 1 if after else 0
    chosen, store = rows[start : start + size], sessions_of(config)
    listed = tuple(
        ListedSession(
            id=row.id, folder=workspace_of(row, store, config), title=row.title, updated_us=row.updated_us
        )
        for row in chosen
    )
    return SessionsPage(listed, ids[start + size - 1] if len(ids) > start + size else "")


async def live_events(journal: JournalReader, *, until: int) -> AsyncGenerator[Recorded]:
    """What is on record up to an event and was not undone."""
    dead = undone_ranges(await read_all(journal, kinds=("Undone",)))
    async for recorded in events_in(journal):
        if recorded.seq > until:
            return
        if is_live(recorded.seq, dead):
            yield recorded


async def folder_of(config: Config, session: str) -> Path:
    """Where the session of exactly this id works."""
    store = sessions_of(config)
    if await store.find(session) != session:
        raise UnknownSession(f"There is no session {session!r}.", remedy="`mainspring sessions` lists them.")
    row = next(row for row in await store.rows() if row.id == session)
    return Path(workspace_of(row, store, config))


class Follower:
    """Events of a session that another process runs. Once there are no more of them, `has_ended` says whether
    its turn or its goal is over; else its process is gone."""

    def __init__(self, config: Config, session: str, *, after: int = 0) -> None:
        self._sessions = sessions_of(config)
        self.session = session
        self._after = after
        self.has_goal = False
        self.has_ended = False

    async def events(self, *, is_followed: bool = True) -> AsyncGenerator[Recorded]:
        """What is on record, and with `is_followed` what is added until the run has ended."""
        self.session = await self._sessions.find(self.session)
        async with reading(self._sessions, self.session) as reader:
            self.has_goal = await reader.last("GoalSet") is not None
            ends = (GoalEnded, GoalPaused) if self.has_goal else (TurnEnded,)
            while True:
                is_running = await running(self._sessions, self.session) is not None
                async for recorded in events_in(reader, after=self._after):
                    self._after = recorded.seq
                    is_begun = isinstance(recorded.event, GoalSet | TurnStarted)
                    self.has_ended = isinstance(recorded.event, ends) or (self.has_ended and not is_begun)
                    yield recorded
                if not is_followed or self.has_ended or not is_running:
                    return
                await asyncio.sleep(_POLL_S)
