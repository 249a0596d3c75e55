"""A session that another process runs, in this chat: its events are shown, its questions can be answered, and
what is entered goes to that process. When that ends, the chat goes on with the session itself."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import aclosing
from typing import Any

from mainspring.app.operations.watched import WatchedSession
from mainspring.chat.input_worker import run_entered
from mainspring.chat.loop import ChatLoop
from mainspring.chat.message_queues import ChatWaiting
from mainspring.errors import MainspringError
from mainspring.events import ApprovalAsked, Recorded


class WatchedChat:
    """Shows one such session."""

    def __init__(self, chat: ChatLoop, session: WatchedSession) -> None:
        self._chat = chat
        self._session = session
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._tasks = asyncio.TaskGroup()

    async def run(self, text: str) -> None:
        """Until the process is gone, or the person wants another session; `text` is said first."""
        chat, session = self._chat, self._session
        async with self._tasks as group:
            waiting = ChatWaiting(chat.config, session, chat.chips)
            stop = lambda: group.create_task(self._do(session.stop()))  # noqa: E731
            chat.files = chat.files or ()  # those of another process are not listed
            chat.attend(session, lambda: session.status, stop, waiting)
            if text:
                chat.entered.put_nowait(text)
            left = group.create_task(chat.seat.wait())
            following, working = (
                group.create_task(self._follow()),
                group.create_task(run_entered(chat, session, waiting)),
            )
            await asyncio.wait((left, following), return_when=asyncio.FIRST_COMPLETED)
            if following.done() and not left.done():
                chat.surface.write(chat.surface.palette.paint(f"· {session.owner.name} has ended", "dim"))
            for task in (left, following, working, *self._asking.values()):
                task.cancel()

    async def _follow(self) -> None:
        """The last turn so far first, then what comes."""
        session, past = self._session, list[Recorded]()
        last, until = await session.journal.last("UserSaid"), await session.journal.last_seq()
        async with aclosing(session.events()) as events:
            async for recorded in events:
                if last and recorded.seq >= last.seq:
                    past.append(recorded)
                if recorded.seq == until:
                    self._show_head()
                if recorded.seq >= until:
                    for each in past:
                        await self._chat.show(session, each)
                    past.clear()
                    self._ask()

    def _show_head(self) -> None:
        self._chat.show_head(self._session.state.workspace, self._session.status)

    def _ask(self) -> None:
        """Asks what the session asks now; what was answered elsewhere is asked no longer."""
        wanted = self._session.state.requests.open
        for call in self._asking.keys() - wanted.keys():
            self._asking.pop(call).cancel()
        for call in wanted.keys() - self._asking.keys():
            self._asking[call] = self._tasks.create_task(self._answer(wanted[call]))

    async def _answer(self, question: ApprovalAsked) -> None:
        if given := await self._chat.questions(question):
            await self._do(self._session.answer(given))

    async def _do(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except MainspringError as error:
            self._chat.say_error(error)
