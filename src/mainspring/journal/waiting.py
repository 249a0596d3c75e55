"""Someone who waits until a journal has written something, however often the waiting is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from mainspring.errors import JournalError
from mainspring.events import Recorded


class Waiting:
    """A cancellation ends `told`, not the write. Without `is_heard` nobody waits, and an error is for
    the next append to raise."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, is_heard: bool = True) -> None:
        self.told: asyncio.Future[Sequence[Recorded]] = loop.create_future()
        self.is_heard = is_heard
        if not is_heard:
            self.told.cancel()
        self._is_over = False

    def end(self, recorded: Sequence[Recorded], error: BaseException | None) -> None:
        self._is_over = True
        if self.told.done():
            return
        if error is None:
            self.told.set_result(recorded)
        else:
            self.told.set_exception(error)

    async def outlast(self) -> None:
        """Waits for the write, however often the waiting is cancelled: it takes milliseconds."""
        while not self._is_over:
            self.told = asyncio.get_running_loop().create_future()
            with suppress(asyncio.CancelledError, JournalError):
                await self.told

    async def result(self) -> Sequence[Recorded]:
        """What was written; a cancellation goes on after that."""
        try:
            return await self.told
        except asyncio.CancelledError:
            await self.outlast()
            raise
