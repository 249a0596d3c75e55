"""Tells subscribers what was recorded: in order, from any number on, without a gap or a double.

What is written and not durable yet is told once it is. A subscriber that keeps up is served from memory; one
that does not is served from the journal, loses deltas and nothing else. Publishing never waits for anybody.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator

from mainspring.events import Delta, Recorded
from mainspring.journal import JournalReader

_MAX_LIVE = 4096


class _Subscriber:
    def __init__(self) -> None:
        self.live: deque[Recorded] = deque()
        self.wake = asyncio.Event()


class Feed:
    def __init__(self, journal: JournalReader, *, last_seq: int) -> None:
        self._journal = journal
        self._subscribers: set[_Subscriber] = set()
        self._failure: BaseException | None = None
        self._is_closed = False
        self._written: deque[Recorded] = deque()
        self.last_seq = last_seq

    def add(self, recorded: Recorded) -> None:
        """Takes an event that is written, to tell of it when it is durable."""
        self._written.append(recorded)

    def publish(self, until: int) -> None:
        """Tells of the events up to this number, which are durable now."""
        while self._written and self._written[0].seq <= until:
            recorded = self._written.popleft()
            self.last_seq = recorded.seq
            self._offer(recorded)

    def show(self, delta: Delta) -> None:
        self._offer(Recorded(0, 0, delta))

    def close(self, failure: BaseException | None = None) -> None:
        """Lets subscribers finish what is recorded, then ends them, with the failure if there was one. Who is
        so far behind that it needs the journal gets an error once that is closed, never a silent gap."""
        self._is_closed = True
        self._failure = self._failure or failure
        for subscriber in self._subscribers:
            subscriber.wake.set()

    async def subscribe(self, after: int = 0, *, deltas: bool = False) -> AsyncGenerator[Recorded]:
        subscriber = _Subscriber()
        self._subscribers.add(subscriber)
        live = subscriber.live
        try:
            while True:
                if live and live[0].seq <= after + 1:
                    recorded = live.popleft()
                    if recorded.seq == after + 1:
                        after = recorded.seq
                        yield recorded
                    elif recorded.seq == 0 and deltas:
                        yield recorded
                elif after < self.last_seq:
                    until = live[0].seq - 1 if live else self.last_seq
                    for recorded in await self._journal.read(after=after, until=until):
                        after = recorded.seq
                        yield recorded
                elif self._failure:
                    raise self._failure
                elif self._is_closed:
                    return
                else:
                    subscriber.wake.clear()
                    await subscriber.wake.wait()
        finally:
            self._subscribers.discard(subscriber)

    def _offer(self, recorded: Recorded) -> None:
        for subscriber in self._subscribers:
            if len(subscriber.live) >= _MAX_LIVE:
                subscriber.live.clear()
            subscriber.live.append(recorded)
            subscriber.wake.set()
