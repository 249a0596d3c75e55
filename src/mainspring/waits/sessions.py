"""Another session: its running turn, or its goal, is over. Read from its journal, whoever writes it."""

from __future__ import annotations

from mainspring.catalog import Sessions, reading, running
from mainspring.errors import JournalError, UnknownSession, UsageError
from mainspring.events import GoalEnded, GoalPaused, OnSession, Recorded, TurnEnded
from mainspring.journal import JournalReader
from mainspring.waits.decide import Observation
from mainspring.waits.reach import WaitContext
from mainspring.waits.watch import ConditionWatch, Growing

_LEFT_TIMES = 3
_GOALS = ("GoalSet", "GoalPaused", "GoalEnded")
_TURNS = ("UserSaid", "TurnStarted", "TurnEnded")
_SHOWN = 400


class SessionWatch(ConditionWatch):
    def __init__(self, session: str, sessions: Sessions, pause: Growing) -> None:
        super().__init__(OnSession(session=session))
        self._session = session
        self._sessions = sessions
        self._pause = pause
        self._left = 0

    @classmethod
    async def begin(cls, condition: OnSession, waiting: WaitContext) -> SessionWatch:
        """A watch of the session that a condition names; `UsageError` when it cannot be watched."""
        sessions = waiting.reach.sessions
        if sessions is None:
            raise UsageError("This session cannot wait for other sessions.")
        try:
            session = await sessions.find(condition.session)
        except UnknownSession as error:
            raise UsageError(error.message, remedy=error.remedy) from error
        if session == waiting.state.session:
            raise UsageError("A session cannot wait for its own end.")
        return cls(session, sessions, Growing(waiting.reach.pace.session_s))

    async def look(self) -> Observation | None:
        try:
            seen, is_left = await self._read()
        except UnknownSession:
            return Observation(f"Session {self._session} was removed", is_lost=True)
        except JournalError as error:
            return Observation(f"Session {self._session} cannot be read: {error.message}", is_lost=True)
        self._left = self._left + 1 if is_left and seen is None else 0
        if self._left < _LEFT_TIMES:
            return seen
        return Observation(
            f"Session {self._session} is not at its end, but no process works on it", is_lost=True
        )

    async def _read(self) -> tuple[Observation | None, bool]:
        """What ended, and whether nobody works on it any more."""
        async with reading(self._sessions, self._session) as reader:
            seen = await _ended(reader)
        return seen, await running(self._sessions, self._session) is None


async def _ended(reader: JournalReader) -> Observation | None:
    last: Recorded | None = await reader.last(*_GOALS) or await reader.last(*_TURNS)
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
    return Observation(f"Session {reader.session}: {how}. {why[:_SHOWN]}".rstrip(". "), last.time_us)
