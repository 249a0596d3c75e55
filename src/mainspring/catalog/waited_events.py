"""A journal of a database, read in another thread than that of its event loop, for folds."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine
from typing import Any, TypeVar

from mainspring.events import Recorded
from mainspring.journal import JournalReader

_T = TypeVar("_T")


class WaitedEvents:
    """`loop` is that of the reader."""

    def __init__(self, reader: JournalReader, loop: asyncio.AbstractEventLoop) -> None:
        self._reader, self._loop = reader, loop

    def read(
        self, *, after: int = 0, until: int | None = None, kinds: Collection[str] = (), limit: int = 1000
    ) -> list[Recorded]:
        return self._wait(self._reader.read(after=after, until=until, kinds=kinds, limit=limit))

    def last(self, *kinds: str) -> Recorded | None:
        return self._wait(self._reader.last(*kinds))

    def _wait(self, asked: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(asked, self._loop).result()
