"""What a person said to the running turn and its model has not been asked with: shown until then, and until
then it can be taken back."""

from __future__ import annotations

from mainspring.app.operations.messages import Steer, leave_steer, list_steers
from mainspring.app.operations.watched import WatchedSession
from mainspring.events import UserSaid
from mainspring.session.session import Session
from mainspring.settings import Config


class Steers:
    """Of one session, also those that a chat before this one left."""

    def __init__(self, config: Config, session: Session | WatchedSession) -> None:
        self._config = config
        self._session = session
        self._waiting = list_steers(config, session.id)

    @property
    def texts(self) -> list[str]:
        return [each.text for each in self._waiting]

    async def leave(self, text: str) -> bool:
        """Leaves it for the turn; False when it must be said at once: nothing runs, or the turn waits, which
        a message ends."""
        session = self._session
        if not session.is_running or session.state.waits.open:
            return False
        left = await leave_steer(self._config, session.id, text)
        self._waiting += [left] if left else []
        return left is not None

    def on_said(self, said: UserSaid) -> None:
        """It is on record, so that nobody can take it back."""
        self._waiting = [each for each in self._waiting if each.id != said.command]

    def take_back(self, at: int = -1) -> str | None:
        """Takes one back, the newest unless another one is named; None when it is too late for that."""
        steer: Steer = self._waiting.pop(at)
        return steer.text if steer.withdraw() else None

    def take_all_back(self) -> str:
        """What could still be taken back, a line each."""
        waiting, self._waiting = self._waiting, []
        return "\n".join(each.text for each in waiting if each.withdraw())
