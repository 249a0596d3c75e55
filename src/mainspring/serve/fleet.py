"""All sessions of this machine and all open questions, looked at once for every page that shows them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable

import msgspec

from mainspring.app.operations.questions import OpenQuestion, QuestionWatch
from mainspring.app.operations.sessions import list_sessions
from mainspring.catalog import SessionRow
from mainspring.events.escaping import escape_json
from mainspring.settings import Config

_LOOK_S = 0.5


class FleetNow(msgspec.Struct, frozen=True, kw_only=True):
    """What changed: rows that are new or others than before, ids that are gone, and all open questions when
    these are others than before."""

    rows: tuple[SessionRow, ...] = ()
    gone: tuple[str, ...] = ()
    questions: tuple[OpenQuestion, ...] | None = None


class Fleet:
    def __init__(self, config: Config) -> None:
        self._config = config
        self._watch = QuestionWatch(config)
        self._looking = asyncio.Lock()
        self._seen: tuple[float, list[SessionRow], tuple[OpenQuestion, ...]] = (-_LOOK_S, [], ())

    async def questions(self, rows: list[SessionRow] | None = None) -> tuple[OpenQuestion, ...]:
        """What waits for a person, the oldest session first."""
        return await self._watch.among(await list_sessions(self._config) if rows is None else rows)

    async def _look(self) -> tuple[list[SessionRow], tuple[OpenQuestion, ...]]:
        """What there is now; pages that ask in the same half second share one look."""
        async with self._looking:
            if time.monotonic() - self._seen[0] >= _LOOK_S / 2:
                rows = await list_sessions(self._config)
                self._seen = (time.monotonic(), rows, await self.questions(rows))
            return self._seen[1], self._seen[2]

    async def follow(self, visible: Callable[[], Awaitable[Callable[[str], bool]]]) -> AsyncGenerator[bytes]:
        """Frames with what changed in folders that are visible; the first has everything."""
        known: dict[str, SessionRow] = {}
        asked: tuple[OpenQuestion, ...] | None = None
        while True:
            (listed, questions), sees = await self._look(), await visible()
            rows = {row.id: row for row in listed if sees(row.folder)}
            listed = list(rows.values())
            questions = tuple(each for each in questions if each.session in rows)
            now = FleetNow(
                rows=tuple(row for row in listed if known.get(row.id) != row),
                gone=tuple(known.keys() - rows.keys()),
                questions=None if questions == asked else questions,
            )
            known, asked = rows, questions
            if now != FleetNow():
                data = escape_json(msgspec.json.encode(now, enc_hook=str))
                yield b"event: fleet\ndata: " + data + b"\n\n"
            await asyncio.sleep(_LOOK_S)
