"""The terminal: an input line and a bar at the bottom, a few live lines above them, and scrollback that is
only ever added to. One write per frame, at most eight frames a second.

prompt_toolkit draws the part that changes; before finished text is written that part is erased, and drawn
again below it, all in one frame.
"""

from __future__ import annotations

import asyncio
import base64
import shlex
import shutil
import time
from collections.abc import Sequence
from operator import lt
from typing import TextIO

from prompt_toolkit.application import Application
from prompt_toolkit.application.run_in_terminal import in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.layout import ConditionalContainer, HSplit, Layout
from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.output.color_depth import ColorDepth
from prompt_toolkit.widgets import SearchToolbar

from mainspring.chat.keys import key_bindings
from mainspring.chat.line import Chips
from mainspring.chat.output import FrameOutput
from mainspring.chat.painted import BareWindow, Painted
from mainspring.chat.palette import Palette
from mainspring.chat.picker import Picker
from mainspring.chat.resize import ResizingApplication
from mainspring.chat.surface import Choice, Controls
from mainspring.chat.terminal_input import ASK_BACKGROUND, ASK_KEYBOARD, terminal_input
from mainspring.chat.width import clipped

FRAMES_PER_S = 8
_TICK_S = 0.25
_INPUT_LINES = 10
_ESCAPE_S = 0.05
_SEQUENCE_S = 0.2
_SILENT = ("linux",)
"""Terminals that answer no questions."""


class TerminalScreen:
    """One terminal. `buffer` is the input line; `controls` are told what the person does."""

    takes_lines = False

    def __init__(
        self,
        controls: Controls,
        stdout: TextIO,
        *,
        term: str,
        palette: Palette,
        buffer: Buffer,
        chips: Chips,
        pager: str = "",
        is_vi: bool = False,
    ) -> None:
        self.palette = palette
        self.buffer = buffer
        self.chips = chips
        self._controls = controls
        colours = ColorDepth.DEPTH_1_BIT if palette.theme == "mono" else ColorDepth.DEPTH_4_BIT
        self._output = FrameOutput(stdout, term=term, colours=colours)
        if term not in _SILENT:
            self._output.questions = ASK_KEYBOARD + (ASK_BACKGROUND if palette.theme != "mono" else "")
        self._pending: list[str] = []
        self._timer: asyncio.TimerHandle | None = None
        self._tick: asyncio.TimerHandle | None = None
        self._drawn_s = 0.0
        self._drawn_widths: list[int] = []
        self._is_drawing = False
        self._live_lines: Sequence[str] = ()
        self._live, self._bar = Painted(), Painted()
        self._hint = ""
        self._pager = pager
        self._picker: Picker | None = None
        self._picked: asyncio.Future[str | None] | None = None
        self._app = self._application(is_vi=is_vi)

    @property
    def columns(self) -> int:
        return self._output.get_size().columns

    @property
    def is_lent(self) -> bool:
        return self._app._running_in_terminal

    def write(self, text: str) -> None:
        self._pending.append(text)
        self.refresh()

    def refresh(self) -> None:
        if self._timer is None:
            wait_s = max(self._drawn_s + 1 / FRAMES_PER_S - time.monotonic(), 0)
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._draw)

    async def run(self) -> None:
        try:
            await self._app.run_async(handle_sigint=False)
        except EOFError:
            self._controls.hang_up()
        finally:
            self._flush_pending()

    def close(self) -> None:
        if self._app.is_running and not self._app.is_done:
            self._app.exit()

    def set_input(self, text: str) -> None:
        self.buffer.reset(Document(text))
        self.refresh()

    def take_input(self) -> str:
        text = self.buffer.text
        self.buffer.reset()
        return text

    def complete_again(self) -> None:
        if "@" in self.buffer.document.text_before_cursor and self.buffer.complete_state is None:
            self.buffer.start_completion()

    def give_back(self, text: str) -> None:
        self.set_input("\n".join(filter(None, (text, self.buffer.text))))

    def copy(self, text: str) -> None:
        data = base64.b64encode(text.encode()).decode()
        self._output.write_raw(f"\x1b]52;c;{data}\x07")
        self._output.flush()

    async def show_pages(self, text: str) -> None:
        """In the person's pager, which has the terminal for itself; without one the text is written."""
        argv = shlex.split(self._pager) if self._pager else ["less", "-R"]
        if not shutil.which(argv[0]):
            self.write(text)
            return
        self._app.settle()
        async with in_terminal():
            process = await asyncio.create_subprocess_exec(*argv, stdin=asyncio.subprocess.PIPE)
            await process.communicate(text.encode())
        self.refresh()

    async def pick(self, title: str, choices: Sequence[Choice]) -> str | None:
        if not choices:
            self.write(self.palette.paint(f"· {title}: there is nothing to choose", "dim"))
            return None
        kept = self.buffer.text
        self.buffer.reset()
        self._picker = Picker(title, choices)
        self._picked = asyncio.get_running_loop().create_future()
        self.refresh()
        try:
            return await self._picked
        finally:
            self._picker = None
            self.buffer.reset(Document(kept))
            self.refresh()

    @property
    def has_menu(self) -> bool:
        """Whether completions are shown; while they are looked for there may be none yet."""
        return self._menu_count() > 0

    @property
    def picker(self) -> Picker | None:
        return self._picker

    def end_pick(self, choice: Choice | None) -> None:
        if self._picked is not None and not self._picked.done():
            self._picked.set_result(choice.value if choice else None)

    def resized(self) -> None:
        """The terminal has wrapped our lines anew: what is below is all erased."""
        self._output.drawn_rows = 0

    def hint(self, text: str, seconds: float = 0.0) -> None:
        """Says something in the place of the bar for a moment."""
        self._hint = text
        if seconds:
            asyncio.get_running_loop().call_later(seconds, self.hint, "")
        self.refresh()

    def suspend(self) -> None:
        """Ctrl-Z: to the background until `fg`."""
        self._app.settle()
        self._app.suspend_to_background()

    def _draw_again(self) -> None:
        """Moves what moves by itself; nothing wakes up while nothing does."""
        if self._tick is not None:
            self._tick.cancel()
        is_moving = self._controls.is_busy
        self._tick = asyncio.get_running_loop().call_later(_TICK_S, self.refresh) if is_moving else None

    def _draw(self) -> None:
        self._timer = None
        self._draw_again()
        if self.is_lent or not self._app.is_running or not self._app.may_draw():
            return
        self._drawn_s = time.monotonic()
        self._look(self._app)
        widths = self._widths()
        with self._output.frame():
            if self._pending or self._output.has_leftovers or _is_shorter(widths, self._drawn_widths):
                self._app.renderer.erase(leave_alternate_screen=False)
                self._output.drawn_rows = 1
                self._write_pending()
            self._drawn_widths = widths
            self._is_drawing = True
            self._app._redraw()
            if self._output.has_leftovers:
                self._app.renderer.erase(leave_alternate_screen=False)
                self._app._redraw()
            self._is_drawing = False

    def _flush_pending(self) -> None:
        """What was finished while the application ended."""
        if self._pending:
            self._write_pending()
            self._output.flush()

    def _write_pending(self) -> None:
        for text in self._pending:
            self._output.write_raw(text.replace("\n", "\r\n") + "\r\n")
        self._pending.clear()

    def _application(self, *, is_vi: bool) -> ResizingApplication:
        live = BareWindow(
            FormattedTextControl(lambda: self._live.parts),
            height=lambda: Dimension.exact(len(self._live_lines) + 1),
            wrap_lines=False,
        )
        search = SearchToolbar(forward_search_prompt="search on: ", backward_search_prompt="search: ")
        control = BufferControl(self.buffer, search_buffer_control=search.control, preview_search=True)
        self.buffer.on_text_changed += self._narrow
        self.buffer.on_completions_changed += self._narrow
        line = BareWindow(
            control,
            height=Dimension(min=1, max=_INPUT_LINES),
            dont_extend_height=True,
            wrap_lines=True,
            get_line_prefix=self._prefix,
        )
        bar = BareWindow(FormattedTextControl(lambda: self._bar.parts), height=1, wrap_lines=False)
        menu = ConditionalContainer(
            BareWindow(FormattedTextControl(self._menu_text), height=self._menu_height, wrap_lines=False),
            Condition(lambda: self._menu_count() > 0),
        )
        app = ResizingApplication(
            self._output,
            layout=Layout(HSplit([live, line, search, menu, bar])),
            key_bindings=key_bindings(self, self._controls),
            editing_mode=EditingMode.VI if is_vi else EditingMode.EMACS,
            input=terminal_input(self._controls.recolour, self._output.use_keyboard),
            full_screen=False,
            erase_when_done=True,
            mouse_support=False,
            terminal_size_polling_interval=None,
        )
        app.before_render += self._look
        app.after_render += self._on_drawn
        app.ttimeoutlen, app.timeoutlen = _ESCAPE_S, _SEQUENCE_S
        return app

    def _on_drawn(self, app: Application[None]) -> None:
        drawn = app.renderer.last_rendered_screen
        self._output.drawn_rows = drawn.height if drawn else 0
        if self._output.has_leftovers and not self._is_drawing:
            self.refresh()

    def _narrow(self, buffer: Buffer) -> None:
        if self._picker is not None:
            self._picker.narrow(buffer.text)
        if not buffer.text:
            self._controls.leave_answer()
        self.refresh()

    def _prefix(self, number: int, wrap: int) -> StyleAndTextTuples:
        return [
            (
                "bold",
                ("search › " if self._picker else self._controls.prompt)
                if number == 0 and wrap == 0
                else "  ",
            )
        ]

    def _look(self, _: Application[None]) -> None:
        """Takes the live lines and the bar once for each time that they are drawn."""
        if self._is_drawing:
            return
        columns = self.columns
        picker = self._picker
        self._live_lines = picker.lines(self.palette, columns) if picker else self._controls.live(columns)
        self._live.set("\n".join((*self._live_lines, "")))
        hint = self.palette.paint(clipped(f" {self._hint}", columns - 1), "yellow") if self._hint else ""
        self._bar.set(hint or self._controls.bar(columns))

    def _widths(self) -> list[int]:
        """Of the lines that can become shorter by themselves; the number of the others, by empty ones."""
        others = self.buffer.document.line_count + self._menu_count()
        return [*self._live.widths, *[0] * others, *self._bar.widths]

    def _menu_count(self) -> int:
        state = self.buffer.complete_state
        return min(len(state.completions), 6) if state else 0

    def _menu_height(self) -> Dimension:
        return Dimension.exact(self._menu_count())

    def _menu_text(self) -> StyleAndTextTuples:
        state = self.buffer.complete_state
        if state is None:
            return []
        at = state.complete_index or 0
        first = max(0, min(at - 2, len(state.completions) - 6))
        lines: StyleAndTextTuples = []
        for number, each in enumerate(state.completions[first : first + 6], first):
            style = "bold reverse" if number == state.complete_index else ""
            lines.append((style, f"  {each.display_text:<24}"))
            lines.append(("", f" {each.display_meta_text}\n"))
        return lines


def _is_shorter(widths: Sequence[int], before: Sequence[int]) -> bool:
    """Whether a line becomes shorter, or lines move to other places: then all are erased first."""
    return len(widths) != len(before) or any(map(lt, widths, before))
