"""All sessions of this machine and all open questions, looked at once for every page that shows them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator

import msgspec

from mainspring.app.operations.approve import open_questions
from mainspring.app.operations.sessions import list_sessions
from mainspring.catalog import SessionRow
from mainspring.errors import MainspringError
from mainspring.events import ApprovalAsked
from mainspring.events.escaping import escape_json
from mainspring.settings import Config

_LOOK_S = 0.5
_ASKING = ("running", "blocked")


class OpenQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a session waits for a person to answer."""

    session: str
    title: str
    workspace: str
    question: ApprovalAsked


class FleetNow(msgspec.Struct, frozen=True, kw_only=True):
    """What changed: rows that are new or others than before, ids that are gone, and all open questions when
    these are others than before."""

    rows: tuple[SessionRow, ...] = ()
    gone: tuple[str, ...] = ()
    questions: tuple[OpenQuestion, ...] | None = None


class Fleet:
    def __init__(self, config: Config) -> None:
        self._config = config
        self._asked: dict[str, tuple[int, tuple[OpenQuestion, ...]]] = {}
        self._looking = asyncio.Lock()
        self._seen: tuple[float, list[SessionRow], tuple[OpenQuestion, ...]] = (-_LOOK_S, [], ())

    async def questions(self, rows: list[SessionRow] | None = None) -> tuple[OpenQuestion, ...]:
        """What waits for a person, the oldest session first. A journal is read again when it has grown."""
        rows = await list_sessions(self._config) if rows is None else rows
        asking = [row for row in reversed(rows) if row.state in _ASKING]
        self._asked = {row.id: await self._questions_of(row) for row in asking}
        return tuple(question for _, asked in self._asked.values() for question in asked)

    async def _look(self) -> tuple[list[SessionRow], tuple[OpenQuestion, ...]]:
        """What there is now; pages that ask in the same half second share one look."""
        async with self._looking:
            if time.monotonic() - self._seen[0] >= _LOOK_S / 2:
                rows = await list_sessions(self._config)
                self._seen = (time.monotonic(), rows, await self.questions(rows))
            return self._seen[1], self._seen[2]

    async def _questions_of(self, row: SessionRow) -> tuple[int, tuple[OpenQuestion, ...]]:
        known = self._asked.get(row.id)
        if known and known[0] == row.events:
            return known
        try:
            asked = await open_questions(self._config, row.id)
        except MainspringError:
            asked = ()  # damaged since it was listed: the list says so
        return row.events, tuple(
            OpenQuestion(session=row.id, title=row.title, workspace=row.workspace, question=each)
            for each in asked
        )

    async def follow(self) -> AsyncGenerator[bytes]:
        """Frames with what changed; the first has everything."""
        known: dict[str, SessionRow] = {}
        asked: tuple[OpenQuestion, ...] | None = None
        while True:
            listed, questions = await self._look()
            rows = {row.id: row for row in listed}
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
