"""The chat itself: what a person enters becomes commands to a session, what the session records becomes text.

Two things run side by side, the surface and the session; they meet in a queue of what was entered. There is
no product logic here: everything is an operation, or a method of `Session`.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import aclosing
from importlib import import_module
from typing import Any

from msgspec.structs import replace

from mainspring import __version__
from mainspring.app.operations.entered import workspace_files
from mainspring.app.operations.status import session_status
from mainspring.app.operations.timeline import diffs_of
from mainspring.chat.bar import bar_line
from mainspring.chat.blocks import head_block, question_block
from mainspring.chat.commands import run_line
from mainspring.chat.desk import Desk
from mainspring.chat.line import Chips
from mainspring.chat.questions import OpenQuestions
from mainspring.chat.seat import ChatOptions, Seat
from mainspring.chat.surface import Surface
from mainspring.chat.view import LIVE_LINES, View
from mainspring.cli.ask import question_text
from mainspring.errors import MainspringError, UsageError
from mainspring.events import ApprovalAsked, FilesChanged, Limits, Recorded, TurnEnded
from mainspring.secrets.screen import plain, plain_name
from mainspring.session.session import Session
from mainspring.settings import Config

_LOOK_S = 0.05
_RENDERER = "mainspring.chat.rich_text"


class ChatLoop:
    """One chat. `surface` is set before it runs."""

    surface: Surface
    view: View

    def __init__(self, config: Config, options: ChatOptions) -> None:
        self.config = config
        self.seat = Seat(options)
        self.session: Session | None = None
        self.chips = Chips()
        self.files: tuple[str, ...] = ()
        self._doing: asyncio.Task[None] | None = None
        self.queued: deque[str] = deque()
        self.questions = OpenQuestions(self._on_asked, self._on_questions)
        self._is_answering = False
        self._entered: asyncio.Queue[str] = asyncio.Queue()

    async def run(self) -> None:
        """Until the person leaves."""
        self.view = self._new_view()
        async with asyncio.TaskGroup() as group:
            shown = group.create_task(self._show())
            await self._sit()
            self.surface.close()
            await shown

    # What the surface tells.

    def enter(self, text: str, *, is_queued: bool = False) -> None:
        if not text.strip() and not self.questions.takes_line:
            self.questions.is_set_aside = False
            self.surface.refresh()
        elif self._takes_answer(text):
            self._answer(text)
        elif is_queued and self.is_running:
            self.queued.append(text)
            self.surface.refresh()
        else:
            self._entered.put_nowait(text)

    def _takes_answer(self, text: str) -> bool:
        is_begun, self._is_answering = self._is_answering and bool(self.questions.waiting), False
        self.questions.begin("")
        is_line = self.questions.takes_line or (self.questions.is_asking and self.surface.takes_lines)
        return is_begun or (is_line and not text.startswith("/"))

    def _answer(self, line: str) -> None:
        try:
            self.questions.answer(line)
        except UsageError as error:
            self.say_error(error)

    def stop(self) -> bool:
        if self._doing is not None and not self._doing.done():
            self._doing.cancel()
            return True
        if self.session is None or not self.is_running:
            return False
        self.session.stop_soon()
        return True

    def quit(self) -> None:
        self.seat.change(None)

    def go_back(self) -> None:
        self._entered.put_nowait("/rewind")

    def take_queued(self) -> str | None:
        return self.queued.pop() if self.queued else None

    async def settle(self) -> None:
        while self.seat.options is not None and (
            self.session is None or self._entered.qsize() or self._doing or self.queued or self.is_running
        ):
            if self.questions.waiting:
                self.questions.give_up()
            await asyncio.sleep(_LOOK_S)

    def answer_key(self, key: str) -> str | None:
        if key == "m":
            self.questions.is_set_aside = True
            self.surface.refresh()
            return ""
        if key == "v":
            self._entered.put_nowait("/view")
            return ""
        begun = self.questions.key(key)
        self._is_answering = bool(begun)
        self.questions.begin(begun or "")
        return begun

    @property
    def is_asking(self) -> bool:
        return self.questions.is_asking

    @property
    def is_running(self) -> bool:
        return self.session is not None and self.session.is_running

    @property
    def is_busy(self) -> bool:
        return self.view.is_busy

    @property
    def prompt(self) -> str:
        return "answer › " if self.questions.takes_line or self._is_answering else "› "

    def live(self, columns: int) -> Sequence[str]:
        if asked := self.questions.lines(self.surface.palette, columns):
            return asked
        lines = self.view.live(columns=columns, now_s=time.monotonic())
        queued = [f"⋯ queued: {plain_name(each)}"[:columns] for each in list(self.queued)[:2]]
        return [
            *lines[: LIVE_LINES - len(queued)],
            *(self.surface.palette.paint(each, "dim") for each in queued),
        ]

    def bar(self, columns: int) -> str:
        status = session_status(self.session) if self.session else None
        now_us = time.time_ns() // 1000
        return bar_line(status, self.surface.palette, columns=columns, now_us=now_us, queued=len(self.queued))

    # The session.

    async def _show(self) -> None:
        await self.surface.run()
        self.seat.change(None)

    async def _sit(self) -> None:
        """One session after the other. When one cannot be opened, the one before it is opened again."""
        build: Any = await asyncio.to_thread(import_module, "mainspring.app.build")
        before: ChatOptions | None = None
        while (options := self.seat.options) is not None:
            try:
                async with self._opened(build.open, options) as session:
                    before = options.again(session.id)
                    self.seat.options = before
                    await self._attend(session, options)
            except MainspringError as error:
                self.say_error(error)
                if before is None or before == options:
                    await self._wait_for_another(options)
                else:
                    self.seat.options = before
            finally:
                self.session = None
            await self._pass_between()

    async def _wait_for_another(self, options: ChatOptions) -> None:
        """No session is open: what is entered tries again, `/model NAME` with another model."""
        async with asyncio.TaskGroup() as group:
            entered = group.create_task(self._entered.get())
            left = group.create_task(self.seat.wait())
            await asyncio.wait((entered, left), return_when=asyncio.FIRST_COMPLETED)
            if entered.done():
                line = entered.result()
                name = line.removeprefix("/model ").strip() if line.startswith("/model ") else ""
                self.seat.options = replace(options, models=(name,)) if name else options
                if line == "/quit":
                    self.seat.options = None
                elif not name:
                    self._entered.put_nowait(line)
            entered.cancel()
            left.cancel()

    async def _pass_between(self) -> None:
        try:
            await self.seat.pass_between()
        except MainspringError as error:
            self.say_error(error)

    def _opened(self, opening: Callable[..., Any], options: ChatOptions) -> Any:
        return opening(
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
            approver=self.questions,
            config=self.config,
        )

    async def _attend(self, session: Session, options: ChatOptions) -> None:
        """Serves one session until another one is wanted."""
        reasoning, self.view = self.view.reasoning, self._new_view()
        self.view.reasoning = reasoning
        self.session = session
        status, palette = session_status(session), self.surface.palette
        self.surface.write(head_block(__version__, session.state.workspace, status, palette))
        await self._show_past(session)
        async with asyncio.TaskGroup() as group:
            work = (self._watch(session), self._obey(session), self._list_files(session))
            tasks = [group.create_task(each) for each in work]
            if options.text:
                self._entered.put_nowait(options.text)
            await self.seat.wait()
            for task in tasks:
                task.cancel()

    async def _obey(self, session: Session) -> None:
        """Does what was entered, one thing after the other."""
        desk = Desk(self.config, session, self.surface, self.seat, self)
        async with asyncio.TaskGroup() as group:
            while True:
                line = await self._entered.get()
                self._doing = group.create_task(self._do(desk, line))
                await asyncio.wait((self._doing,))
                self._doing = None
                self.surface.refresh()

    async def _do(self, desk: Desk, line: str) -> None:
        try:
            await run_line(desk, line, self.chips)
        except MainspringError as error:
            self.say_error(error)

    async def _list_files(self, session: Session) -> None:
        """The paths that `@` completes, known a moment after the session is open."""
        self.files = await workspace_files(session)

    async def _watch(self, session: Session) -> None:
        async with aclosing(session.subscribe(session.opened_seq, deltas=True)) as events:
            async for recorded in events:
                await self._take(session, recorded)

    async def _take(self, session: Session, recorded: Recorded) -> None:
        event = recorded.event
        diffs = await diffs_of(session.journal, event) if isinstance(event, FilesChanged) else ()
        for text in self.view.take(recorded, now_s=time.monotonic(), diffs=diffs):
            self.surface.write(text)
        if isinstance(event, TurnEnded) and event.ending == "done" and self.queued:
            self._entered.put_nowait(self.queued.popleft())
        self.surface.refresh()

    async def _show_past(self, session: Session) -> None:
        """The last turn of a session that is continued, and whether it is over."""
        last = await session.journal.last("UserSaid") if session.opened_seq else None
        if last is not None:
            past = self._new_view()
            for item in await session.journal.read(after=last.seq - 1, until=session.opened_seq):
                for text in past.take(item, now_s=0.0):
                    self.surface.write(text)
        if last is not None and session.is_turn_wanted:
            hint = "\n· This turn was interrupted: /continue goes on with it, a message says something else."
            self.surface.write(self.surface.palette.paint(hint, "yellow"))

    def _on_asked(self, question: ApprovalAsked, number: int) -> None:
        text = plain(question_text(question, number=number))
        self.surface.write(question_block(text, self.surface.palette))

    def _on_questions(self) -> None:
        self.surface.refresh()

    def say_error(self, error: MainspringError) -> None:
        palette = self.surface.palette
        text = palette.paint(plain(f"! {error.message}"), "red")
        self.surface.write(f"{text}\n{plain(f'  {error.remedy}')}" if error.remedy else text)

    def _new_view(self) -> View:
        def render(text: str) -> str:
            rich: Any = import_module(_RENDERER)
            return rich.rendered(text, columns=self.surface.columns, palette=self.surface.palette)

        return View(self.surface.palette, render, here=self.config.origin)
