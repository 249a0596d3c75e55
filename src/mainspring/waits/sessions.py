"""Another session: its running turn, or its goal, is over. Read from its journal, whoever writes it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from mainspring.errors import JournalError, UnknownSession, UsageError
from mainspring.events import GoalEnded, GoalPaused, OnSession, Recorded, TurnEnded
from mainspring.journal.file import JournalFile
from mainspring.journal.owner import owner_of
from mainspring.journal.shelf import Shelf
from mainspring.waits.decide import Seen
from mainspring.waits.reach import Sleeper
from mainspring.waits.watch import Growing, Watch

_LEFT_TIMES = 3
_GOALS = ("GoalSet", "GoalPaused", "GoalEnded")
_TURNS = ("UserSaid", "TurnStarted", "TurnEnded")
_SHOWN = 400


class SessionWatch(Watch):
    def __init__(self, condition: OnSession, sleeper: Sleeper) -> None:
        shelf = sleeper.reach.shelf
        if shelf is None:
            raise UsageError("This session was built without a way to other sessions.")
        try:
            self._session = shelf.find(condition.session)
        except UnknownSession as error:
            raise UsageError(error.message, remedy=error.remedy) from error
        if self._session == sleeper.state.session:
            raise UsageError("A session cannot wait for its own end.")
        super().__init__(OnSession(session=self._session))
        self._shelf: Shelf = shelf
        self._pause = Growing(sleeper.reach.pace.session_s)
        self._left = 0

    async def look(self) -> Seen | None:
        try:
            seen, is_left = await asyncio.to_thread(self._read)
        except UnknownSession:
            return Seen(f"Session {self._session} was removed", is_lost=True)
        except JournalError as error:
            return Seen(f"Session {self._session} cannot be read: {error.message}", is_lost=True)
        self._left = self._left + 1 if is_left and seen is None else 0
        if self._left < _LEFT_TIMES:
            return seen
        return Seen(f"Session {self._session} is not at its end, but no process works on it", is_lost=True)

    async def rest(self) -> None:
        await self._pause.rest()

    def _read(self) -> tuple[Seen | None, bool]:
        """What ended, and whether nobody works on it any more."""
        folder: Path = self._shelf.directory(self._session)
        file = self._shelf.file(self._session)
        try:
            seen = _ended(file, self._session)
        finally:
            file.close()
        owner = owner_of(folder)
        return seen, owner is None or not owner.is_alive


def _ended(file: JournalFile, session: str) -> Seen | None:
    last: Recorded | None = file.last(*_GOALS) or file.last(*_TURNS)
    if last is None:
        return None
    match last.event:
        case GoalEnded() as goal:
            how, why = f"its goal ended as {goal.ending}", goal.reason
        case GoalPaused() as goal:
            how, why = "its goal was paused", goal.reason
        case TurnEnded() as turn:
            how, why = f"its turn ended as {turn.ending}", turn.detail
        case _:
            return None
    return Seen(f"Session {session}: {how}. {why[:_SHOWN]}".rstrip(". "), last.time_us)
