"""Which session a chat is about, and the way from one to the next.

A session is open inside `async with`, so whoever wants another one says so (`change`), and the loop closes
this one and opens that. What is said while none is open waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import msgspec

from mainspring.events import Effort

Between = Callable[[], Awaitable[None]]


class ChatOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a session is opened; without an id a new one is begun."""

    folder: Path
    session: str = ""
    models: Sequence[str] = ()
    effort: Effort | None = None
    mode: str = ""
    sandbox: str = ""
    max_cost_usd: float | None = None
    allow_unpriced: bool = False
    allow_home: bool = False
    text: str = ""
    """What is said first."""
    shown_seq: int = 0
    """The number of the last event that is on the screen already."""

    def again(self, session: str) -> ChatOptions:
        """The same session once more: what was chosen in it since then is on record."""
        return msgspec.structs.replace(
            self, session=session, models=(), effort=None, mode="", text="", shown_seq=0
        )


class Seat:
    """Holds what shall be open. Once the person has left, nothing is opened any more."""

    def __init__(self, options: ChatOptions) -> None:
        self._options = options
        self._is_left = False
        self._between: Between | None = None
        self._changed = asyncio.Event()

    @property
    def options(self) -> ChatOptions | None:
        """None is the end of the chat."""
        return None if self._is_left else self._options

    def change(self, options: ChatOptions, *, between: Between | None = None) -> None:
        """Another session shall be open, or this one again."""
        self._options, self._between = options, between
        self._changed.set()

    def keep(self, options: ChatOptions) -> None:
        """How what is open now would be opened again."""
        self._options = options

    def leave(self) -> None:
        self._is_left = True
        self._changed.set()

    async def wait(self) -> None:
        """Returns when something else shall be open."""
        await self._changed.wait()
        self._changed.clear()

    async def pass_between(self) -> None:
        """Does what has to be done while no session is open."""
        between, self._between = self._between, None
        if between is not None:
            await between()
