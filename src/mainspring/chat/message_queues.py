"""What a person entered for the running turn, and for after it: shown until it is on record, and until then
it can be taken back. It lies in the inbox of the session, so that it outlives the chat."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from mainspring.app.operations.messages import (
    LeftMessage,
    is_queue_due,
    leave_steer,
    list_queued,
    list_steers,
    queue_line,
)
from mainspring.app.operations.watched import WatchedSession
from mainspring.chat.line import Chips, is_more_than_words
from mainspring.errors import UsageError
from mainspring.events import UserSaid
from mainspring.session.session import Session
from mainspring.settings import Config

_LOOK_S = 0.25


class _Messages:
    """Of one session, also those that a chat before this one left."""

    def __init__(self, config: Config, session: Session | WatchedSession, has_come: asyncio.Event) -> None:
        self._config = config
        self._session = session
        self._has_come = has_come
        self._waiting: list[LeftMessage] = []

    def _add(self, *messages: LeftMessage) -> None:
        self._waiting += messages
        if messages:
            self._has_come.set()

    @property
    def texts(self) -> Sequence[str]:
        return [each.text for each in self._waiting]

    def on_said(self, said: UserSaid) -> None:
        """It is on record, so that nobody can take it back."""
        self._waiting = [each for each in self._waiting if each.id != said.command]

    def take_refusals(self) -> list[tuple[str, str]]:
        """What was refused, and why. What was decided, or taken back elsewhere, waits no longer."""
        decided = [each for each in self._waiting if not each.is_pending]
        self._waiting = [each for each in self._waiting if each not in decided]
        return [(each.text, why) for each in decided if (why := each.refusal())]

    def take_back(self, at: int = -1) -> str | None:
        """Takes one back, the newest unless another one is named; None when it is too late for that."""
        message = self._waiting.pop(at)
        return message.text if message.withdraw() else None

    def take_all_back(self) -> str:
        """What could still be taken back, a line each."""
        waiting, self._waiting = self._waiting, []
        return "\n".join(each.text for each in waiting if each.withdraw())


class Steers(_Messages):
    """What enters the running turn, once its step is over."""

    def __init__(self, config: Config, session: Session | WatchedSession, has_come: asyncio.Event) -> None:
        super().__init__(config, session, has_come)
        self._add(*list_steers(config, session.id))

    async def leave(self, text: str) -> bool:
        """Leaves it for the turn; False when it must be said at once: nothing runs, or the turn waits, which
        a message ends."""
        session = self._session
        if not session.is_running or session.state.waits.open:
            return False
        left = await leave_steer(self._config, session.id, text)
        self._add(*([left] if left else ()))
        return left is not None


class LineQueue(_Messages):
    """What waits for a turn that is done. The session says messages; the rest is done by the chat."""

    def __init__(
        self, config: Config, session: Session | WatchedSession, has_come: asyncio.Event, chips: Chips
    ) -> None:
        super().__init__(config, session, has_come)
        self._chips = chips
        for each in list_queued(config, session.id):
            self._add(replace(each, text=chips.take_over(each.text, each.images)))
        self._begun: LeftMessage | None = None

    def add(self, line: str) -> None:
        images, whole = tuple(self._chips.images_in(line)), self._chips.whole(line)
        needs_chat = is_more_than_words(line) or bool(images)
        self._add(queue_line(self._config, self._session.id, whole, needs_chat=needs_chat, images=images))

    @property
    def is_moving(self) -> bool:
        """Whether something waits, and its turn will come without anybody doing something."""
        return bool(self._waiting) and (self._session.is_running or is_queue_due(self._session.state))

    def take_next(self) -> str | None:
        """The first line, when it is the chat's to do and it is time for it."""
        is_mine = bool(self._waiting) and self._waiting[0].needs_chat and is_queue_due(self._session.state)
        first = self._waiting.pop(0) if is_mine else None
        self._begun = first if first is not None and first.begin() else None
        return self._begun.text if self._begun else None

    def end_line(self) -> None:
        """What was taken is done, so that what is behind it may come."""
        if self._begun:
            self._begun.end()
        self._begun = None


class ChatWaiting:
    """Both, for the session that is in a chat."""

    def __init__(self, config: Config, session: Session | WatchedSession, chips: Chips) -> None:
        self.has_come = asyncio.Event()
        self.steers = Steers(config, session, self.has_come)
        self.queue = LineQueue(config, session, self.has_come, chips)

    def on_said(self, said: UserSaid) -> None:
        self.steers.on_said(said)
        self.queue.on_said(said)

    async def attend(
        self,
        is_free: Callable[[], bool],
        enter: Callable[[str], None],
        say_error: Callable[[UsageError], None],
    ) -> None:
        """Gives the chat what it has to do of the queue while it `is_free`, and says what was refused."""
        while True:
            if not (self.steers.texts or self.queue.texts):
                await self.has_come.wait()  # a chat that nobody uses does not wake up
            self.has_come.clear()
            await asyncio.sleep(_LOOK_S)
            for text, why in (*self.steers.take_refusals(), *self.queue.take_refusals()):
                say_error(UsageError(f"It was not said: {why}.", remedy=text))
            if is_free() and (line := self.queue.take_next()) is not None:
                enter(line)
