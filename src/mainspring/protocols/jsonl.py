"""A session that a program drives: inputs come as lines of JSON, events and deltas go out as lines of JSON.

What is refused is told in a line of its own and changes nothing. When the input ends, the running turn is
finished; nobody is left then to answer a question, so one that is open ends it as blocked.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from contextlib import aclosing

import msgspec

from mainspring.app.operations.control import (
    CloseInput,
    InputDone,
    InputRefused,
    read_input,
    take_input,
)
from mainspring.documents.json_lines import as_json
from mainspring.errors import UsageError
from mainspring.events import ApprovalAsked, Media, TurnEnded
from mainspring.events.escaping import escape_json
from mainspring.protocols.lines import InputLines, LineTooLong
from mainspring.session.session import Session


class JsonControl:
    """Drives one session, and is its approver."""

    def __init__(self) -> None:
        self._lines = InputLines()
        self._is_over = asyncio.Event()
        self._told = asyncio.Event()
        self._told_seq = 0
        self._ended: TurnEnded | None = None

    async def __call__(self, _: ApprovalAsked, /) -> None:
        """Waits for an input that answers; nobody is there once the input is over."""
        await self._is_over.wait()

    async def drive(self, session: Session, text: str = "", media: Sequence[Media] = ()) -> TurnEnded | None:
        """Works until the input and what it started are over; gives the end of the last turn."""
        self._lines.start()
        try:
            async with asyncio.TaskGroup() as group:
                telling = group.create_task(self._tell(session))
                if text:
                    await session.say(text, media)
                await self._obey(session)
                self._is_over.set()
                await self._all_told(session)
                telling.cancel()
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from errors
        return self._ended

    async def _obey(self, session: Session) -> None:
        while (line := await self._next()) is not None:
            if not line.strip():
                continue
            try:
                given = read_input(line)
            except UsageError as error:
                _write(InputRefused(message=error.message, remedy=error.remedy))
                continue
            _write(await take_input(session, given))
            if isinstance(given, CloseInput):
                return

    async def _next(self) -> bytes | None:
        try:
            return await self._lines.read()
        except LineTooLong:
            _write(InputRefused(message="The line is longer than 64 MB.", remedy="Send less at once."))
            return b""

    async def _tell(self, session: Session) -> None:
        async with aclosing(session.subscribe(session.opened_seq, deltas=True)) as events:
            async for recorded in events:
                _write_line(as_json(recorded))
                self._told_seq = max(recorded.seq, self._told_seq)
                if isinstance(recorded.event, TurnEnded):
                    self._ended = recorded.event
                self._told.set()

    async def _all_told(self, session: Session) -> None:
        """Returns when no turn is wanted and all that is on record was told."""
        while True:
            self._told.clear()
            if not session.is_turn_wanted and self._told_seq >= await session.journal.last_seq():
                return
            await self._told.wait()


def _write(reply: InputDone | InputRefused) -> None:
    _write_line(escape_json(msgspec.json.encode(reply)))


def _write_line(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.flush()
