"""A session that another process runs: what it records, and what can be said to it from here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from msgspec.structs import replace

from mainspring.app.operations import messages
from mainspring.app.operations.approve import deliver_answer
from mainspring.app.operations.sessions import journal_of
from mainspring.app.operations.status import SessionStatus
from mainspring.app.stores import sessions_of
from mainspring.catalog import Owner, running
from mainspring.events import ApprovalGiven, Recorded
from mainspring.folds.state import State
from mainspring.journal import JournalReader, events_in
from mainspring.settings import Config

_LOOK_S, _LOOK_IDLE_S = 0.1, 0.5


class WatchedSession:
    """What is said goes through the inbox of `owner`. `state` is what was taken from `events` so far."""

    def __init__(self, config: Config, journal: JournalReader, owner: Owner) -> None:
        self._config = config
        self.journal = journal
        self.owner = owner
        self.state = State()
        self.seq = 0
        """The number of the last event that was given."""

    @property
    def id(self) -> str:
        return self.journal.session

    @property
    def is_running(self) -> bool:
        return self.state.is_turn_open

    @property
    def status(self) -> SessionStatus:
        state = self.state
        return SessionStatus(
            session=self.id,
            model=state.model,
            effort=state.effort,
            mode=state.level or state.mode,
            sandbox="",
            tokens=0,  # what its next request takes is known to that process alone
            window=None,
            spent_usd=state.ledger.tally("session").settled_usd,
            cap_usd=None,
            left_usd=None,
            processes=len(state.processes.open),
            waits=tuple(each.started for each in state.waits.open),
            is_running=self.is_running,
            owner=self.owner.name,
        )

    async def events(self) -> AsyncGenerator[Recorded]:
        """Everything on record, then what is added, until the process is gone."""
        sessions = sessions_of(self._config)
        while True:
            owner = await running(sessions, self.id)
            async for recorded in events_in(self.journal, after=self.seq):
                self.state.apply(recorded)
                self.seq = recorded.seq
                yield recorded
            if owner is None or owner.pid != self.owner.pid:
                return
            await asyncio.sleep(_LOOK_S if self.is_running else _LOOK_IDLE_S)

    async def say(self, text: str) -> None:
        await messages.say(self.id, text, config=self._config)

    async def note(self, text: str) -> None:
        await messages.note(self.id, text, config=self._config)

    async def stop(self) -> None:
        await messages.stop(self.id, config=self._config)

    async def answer(self, given: ApprovalGiven) -> None:
        await deliver_answer(self._config, self.id, replace(given, origin=self._config.origin))


@asynccontextmanager
async def watched_session(config: Config, session: str) -> AsyncGenerator[WatchedSession | None]:
    """None when nobody runs the session."""
    async with journal_of(config, session) as journal:
        owner = await running(sessions_of(config), journal.session)
        yield WatchedSession(config, journal, owner) if owner else None
