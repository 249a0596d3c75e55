"""The chat itself: what a person enters becomes commands to a session, what the session records becomes text.

Two things run side by side, the surface and the session; they meet in a queue of what was entered. There is
no product logic here: everything is an operation, or a method of `Session`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from mainspring import __version__
from mainspring.app.operations.timeline import diffs_of
from mainspring.chat.bar import bar_line
from mainspring.chat.blocks import head_block, question_block, wrapped_question
from mainspring.chat.line import Chips, EnteredLines
from mainspring.chat.palette import Theme
from mainspring.chat.questions import OpenQuestions
from mainspring.chat.seat import ChatOptions, Seat
from mainspring.chat.surface import Surface
from mainspring.chat.view import LIVE_LINES, WIDE, View
from mainspring.chat.width import cut_to_width, wrapped
from mainspring.cli.ask import question_text
from mainspring.errors import MainspringError, UsageError
from mainspring.events import ApprovalAsked, FilesChanged, Recorded, UserSaid
from mainspring.secrets.screen import plain, plain_name
from mainspring.settings import Config

if TYPE_CHECKING:
    from pathlib import Path

    from mainspring.app.operations.status import SessionStatus
    from mainspring.app.operations.watched import WatchedSession
    from mainspring.chat.message_queues import ChatWaiting
    from mainspring.session.session import Session

_LOOK_S = 0.05
_SHOWN_WAITING = 3
RENDERER = "mainspring.chat.rich_text"
_SESSIONS = "mainspring.chat.chat_sessions"
OPENING = "opening the session…"
_LISTING = "listing the files of this folder…"


class ChatLoop:
    """One chat. `surface` is set before it runs."""

    surface: Surface
    view: View

    def __init__(self, config: Config, options: ChatOptions, *, keeps_going: bool = False) -> None:
        self.config = config
        self._keeps_going = keeps_going
        self.is_handed_over = False
        """Whether the daemon shall go on with the turn that ran when the terminal was closed."""
        self.seat = Seat(options)
        self.session: Session | WatchedSession | None = None
        self._stop_turn: Callable[[], object] | None = None
        self.status: Callable[[], SessionStatus] | None = None
        self.without_status = OPENING
        """What the bar says while no session is open."""
        self.commands: Mapping[str, str] = {}
        """A sentence for each slash command, known once a session is being opened."""
        self.chips = Chips()
        self.files: tuple[str, ...] | None = None
        """Paths that `@` completes; None until they are listed for the first time."""
        self.files_wanted = asyncio.Event()
        self.doing: asyncio.Task[None] | None = None
        self.waiting: ChatWaiting | None = None
        self.questions = OpenQuestions(self._on_asked, self._on_questions)
        self._answered: frozenset[str] = frozenset()
        """The open questions that the person has begun to answer."""
        self._headed = ("", "")
        """The session whose head stands above, and its mode."""
        self.entered = EnteredLines()
        self._loop = asyncio.get_running_loop()

    async def run(self) -> None:
        """Until the person leaves. The prompt is there before what opens a session is loaded."""
        self.view = self.new_view()
        async with asyncio.TaskGroup() as group:
            shown = group.create_task(self._show())
            await asyncio.sleep(0)
            sessions: Any = await asyncio.to_thread(import_module, _SESSIONS)
            await sessions.ChatSessions(self).run()
            self.surface.close()
            await shown

    def attend(
        self,
        session: Session | WatchedSession,
        status: Callable[[], SessionStatus],
        stop_turn: Callable[[], object],
        waiting: ChatWaiting,
    ) -> None:
        """A session is in the chat from here on."""
        reasoning, self.view = self.view.reasoning, self.new_view()
        self.view.reasoning = reasoning
        self.session, self.status, self._stop_turn = session, status, stop_turn
        self.waiting = waiting

    def leave(self) -> None:
        """No session is in the chat."""
        self.session = self.status = self._stop_turn = self.waiting = None

    def show_head(self, folder: Path, status: SessionStatus) -> None:
        """How a session begins in the chat, apart from what is above it; one that was just here is known."""
        surface = self.surface
        before, self._headed = self._headed, (status.session, status.mode)
        if before[0] == status.session:
            if before[1] != status.mode:
                surface.write(surface.palette.paint(f"\n· mode {status.mode}", "dim"))
            return
        head = head_block(
            __version__,
            folder,
            status,
            surface.palette,
            columns=surface.columns,
            has_keys=not surface.takes_lines,
        )
        surface.write(f"\n{head}" if before[0] else head)

    async def show(self, session: Session | WatchedSession, recorded: Recorded) -> None:
        """Shows what happened."""
        event = recorded.event
        if isinstance(event, UserSaid) and self.waiting:
            self.waiting.on_said(event)
        diffs = await diffs_of(session.journal, event) if isinstance(event, FilesChanged) else ()
        for text in self.view.take(recorded, now_s=time.monotonic(), diffs=diffs):
            self.surface.write(text)
        self.surface.refresh()

    # What the surface tells.

    def enter(self, text: str, *, is_queued: bool = False) -> None:
        if not text.strip() and self._is_unopened:
            self.entered.put_nowait("")  # tries again to open one
        elif not text.strip() and not self.questions.takes_line:
            self.questions.is_set_aside = False
            self.surface.refresh()
        elif self._takes_answer(text):
            self._answer(text)
        elif is_queued and self.is_running and self.waiting:
            self.waiting.queue.add(text)
            self.surface.refresh()
        else:
            self.entered.put_nowait(text)

    def _takes_answer(self, text: str) -> bool:
        is_begun = self.leave_answer()
        is_line = self.questions.takes_line or (self.questions.is_asking and self.surface.takes_lines)
        return is_begun or (is_line and not text.startswith("/"))

    def _answer(self, line: str) -> None:
        try:
            self.questions.answer(line)
        except UsageError as error:
            self.say_error(error)

    def stop(self) -> bool:
        doing = self.doing
        if doing is not None and not doing.done() and doing is not asyncio.current_task():
            doing.cancel()
            return True
        if self._stop_turn is None or not self.is_running:
            return False
        self._stop_turn()
        if self.waiting and (text := self.waiting.steers.take_all_back()):
            self.surface.give_back(text)
        return True

    def quit(self) -> None:
        self.seat.leave()

    def hang_up(self) -> None:
        """The terminal is gone; the shell in it may tell us again."""
        self.is_handed_over = self.is_handed_over or (self._keeps_going and self.is_running)
        self.quit()

    def go_back(self) -> None:
        self.entered.put_nowait("/rewind")

    def list_files(self) -> Sequence[str]:
        """The paths that are known by now, for a completion in a thread; those made since then follow."""
        self._loop.call_soon_threadsafe(self._want_files)
        return self.files or ()

    def _want_files(self) -> None:
        self.files_wanted.set()
        if self.files is None:
            self.surface.refresh()

    def take_queued(self) -> str | None:
        if (line := self.entered.take_back()) is not None:
            return line
        for each in (self.waiting.queue, self.waiting.steers) if self.waiting else ():
            if each.texts and (text := each.take_back()) is not None:
                return self.chips.paste(text)
        return None

    def recolour(self, theme: Theme) -> None:
        self.surface.palette = self.view.palette = replace(self.surface.palette, theme=theme)
        self.surface.refresh()

    async def settle(self) -> None:
        while self._is_at_work and not (self._is_unopened and not self.entered.qsize()):
            if self.questions.waiting:
                self.questions.give_up()
            await asyncio.sleep(_LOOK_S)

    async def rest(self) -> None:
        while self._is_at_work and not (self.questions.is_asking or self._is_unopened):  # noqa: ASYNC110 - of many things
            await asyncio.sleep(_LOOK_S)

    def answer_key(self, key: str) -> str | None:
        if key == "m":
            self.questions.is_set_aside = True
            self.surface.refresh()
            return ""
        if key == "v":
            self.entered.put_nowait("/view")
            return ""
        begun = self.questions.key(key)
        self._answered = self.questions.meant(begun) if begun else frozenset()
        self.questions.begin(begun or "")
        return begun

    def leave_answer(self) -> bool:
        is_begun, self._answered = self._is_answering, frozenset()
        self.questions.begin("")
        return is_begun

    @property
    def is_asking(self) -> bool:
        return self.questions.is_asking

    @property
    def _is_answering(self) -> bool:
        return not self._answered.isdisjoint(each.call for each in self.questions.waiting)

    @property
    def _is_at_work(self) -> bool:
        """Whether something is being opened or done, or waits to be."""
        return self.seat.options is not None and bool(
            self.session is None
            or self.entered.qsize()
            or self.doing
            or self.is_running
            or (self.waiting and self.waiting.queue.is_moving)
        )

    @property
    def _is_unopened(self) -> bool:
        """Whether no session could be opened: what is entered tries again."""
        return self.session is None and self.without_status != OPENING

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
        steers = self.waiting.steers.texts if self.waiting else ()
        waiting = [f"⋯ steering: {plain_name(each)}" for each in steers]
        waiting += [f"⋯ queued: {plain_name(each)}" for each in self._queued]
        waiting += [f"⋯ next: {plain_name(each)}" for each in self.entered.texts]
        if len(waiting) > _SHOWN_WAITING:
            left = len(waiting) - _SHOWN_WAITING + 1
            waiting[_SHOWN_WAITING - 1 :] = [f"⋯ and {left} more: /queue"]
        shown = [cut_to_width(each, columns)[0] for each in waiting]
        return [
            *lines[: LIVE_LINES - len(shown)],
            *(self.surface.palette.paint(each, "dim") for each in shown),
        ]

    def bar(self, columns: int) -> str:
        palette, now_us = self.surface.palette, time.time_ns() // 1000
        if self.status is None:
            return palette.paint(f" {self.without_status}"[:columns], "dim")
        if self.files is None and self.files_wanted.is_set():
            return palette.paint(f" {_LISTING}"[:columns], "dim")
        return bar_line(self.status(), palette, columns=columns, now_us=now_us, queued=len(self._queued))

    @property
    def _queued(self) -> Sequence[str]:
        return self.waiting.queue.texts if self.waiting else ()

    async def _show(self) -> None:
        await self.surface.run()
        self.seat.leave()

    def _on_asked(self, question: ApprovalAsked, number: int) -> None:
        text = wrapped_question(plain(question_text(question, number=number)), self.surface.columns)
        self.surface.write(question_block(text, self.surface.palette))

    def _on_questions(self) -> None:
        if self._answered and not self._is_answering:  # it was answered elsewhere, or is not asked any more
            self.leave_answer()
            letter, _, reason = self.surface.take_input().removeprefix("all ").partition(" ")
            self.surface.set_input(reason if letter == "n" else "")
        self.surface.refresh()

    def say_error(self, error: MainspringError) -> None:
        palette, columns = self.surface.palette, self.surface.columns
        text = palette.paint(wrapped(plain(f"! {error.message}"), columns), "red")
        remedy = wrapped(plain(f"  {error.remedy}"), columns)
        self.surface.write(f"{text}\n{remedy}" if error.remedy else text)

    def new_view(self) -> View:
        def render(text: str) -> str:
            rich: Any = import_module(RENDERER)
            return rich.rendered(text, columns=self.surface.columns, palette=self.surface.palette)

        def columns() -> int:
            return WIDE if self.surface.takes_lines else self.surface.columns

        return View(self.surface.palette, render, here=self.config.origin, columns=columns)
