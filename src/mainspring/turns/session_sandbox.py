"""Where the commands of a session run: chosen when the first is needed, or before, while the model thinks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager

from mainspring.sandbox import Sandbox

READY_AFTER_S = 0.2
"""A model that answers sooner is asked for so little that its commands can wait for their sandbox."""


class SessionSandbox:
    """`choose` gives a sandbox; `load` loads, in a thread, the code that a first command needs besides."""

    def __init__(self, choose: Callable[[], Awaitable[Sandbox]], load: Callable[[], None]) -> None:
        self._choose = choose
        self._load = load
        self._lock = asyncio.Lock()
        self._expected: asyncio.Task[Sandbox] | None = None
        self._is_closing = False
        self.chosen: Sandbox | None = None

    @contextmanager
    def readied(self) -> Generator[None]:
        """While a model is asked: gets ready for its first command, unless it has replied by then."""
        timer = asyncio.get_running_loop().call_later(READY_AFTER_S, self.expect)
        try:
            yield
        finally:
            timer.cancel()

    def expect(self) -> None:
        """Begins to choose, because a command is likely to come."""
        if self.chosen is None and self._expected is None:
            self._expected = asyncio.create_task(self._prepared())

    async def get(self, record: Callable[[Sandbox], Awaitable[None]]) -> Sandbox:
        """The one that was chosen; chosen, and recorded, when it is first needed."""
        async with self._lock:
            if self.chosen is None:
                expected, self._expected = self._expected, None
                self.chosen = await (expected or self._choose())
                await record(self.chosen)
            return self.chosen

    async def close(self) -> None:
        self._is_closing = True
        if self._expected is not None:
            # Nothing needed it, so nobody needs to know why there may be none.
            (expected,) = await asyncio.gather(self._expected, return_exceptions=True)
            if not isinstance(expected, BaseException):
                await expected.close()
        if self.chosen is not None:
            await self.chosen.close()

    async def _prepared(self) -> Sandbox:
        await asyncio.to_thread(self._load)
        if self._is_closing:
            raise asyncio.CancelledError
        return await self._choose()
