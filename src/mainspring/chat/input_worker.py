"""Does what a person entered, one thing after the other."""

from __future__ import annotations

import asyncio

from mainspring.app.operations.watched import WatchedSession
from mainspring.chat.commands import run_line
from mainspring.chat.desk import Desk
from mainspring.chat.loop import ChatLoop
from mainspring.chat.message_queues import ChatWaiting
from mainspring.errors import MainspringError
from mainspring.secrets.screen import plain
from mainspring.session.session import Session


async def run_entered(chat: ChatLoop, session: Session | WatchedSession, waiting: ChatWaiting) -> None:
    """For as long as the session is in the chat."""

    def is_free() -> bool:
        return chat.doing is None and not chat.entered.qsize()

    desk = Desk(chat.config, session, chat.surface, chat.seat, chat)
    async with asyncio.TaskGroup() as group:
        group.create_task(waiting.attend(is_free, chat.entered.put_nowait, chat.say_error))
        while True:
            line = await chat.entered.get()
            chat.doing = group.create_task(_do(desk, line))
            await asyncio.wait((chat.doing,))
            chat.doing = None
            waiting.queue.end_line()
            chat.surface.refresh()


async def _do(desk: Desk, line: str) -> None:
    desk.chat.view.is_begun = True
    if line.startswith("/") and not desk.surface.takes_lines:  # a terminal of lines shows what is typed
        desk.surface.write("\n" + desk.surface.palette.paint(f"› {plain(line)}", "dim"))
    try:
        await run_line(desk, line, desk.chat.chips)
    except MainspringError as error:
        desk.chat.say_error(error)
