"""Which sessions there are, and what happened in them; read without owning their journals."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

from mainspring.app.records import workspace_of
from mainspring.app.stores import sessions_of
from mainspring.config import Config
from mainspring.errors import UsageError
from mainspring.events import GoalEnded, GoalPaused, GoalSet, Recorded, TurnEnded, TurnStarted
from mainspring.journal.file import JournalFile
from mainspring.journal.index import SessionRow
from mainspring.journal.owner import owner_of

_POLL_S = 0.1


def list_sessions(config: Config) -> list[SessionRow]:
    """Every session, the most recently changed first."""
    return sessions_of(config).sessions()


def newest_session(config: Config, folder: Path) -> str:
    """The newest session that works in a folder."""
    here = str(folder.resolve())
    for row in list_sessions(config):
        if workspace_of(row, config) == here:
            return row.id
    raise UsageError("No session has worked in this folder.", remedy="Name one: mainspring sessions.")


@contextmanager
def journal_of(config: Config, session: str) -> Generator[JournalFile]:
    """The journal of the one session whose id begins so, for reading."""
    store = sessions_of(config)
    file = store.file(store.find(session))
    try:
        yield file
    finally:
        file.close()


def read_events(config: Config, session: str) -> Iterator[Recorded]:
    """Everything that is on record for a session."""
    with journal_of(config, session) as file:
        yield from pages(file)


def pages(file: JournalFile, *, after: int = 0, kinds: tuple[str, ...] = ()) -> Iterator[Recorded]:
    """The events of a journal, read page by page."""
    while page := file.read(after=after, kinds=kinds):
        yield from page
        after = page[-1].seq


class Follower:
    """Events of a session that another process runs. `has_ended` says, once there are no more of them,
    whether its turn or its goal is over; else its process is gone."""

    def __init__(self, config: Config, session: str, *, after: int = 0) -> None:
        store = sessions_of(config)
        self.session = store.find(session)
        self._file = store.file(self.session)
        self._after = after
        self.has_goal = self._file.last("GoalSet") is not None
        self.has_ended = False

    def events(self, *, is_followed: bool = True) -> Iterator[Recorded]:
        """What is on record, and with `is_followed` what is added until the run has ended."""
        ends = (GoalEnded, GoalPaused) if self.has_goal else (TurnEnded,)
        pause = threading.Event()
        try:
            while True:
                is_owned = self._is_owned()
                for recorded in pages(self._file, after=self._after):
                    self._after = recorded.seq
                    is_begun = isinstance(recorded.event, GoalSet | TurnStarted)
                    self.has_ended = isinstance(recorded.event, ends) or (self.has_ended and not is_begun)
                    yield recorded
                if not is_followed or self.has_ended or not is_owned:
                    return
                pause.wait(_POLL_S)
        finally:
            self._file.close()

    def _is_owned(self) -> bool:
        owner = owner_of(self._file.path.parent)
        return owner is not None and owner.is_alive
