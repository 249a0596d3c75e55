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

from mainspring import __version__
from mainspring.app.operations.status import session_status
from mainspring.app.operations.timeline import diffs_of
from mainspring.chat.bar import bar_line
from mainspring.chat.blocks import head_block, question_block
from mainspring.chat.commands import Desk, run_line
from mainspring.chat.questions import OpenQuestions
from mainspring.chat.seat import ChatOptions, Seat
from mainspring.chat.surface import Surface
from mainspring.chat.view import View
from mainspring.cli.ask import question_text
from mainspring.errors import MainspringError, UsageError
from mainspring.events import ApprovalAsked, FilesChanged, Limits, Recorded, TurnEnded
from mainspring.secrets.screen import plain
from mainspring.session.session import Session
from mainspring.settings import Config

_RENDERER = "mainspring.chat.rich_text"


class ChatLoop:
    """One chat. `surface` is set before it runs."""

    surface: Surface

    def __init__(self, config: Config, options: ChatOptions) -> None:
        self.config = config
        self.seat = Seat(options)
        self.session: Session | None = None
        self.view: View | None = None
        self.queued: deque[str] = deque()
        self.questions = OpenQuestions(self._on_asked, self._on_questions)
        self._is_answering = False
        self._entered: asyncio.Queue[str] = asyncio.Queue()
        self._ready = asyncio.Event()

    async def run(self) -> None:
        """Until the person leaves."""
        self._make_view()
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
        return self.view is not None and self.view.is_busy

    @property
    def prompt(self) -> str:
        return "answer › " if self.questions.takes_line or self._is_answering else "› "

    def live(self, columns: int) -> Sequence[str]:
        if asked := self.questions.lines(self.surface.palette, columns):
            return asked
        return self.view.live(columns=columns, now_s=time.monotonic()) if self.view else ()

    def bar(self, columns: int) -> str:
        status = session_status(self.session) if self.session else None
        now_us = time.time_ns() // 1000
        return bar_line(status, self.surface.palette, columns=columns, now_us=now_us, queued=len(self.queued))

    # The session.

    async def _show(self) -> None:
        await self.surface.run()
        self.seat.change(None)

    async def _sit(self) -> None:
        build: Any = await asyncio.to_thread(import_module, "mainspring.app.build")
        while (options := self.seat.options) is not None:
            try:
                async with self._opened(build.open, options) as session:
                    await self._attend(session, options)
            except MainspringError as error:
                self.say_error(error)
                self.session = None
                await self.seat.wait()
            finally:
                self.session = None

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
            approver=self.questions,
            config=self.config,
        )

    async def _attend(self, session: Session, options: ChatOptions) -> None:
        """Serves one session until another one is wanted."""
        self.session = session
        status, palette = session_status(session), self.surface.palette
        self.surface.write(head_block(__version__, session.state.workspace, status, palette))
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._watch(session)), group.create_task(self._obey(session))]
            if options.text:
                self._entered.put_nowait(options.text)
            await self.seat.wait()
            for task in tasks:
                task.cancel()

    async def _obey(self, session: Session) -> None:
        """Does what was entered, one thing after the other."""
        desk = Desk(self.config, session, self.surface, self.seat, self)
        while True:
            line = await self._entered.get()
            try:
                await run_line(desk, line)
            except MainspringError as error:
                self.say_error(error)

    async def _watch(self, session: Session) -> None:
        async with aclosing(session.subscribe(session.opened_seq, deltas=True)) as events:
            async for recorded in events:
                await self._take(session, recorded)

    async def _take(self, session: Session, recorded: Recorded) -> None:
        assert self.view is not None  # noqa: S101 - made before anything is watched
        event = recorded.event
        diffs = await diffs_of(session.journal, event) if isinstance(event, FilesChanged) else ()
        for text in self.view.take(recorded, now_s=time.monotonic(), diffs=diffs):
            self.surface.write(text)
        if isinstance(event, TurnEnded) and event.ending == "done" and self.queued:
            self._entered.put_nowait(self.queued.popleft())
        self.surface.refresh()

    def _on_asked(self, question: ApprovalAsked, number: int) -> None:
        text = plain(question_text(question, number=number))
        self.surface.write(question_block(text, self.surface.palette))

    def _on_questions(self) -> None:
        self.surface.refresh()

    def say_error(self, error: MainspringError) -> None:
        palette = self.surface.palette
        text = palette.paint(plain(f"! {error.message}"), "red")
        self.surface.write(f"{text}\n{plain(f'  {error.remedy}')}" if error.remedy else text)

    def _make_view(self) -> None:
        def render(text: str) -> str:
            rich: Any = import_module(_RENDERER)
            return rich.rendered(text, columns=self.surface.columns, palette=self.surface.palette)

        self.view = View(self.surface.palette, render, here=self.config.origin)
