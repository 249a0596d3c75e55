"""The terminal as one write per frame: what is drawn between two flushes goes out whole, as a synchronized
update, so that a terminal never shows half of it."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import TextIO

from prompt_toolkit.data_structures import Size
from prompt_toolkit.output.color_depth import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output, _get_size

_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"
_REPORT_KEYS, _REPORT_NO_KEYS = "\x1b[>4;1m", "\x1b[>4;0m"
"""Asks a terminal to tell Shift-Enter from Enter, and ends that."""
_PUSH_KEYS, _POP_KEYS = "\x1b[>1u", "\x1b[<u"
"""The same for terminals that know the keyboard protocol of kitty."""


class FrameOutput(Vt100_Output):
    """A terminal that is gone takes nothing more; whoever owns the chat hears of that by SIGHUP."""

    def __init__(self, stdout: TextIO, *, term: str, colours: ColorDepth | None) -> None:
        self._descriptor = stdout.fileno()
        self._size = self.look_at_size()
        super().__init__(
            stdout,
            lambda: self._size,
            term=term,
            default_color_depth=colours,
            enable_bell=False,
            enable_cpr=False,
        )
        self._is_held = False
        self._is_lost = False
        self._is_ours = self._shall_be_ours = False
        self._has_keyboard = False
        self.questions = ""
        """What the terminal is asked as soon as it no longer echoes."""
        self.drawn_rows = 0
        """How many lines below the cursor are ours to erase; 0 is all of them."""
        self.has_leftovers = False
        """Whether a line became shorter: tmux takes its erased end for text when it wraps lines anew."""

    @contextmanager
    def frame(self) -> Generator[None]:
        """Everything that is drawn inside goes out as one write."""
        self._is_held = True
        try:
            yield
        finally:
            self._is_held = False
            self.flush()

    def enable_bracketed_paste(self) -> None:
        """When we have the terminal for ourselves; while an editor or the shell has it, the other one. Inside
        a frame the one may follow the other, and nothing is to be told."""
        self._shall_be_ours = True

    def disable_bracketed_paste(self) -> None:
        self._shall_be_ours = False

    def use_keyboard(self) -> None:
        """The terminal knows the keyboard protocol of kitty: from here on it is used."""
        if self._is_ours and not self._has_keyboard:
            self._has_keyboard = True
            self.write_raw(_PUSH_KEYS)
            self.flush()

    def _take_over(self) -> None:
        if self._is_ours == self._shall_be_ours:
            return
        self._is_ours = self._shall_be_ours
        if self._is_ours:
            super().enable_bracketed_paste()
            self.write_raw(_REPORT_KEYS + (_PUSH_KEYS if self._has_keyboard else "") + self.questions)
            self.questions = ""
        else:
            super().disable_bracketed_paste()
            self.write_raw(_REPORT_NO_KEYS + (_POP_KEYS if self._has_keyboard else ""))

    def erase_end_of_line(self) -> None:
        self.has_leftovers = True
        super().erase_end_of_line()

    def erase_down(self) -> None:
        """Line by line: tmux moves the whole screen to its scrollback when that is erased from its top."""
        self.has_leftovers = False
        if self.drawn_rows:
            self.write_raw("\x1b7\x1b[K" + "\x1b[B\r\x1b[K" * (self.drawn_rows - 1) + "\x1b8")
        else:
            super().erase_down()

    def resized(self, up: int, *, rows: int) -> None:
        """After the terminal wrapped our lines anew, they begin so many lines further up, and are so many."""
        self.drawn_rows = rows
        if up > 0:
            self.cursor_up(up)

    def flush(self) -> None:
        if self._is_held:
            return
        self._take_over()
        if not self._buffer:
            return
        data = "".join((_BEGIN, *self._buffer, _END)).encode("utf-8", "replace")
        self._buffer = []
        while data and not self._is_lost:
            try:
                data = data[os.write(self._descriptor, data) :]
            except BlockingIOError:
                os.set_blocking(self._descriptor, True)
            except OSError:
                self._is_lost = True

    def look_at_size(self) -> Size:
        """The size that the terminal has now; `get_size` is the one that it is drawn with."""
        try:
            rows, columns = _get_size(self._descriptor)
        except OSError:
            rows, columns = 0, 0
        return Size(rows=rows or 24, columns=columns or 80)

    def take_size(self, size: Size) -> None:
        """From here on it is drawn with this size."""
        self._size = size
