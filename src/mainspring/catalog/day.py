"""What all sessions of a data folder spend in one day of local time, for a cap that they share.

There is no second account: the journals say what was spent. Whoever reserves under a cap for the day holds a
lock from reading them until its own reservation is on disk, so processes cannot jointly pass the cap. A
session without such a cap takes no lock; what it spends counts here as soon as it is on record.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager

from mainspring.catalog.fold import local_day
from mainspring.catalog.folder import SessionFiles
from mainspring.catalog.spent import SessionSpend, Spent
from mainspring.disk.files import closing_descriptor
from mainspring.errors import JournalUnwritable
from mainspring.system import try_lock

_TRY_AGAIN_S = 0.01


class Today:
    def __init__(self, shelf: SessionFiles) -> None:
        self._shelf = shelf

    @asynccontextmanager
    async def held(self) -> AsyncGenerator[Spent]:
        path = self._shelf.home / "day.lock"
        try:
            lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise JournalUnwritable(
                f"The day's spending cannot be locked ({error.strerror}).",
                remedy="Check the data folder, or run without a cap for the day.",
            ) from error
        with closing_descriptor(lock):  # which gives the lock back, as does the end of the process
            while not try_lock(lock):  # noqa: ASYNC110 - the holder is another process
                await asyncio.sleep(_TRY_AGAIN_S)
            yield spent_today(await asyncio.to_thread(self._shelf.spends))


def spent_today(spends: Iterable[SessionSpend]) -> Spent:
    day = local_day(time.time_ns() // 1000)
    total = Spent()
    for session in spends:
        for purpose, spent in session.spent.items():
            if purpose.day == day:
                total = total.plus(spent)
    return total
