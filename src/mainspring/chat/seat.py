"""Which session a chat is about, and the way from one to the next.

A session is open inside `async with`, so whoever wants another one says so (`change`), and the loop closes
this one and opens that. What is said while none is open waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec

from mainspring.events import Effort


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
    text: str = ""
    """What is said first."""


class Seat:
    """Holds what shall be open; `None` is the end of the chat."""

    def __init__(self, options: ChatOptions) -> None:
        self.options: ChatOptions | None = options
        self._changed = asyncio.Event()

    def change(self, options: ChatOptions | None) -> None:
        self.options = options
        self._changed.set()

    async def wait(self) -> None:
        """Returns when something else shall be open."""
        await self._changed.wait()
        self._changed.clear()
