"""What a slash command works with, and what one is."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from mainspring.chat.questions import OpenQuestions
from mainspring.chat.seat import ChatOptions, Seat
from mainspring.chat.surface import Surface
from mainspring.chat.view import View
from mainspring.errors import UsageError
from mainspring.session.session import Session
from mainspring.settings import Config


class ChatPart(Protocol):
    """What commands ask of the chat that they belong to."""

    questions: OpenQuestions
    view: View
    queued: deque[str]

    def quit(self) -> None: ...

    def stop(self) -> bool: ...


class Desk(msgspec.Struct, frozen=True):
    """What a command works with."""

    config: Config
    session: Session
    surface: Surface
    seat: Seat
    chat: ChatPart

    @property
    def options(self) -> ChatOptions:
        """How this session would be opened again."""
        return self.seat.options or ChatOptions(folder=self.session.state.workspace, session=self.session.id)

    def change(self, options: ChatOptions, *, between: Callable[[], Awaitable[None]] | None = None) -> None:
        """Closes this session and opens another; in between the journal is nobody's."""
        if self.session.is_running:
            raise UsageError("A turn is running.", remedy="Stop it first: Esc.")
        self.seat.change(options, between=between)

    def write(self, text: str) -> None:
        self.surface.write(f"\n{text}" if text else text)


class SlashCommand(msgspec.Struct, frozen=True):
    """`usage` are its arguments as people read them."""

    run: Callable[[Desk, str], Awaitable[None]]
    help: str
    usage: str = ""
