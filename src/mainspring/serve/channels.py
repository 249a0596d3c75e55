"""Streams of events for any number of readers: in order, from any number on, without a gap or a double.

Each session that somebody watches has one channel. It follows the session itself when this server runs it,
with deltas, and else its journal; it encodes each event once, and keeps the newest frames. A reader that is
behind reads the journal; one that is slow holds up nobody and loses deltas, never an event.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial

import msgspec

from mainspring.app.operations.sessions import is_run, journal_of, journal_stamp, session_folder
from mainspring.documents.json_lines import as_json
from mainspring.errors import JournalError
from mainspring.events import Recorded
from mainspring.events.escaping import escape_json
from mainspring.journal import JournalReader
from mainspring.serve.hub import Hub
from mainspring.serve.view import view_of
from mainspring.settings import Config

_KEPT = 4096
_PAGE = 500
_SHARED, _SHARED_BYTES = 8, 1 << 20
_LOOK_S, _LOOK_IDLE_S = 0.01, 0.05
_LOOKS, _LOOKS_IDLE = 20, 10
_CALM_LOOKS = 10
_TICK_NS = 20_000_000


def frame(recorded: Recorded, *, is_view: bool = False) -> bytes:
    """An event of a stream: numbered, so that a reader can come back to it; a delta has no number. For the
    page (`is_view`) it is what is shown of the event."""
    head = b"id: %d\n" % recorded.seq if recorded.seq else b"event: delta\n"
    data = view_json(recorded) if is_view else as_json(recorded)
    return head + b"data: " + data + b"\n\n"


def view_json(recorded: Recorded) -> bytes:
    return escape_json(msgspec.json.encode(view_of(recorded)))


def _is_fresh(stamp: tuple[tuple[int, int], ...]) -> bool:
    """Whether it was taken in the tick of the system's clock in which more may have been written."""
    return not stamp or any(abs(time.time_ns() - written_ns) < _TICK_NS for written_ns, _ in stamp)


class Channels:
    """The channels of a server; each lives for as long as it has a reader."""

    def __init__(self, config: Config, hub: Hub) -> None:
        self._config = config
        self._hub = hub
        self._channels: dict[tuple[str, bool], _Channel] = {}

    async def follow(self, session: str, after: int, *, is_view: bool = False) -> AsyncGenerator[bytes]:
        """The frames of a session after an event, then what comes, for ever. Several are given together."""
        async with journal_of(self._config, session) as reader:
            key = reader.session, is_view
            channel = self._channels.get(key)
            if channel is None:
                channel = self._channels[key] = _Channel(
                    self._config, self._hub, reader.session, partial(frame, is_view=is_view)
                )
            channel.readers += 1
            try:
                async with aclosing(channel.read(reader, after)) as frames:
                    async for each in frames:
                        yield each
            finally:
                channel.readers -= 1
                if not channel.readers:
                    del self._channels[key]
                    await channel.close()

    async def close(self) -> None:
        for channel in tuple(self._channels.values()):
            await channel.close()


class _Channel:
    def __init__(self, config: Config, hub: Hub, session: str, encode: Callable[[Recorded], bytes]) -> None:
        self._frame = encode
        self._config = config
        self._hub = hub
        self._session = session
        self._frames: deque[tuple[int, bytes]] = deque(maxlen=_KEPT)
        self._given = 0
        self._seq: int | None = None
        self._pages: dict[tuple[int, int], tuple[int, bytes]] = {}
        self._paging = asyncio.Lock()
        self._changed = asyncio.Event()
        self._is_closed = False
        self._task = asyncio.create_task(self._fill())
        self.readers = 0

    async def read(self, reader: JournalReader, after: int) -> AsyncGenerator[bytes]:
        position: int | None = None
        while not self._is_closed:
            changed = self._changed
            first = self._given - len(self._frames)
            if position is not None and position >= first:
                fresh = list(self._frames)[position - first :] if position < self._given else ()
                position = self._given
                wanted = [data for seq, data in fresh if not seq or seq > after]
                after = max((seq for seq, _ in fresh), default=after) or after
                if wanted:
                    yield b"".join(wanted)
                elif self._task.done():
                    self._task.result()  # raises what ended it
                    return
                else:
                    await changed.wait()
                continue
            # Behind what is kept: from the journal, up to where the frames go on.
            if self._seq is None and not self._task.done():
                await changed.wait()
                continue
            position, until = self._given, self._seq or 0
            while after < until:
                after, data = await self._page(reader, after, until)
                if data:
                    yield data

    async def _page(self, reader: JournalReader, after: int, until: int) -> tuple[int, bytes]:
        """The frames of a page of the journal, and up to which event they go. Readers that come at once, as
        after a restart, share what is read and encoded."""
        async with self._paging:
            found = self._pages.get((after, until))
            if found is None:
                page = await reader.read(after=after, until=until, limit=_PAGE)
                found = page[-1].seq if page else until, b"".join(map(self._frame, page))
                if len(found[1]) <= _SHARED_BYTES:
                    self._pages[after, until] = found
                    while len(self._pages) > _SHARED:
                        del self._pages[next(iter(self._pages))]
            return found

    async def close(self) -> None:
        self._is_closed = True
        self._task.cancel()
        await asyncio.wait({self._task})
        self._changed.set()

    def _offer(self, events: list[Recorded]) -> None:
        for recorded in events:
            self._frames.append((recorded.seq, self._frame(recorded)))
            self._seq = recorded.seq or self._seq
        self._given += len(events)
        self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _fill(self) -> None:
        """Follows the session, whoever runs it at the time."""
        try:
            async with journal_of(self._config, self._session) as reader:
                self._seq = await reader.last_seq()
                self._tell()
                while True:
                    if session := self._hub.here(self._session):
                        async with aclosing(session.subscribe(self._seq or 0, deltas=True)) as events:
                            async for recorded in events:
                                self._offer([recorded])
                        await asyncio.sleep(_LOOK_S)  # it is being closed
                    await self._poll(reader, lambda: self._hub.here(self._session) is None)
        finally:
            self._tell()

    async def _poll(self, reader: JournalReader, is_wanted: Callable[[], bool]) -> None:
        """Reads what another process adds, as soon as its files have changed, and now and then anyway; more
        seldom while nobody works on the session."""
        calm, folder = 0, session_folder(self._config, self._session)
        while is_wanted():
            stamp = journal_stamp(folder)
            is_fresh = _is_fresh(stamp)
            try:
                page = await reader.read(after=self._seq or 0, limit=_PAGE)
            except JournalError:
                page = []  # its next event is damaged: there is nothing to tell after it
            if page:
                self._offer(page)
                calm = 0
                continue
            calm += 1
            is_idle = calm > _CALM_LOOKS and not await is_run(self._config, self._session)
            for _ in range(_LOOKS_IDLE if is_idle else _LOOKS):
                await asyncio.sleep(_LOOK_IDLE_S if is_idle else _LOOK_S)
                if is_fresh or journal_stamp(folder) != stamp:
                    break
