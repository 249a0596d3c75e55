"""What all sessions together wait for a person to answer, looked at again and again."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mainspring.app.operations.approve import open_questions
from mainspring.catalog import SessionRow
from mainspring.errors import MainspringError
from mainspring.events import ApprovalAsked
from mainspring.settings import Config

_ASKING = ("running", "blocked")


class OpenQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a session waits for a person to answer."""

    session: str
    title: str
    workspace: str
    question: ApprovalAsked


class QuestionWatch:
    """A journal is read again when it has grown."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._asked: dict[str, tuple[int, tuple[OpenQuestion, ...]]] = {}

    async def among(self, rows: Sequence[SessionRow]) -> tuple[OpenQuestion, ...]:
        """What these sessions ask, the oldest session first."""
        asking = [row for row in reversed(rows) if row.state in _ASKING]
        self._asked = {row.id: await self._questions_of(row) for row in asking}
        return tuple(question for _, asked in self._asked.values() for question in asked)

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
