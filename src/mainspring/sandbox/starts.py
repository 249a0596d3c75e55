"""Commands that many sessions of this process want at once start in turn, a few at a time.

Their starts would share the processors, so all would be late, and some much later than others. A command has
its place until it has ended, or for as long as a start takes: one that runs for longer holds up nobody.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager
from weakref import WeakKeyDictionary

START_S = 0.02
PLACES = 2 * (os.cpu_count() or 1)
_places: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


@asynccontextmanager
async def in_turn() -> AsyncGenerator[None]:
    """Around a command, from its preparations to its end."""
    loop = asyncio.get_running_loop()
    places = _places.setdefault(loop, asyncio.Semaphore(PLACES))
    await places.acquire()
    with ExitStack() as place:
        place.callback(places.release)
        timer = loop.call_later(START_S, place.close)  # closing it again does nothing
        place.callback(timer.cancel)
        yield
