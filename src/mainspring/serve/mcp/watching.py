"""Waits for a session and tells what happens meanwhile, whoever runs it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress

from mainspring.app.operations.approve import open_questions
from mainspring.app.operations.sessions import Follower, list_sessions
from mainspring.documents.lines import as_text
from mainspring.errors import UnknownSession
from mainspring.events import ApprovalAsked, AssistantSaid, Recorded, TurnEnded, TurnStarted
from mainspring.serve.mcp.values import Watched
from mainspring.settings import Config

_MAX_LINES = 100
_MAX_LINE = 2000
_POLL_S = 0.1

Progress = Callable[[float, str], Awaitable[None]]
"""Tells whoever waits how many events there are, and the line of the newest."""


class Watch:
    """Events of one session, as far as they came; with `is_one_turn` only to the end of the first turn, which
    then is the session's state: what comes later is other work."""

    def __init__(
        self, config: Config, session: str, after: int, progress: Progress, *, is_one_turn: bool = False
    ) -> None:
        self._config = config
        self._session = session
        self._progress = progress
        self._seq = after
        self._text = ""
        self._is_ended = False
        self._is_one_turn = is_one_turn
        self._ending = ""
        self._lines: deque[str] = deque(maxlen=_MAX_LINES)

    async def until_idle(self, wait_s: float) -> Watched:
        """Returns when the turn or the goal has ended, something is asked, or the time is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s or None):
                await self._follow(is_followed=wait_s > 0)
        rows = [row for row in await list_sessions(self._config) if row.id == self._session]
        if not rows:
            raise UnknownSession(f"There is no session {self._session}.")
        return Watched(
            session=self._session,
            state=self._ending or rows[0].goal_state or rows[0].state,
            is_ended=self._is_ended,
            text=self._text,
            lines=tuple(self._lines),
            last_seq=self._seq,
            questions=await open_questions(self._config, self._session),
            cost_usd=rows[0].cost_usd,
        )

    async def _follow(self, *, is_followed: bool) -> None:
        """A goal that is not over may be between two processes: it is waited for while somebody waits."""
        is_open = True
        while is_open:
            follower = Follower(self._config, self._session, after=self._seq)
            async with aclosing(follower.events(is_followed=is_followed)) as events:
                async for recorded in events:
                    await self._take(recorded)
                    if self._ending:
                        return
                    is_asked = isinstance(recorded.event, ApprovalAsked)
                    if is_asked and await open_questions(self._config, self._session):
                        return
            is_open = is_followed and follower.has_goal and not (follower.has_ended or await self._is_over())
            await asyncio.sleep(_POLL_S if is_open else 0)

    async def _is_over(self) -> bool:
        rows = [row for row in await list_sessions(self._config) if row.id == self._session]
        return not rows or rows[0].goal_state not in ("running", "interrupted")

    async def _take(self, recorded: Recorded) -> None:
        self._seq = recorded.seq
        event = recorded.event
        if isinstance(event, AssistantSaid):
            self._text = event.text or self._text
        elif isinstance(event, TurnStarted | TurnEnded):
            self._is_ended = isinstance(event, TurnEnded)
            if self._is_one_turn and isinstance(event, TurnEnded) and event.ending != "waiting":
                self._ending = event.ending
        if line := as_text(event):
            self._lines.append(line[:_MAX_LINE])
            await self._progress(recorded.seq, line[:_MAX_LINE])
