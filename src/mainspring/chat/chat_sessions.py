"""The sessions of a chat, one after the other: opens each, shows what it records, does what is entered."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from importlib import import_module
from typing import Any

from msgspec.structs import replace

from mainspring.app.build import open as open_session
from mainspring.app.operations.daemon import hand_over
from mainspring.app.operations.deletion import drop_unused
from mainspring.app.operations.status import session_status
from mainspring.app.operations.watched import watched_session
from mainspring.app.operations.workspace_files import workspace_files
from mainspring.chat.commands import COMMANDS
from mainspring.chat.input_worker import run_entered
from mainspring.chat.loop import OPENING, RENDERER, ChatLoop
from mainspring.chat.message_queues import ChatWaiting
from mainspring.chat.palette import Tone
from mainspring.chat.seat import ChatOptions
from mainspring.chat.user_commands import user_command_help
from mainspring.chat.watched_chat import WatchedChat
from mainspring.chat.width import wrapped
from mainspring.errors import JournalOwned, MainspringError
from mainspring.events import Limits
from mainspring.session.session import Session

_FILES_S = 2.0
_CLOSED = "no session is open: Enter tries again, /model NAME with another, /quit leaves"


class ChatSessions:
    """What a chat does with sessions. There is no product logic here: everything is an operation."""

    def __init__(self, chat: ChatLoop) -> None:
        self._chat = chat
        self._before: ChatOptions | None = None
        """How the last session that was open would be opened again."""
        self._unsaid = ""
        """What was entered while no session could be opened: it is said once one is."""
        self._shown: dict[str, int] = {}
        """What was shown of a session already, by the number of its last event."""
        chat.commands = {name: each.help for name, each in COMMANDS.items()}

    async def run(self) -> None:
        """Until the person leaves. When a session cannot be opened, the one before it is opened again."""
        chat, is_kept = self._chat, False
        while (options := chat.seat.options) is not None:
            chat.without_status = OPENING
            try:
                await self._run_one(options)
            except MainspringError as error:
                chat.say_error(error)
                if self._before is None or self._before == options:
                    await self._wait_for_another(options)
                else:
                    chat.seat.keep(self._before)
            finally:
                chat.leave()
            is_kept = not await self._drop_unused(self._before)
            await self._pass_between()
        if chat.is_handed_over and self._before is not None:
            await asyncio.to_thread(hand_over, chat.config, self._before.session)
        elif self._before is not None and is_kept:
            way = f"· mainspring chat --resume {self._before.session} goes on with this session."
            self._say(way, "dim")

    def _say(self, text: str, tone: Tone) -> None:
        surface = self._chat.surface
        shown = text if surface.takes_lines else wrapped(text, surface.columns)
        surface.write("\n" + surface.palette.paint(shown, tone))

    async def _run_one(self, options: ChatOptions) -> None:
        """Opens a session, or watches the process that runs it."""
        chat = self._chat
        try:
            async with self._opened(options) as session:
                self._before = options.again(session.id)
                chat.seat.keep(self._before)
                own = user_command_help(chat.config, session.state.workspace)
                chat.commands = {**own, **chat.commands}
                await self._attend(session, options)
                self._shown = {session.id: await session.journal.last_seq()}
        except JournalOwned:
            if not options.session:
                raise
            async with watched_session(chat.config, options.session) as watched:
                if watched is None:  # it has just ended
                    return
                self._before = options.again(watched.id)
                chat.seat.keep(self._before)
                await WatchedChat(chat, watched).run(options.text)
                self._shown = {watched.id: watched.seq}

    async def _drop_unused(self, before: ChatOptions | None) -> bool:
        """A session in which nothing was said is not kept when the chat leaves it."""
        after = self._chat.seat.options
        if before is None or (after is not None and after.session == before.session):
            return False
        return await drop_unused(self._chat.config, before.session)

    async def _wait_for_another(self, options: ChatOptions) -> None:
        """No session is open: what is entered tries again, `/model NAME` with another model."""
        chat = self._chat
        chat.without_status = _CLOSED
        chat.surface.refresh()
        async with asyncio.TaskGroup() as group:
            entered = group.create_task(self._next_line())
            left = group.create_task(chat.seat.wait())
            await asyncio.wait((entered, left), return_when=asyncio.FIRST_COMPLETED)
            if entered.done():
                line = entered.result()
                name = line.removeprefix("/model ").strip() if line.startswith("/model ") else ""
                chat.seat.keep(replace(options, models=(name,)) if name else options)
                if line == "/quit":
                    chat.seat.leave()
                elif not name:
                    self._unsaid = line or self._unsaid
            entered.cancel()
            left.cancel()

    async def _next_line(self) -> str:
        """From the moment that it is taken, something is being opened again."""
        line = await self._chat.entered.get()
        self._chat.without_status = OPENING
        return line

    async def _pass_between(self) -> None:
        try:
            await self._chat.seat.pass_between()
        except MainspringError as error:
            self._chat.say_error(error)

    def _opened(self, options: ChatOptions) -> Any:
        return open_session(
            options.folder,
            session=options.session,
            model=next(iter(options.models), ""),
            fallback=tuple(options.models[1:]),
            effort=options.effort,
            mode=options.mode,
            sandbox=options.sandbox,
            limits=Limits(max_cost_usd=options.max_cost_usd),
            allow_unpriced=options.allow_unpriced,
            allow_home=options.allow_home,
            approver=self._chat.questions,
            config=self._chat.config,
        )

    async def _attend(self, session: Session, options: ChatOptions) -> None:
        """Serves one session until another one is wanted."""
        chat = self._chat
        waiting = ChatWaiting(chat.config, session, chat.chips)
        chat.attend(session, lambda: session_status(session), session.stop_soon, waiting)
        chat.show_head(session.state.workspace, session_status(session))
        await self._show_past(session, options)
        async with asyncio.TaskGroup() as group:
            work = (self._watch(session), run_entered(chat, session, waiting), self._prepare(session))
            tasks = [group.create_task(each) for each in work]
            for text in filter(None, (options.text, self._unsaid)):
                chat.entered.put_nowait(text)
            self._unsaid = ""
            await chat.seat.wait()
            for task in tasks:
                task.cancel()

    async def _prepare(self, session: Session) -> None:
        """What is wanted a moment after the session is open: the paths that `@` completes, and what renders
        answers."""
        chat = self._chat
        chat.files = await workspace_files(session)
        chat.surface.refresh()
        chat.surface.complete_again()
        await asyncio.to_thread(import_module, RENDERER)
        while True:  # later files are looked for when somebody wants to name one
            await asyncio.sleep(_FILES_S)
            chat.files_wanted.clear()
            await chat.files_wanted.wait()
            before, chat.files = chat.files, await workspace_files(session)
            if chat.files != before:
                chat.surface.complete_again()

    async def _watch(self, session: Session) -> None:
        async with aclosing(session.subscribe(session.opened_seq, deltas=True)) as events:
            async for recorded in events:
                await self._chat.show(session, recorded)

    async def _show_past(self, session: Session, options: ChatOptions) -> None:
        """The last turn of a session that is continued, and whether it is over."""
        chat = self._chat
        last = await session.journal.last("UserSaid") if session.opened_seq else None
        if last is not None:
            past = chat.new_view()
            past.is_past = True
            after = max(last.seq - 1, self._shown.get(session.id, 0), options.shown_seq)
            for item in await session.journal.read(after=after, until=session.opened_seq):
                for text in past.take(item, now_s=0.0):
                    chat.surface.write(text)
            for text in past.unfinished() if session.is_turn_wanted else ():
                chat.surface.write(text)
        if last is not None and session.is_turn_wanted:
            hint = "· This turn was interrupted: /continue goes on with it, a message says something else."
            self._say(hint, "yellow")
