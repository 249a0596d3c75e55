"""What a slash command works with, and what one is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from mainspring.app.operations.watched import WatchedSession
from mainspring.chat.line import Chips
from mainspring.chat.message_queues import ChatWaiting
from mainspring.chat.palette import Theme
from mainspring.chat.questions import OpenQuestions
from mainspring.chat.seat import ChatOptions, Seat
from mainspring.chat.surface import Surface
from mainspring.chat.view import View
from mainspring.errors import MainspringError, UsageError
from mainspring.session.session import Session
from mainspring.settings import Config


class ChatPart(Protocol):
    """What commands ask of the chat that they belong to."""

    questions: OpenQuestions
    view: View
    waiting: ChatWaiting | None
    chips: Chips

    def quit(self) -> None: ...

    def stop(self) -> bool: ...

    def recolour(self, theme: Theme) -> None: ...

    def say_error(self, error: MainspringError) -> None: ...


class Desk(msgspec.Struct, frozen=True):
    """What a command works with."""

    config: Config
    session: Session | WatchedSession
    surface: Surface
    seat: Seat
    chat: ChatPart

    @property
    def own(self) -> Session:
        """The session, when it runs here."""
        if isinstance(self.session, Session):
            return self.session
        raise UsageError(
            f"{self.session.owner.name} runs this session.",
            remedy="From here you can speak with it, answer it, stop its turn, and look at it.",
        )

    @property
    def options(self) -> ChatOptions:
        """How this session would be opened again."""
        return self.seat.options or ChatOptions(folder=self.session.state.workspace, session=self.session.id)

    def change(self, options: ChatOptions, *, between: Callable[[], Awaitable[None]] | None = None) -> None:
        """Closes this session and opens another; in between the journal is nobody's."""
        self.check_idle()
        self.seat.change(options, between=between)

    def check_idle(self, *, otherwise: str = "") -> None:
        """Refuses what cannot be done while a turn of this session runs here."""
        if self.session.is_running and isinstance(self.session, Session):
            raise UsageError("A turn is running.", remedy=f"Stop it first: Esc. {otherwise}".rstrip())

    async def say(self, text: str) -> None:
        """Says something: to a running turn when its step is over, and until then it can be taken back. A
        message while a question is open is said at once, since it withdraws that."""
        chat, waiting = self.chat, self.chat.waiting
        can_wait = waiting and not (self.surface.takes_lines or chat.questions.waiting)
        if waiting and can_wait and await waiting.steers.leave(text):
            self.surface.refresh()
        else:
            await self.session.say(text)

    def write(self, text: str) -> None:
        self.surface.write(f"\n{text}" if text else text)


class SlashCommand(msgspec.Struct, frozen=True):
    """`usage` are its arguments as people read them."""

    run: Callable[[Desk, str], Awaitable[None]]
    help: str
    usage: str = ""
