"""What comes from a terminal: keys in every form in which terminals report them, and between them the
answers to what we asked, which are told apart from what a person types. Nothing waits for an answer."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from prompt_toolkit.input import Input, create_input
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys

from mainspring.chat.palette import Theme

ASK_BACKGROUND, ASK_KEYBOARD = "\x1b]11;?\x1b\\", "\x1b[?u"
"""Which colour the background has, and whether the keyboard protocol of kitty is known."""

_ANSWER = re.compile(
    r"\x1b\]11;rgba?:([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})(?:/[0-9a-fA-F]{1,4})?"
    r"(?:\x07|\x1b\\)|\x1b\[\?\d+u"
)
_BEGUN = re.compile(r"\x1b(?:\](?:1(?:1(?:;[rgba:/0-9a-fA-F]{0,32}\x1b?)?)?)?|\[(?:\?\d{0,4})?)?\Z")
_REPORTED = re.compile(r"\x1b\[(?:27;(\d+);(\d+)~|(\d+)(?:;(\d+))?u)\Z")
_LOCKED = re.compile(r"(\x1b\[\d+);(\d+)([~A-Z])\Z")
_PASTE = "\x1b[200~"
_SHIFT, _ALT, _CTRL, _LOCKS = 1, 2, 4, 64 | 128
_ENTER, _TAB, _ESCAPE, _BACKSPACE = 13, 9, 27, 127
_LIGHT = 0.5

_Match = Keys | tuple[Any, ...] | None
"""Letters stand for themselves."""


class TerminalParser(Vt100Parser):
    """`on_background` hears what the background is, `on_keyboard` that keys can be reported in full."""

    def __init__(
        self,
        feed_key_callback: Callable[[KeyPress], None],
        on_background: Callable[[Theme], None],
        on_keyboard: Callable[[], None],
    ) -> None:
        self._held = ""
        self._on_background, self._on_keyboard = on_background, on_keyboard
        super().__init__(feed_key_callback)

    def feed(self, data: str) -> None:
        """What may be the beginning of an answer is held until more comes, or `flush`."""
        if self._in_bracketed_paste:
            super().feed(data)
            return
        typed, paste, pasted = (self._held + data).partition(_PASTE)
        typed = _ANSWER.sub(self._take_answer, typed)
        begun = None if paste else _BEGUN.search(typed)
        self._held = begun[0] if begun else ""
        super().feed(typed.removesuffix(self._held) + paste + pasted)

    def flush(self) -> None:
        held, self._held = self._held, ""
        super().feed(held)
        super().flush()

    def _take_answer(self, answer: re.Match[str]) -> str:
        if answer[1] is None:
            self._on_keyboard()
        else:
            red, green, blue = (int(part, 16) / (16 ** len(part) - 1) for part in answer.groups())
            is_light = 0.2126 * red + 0.7152 * green + 0.0722 * blue > _LIGHT
            self._on_background("light" if is_light else "dark")
        return ""

    def _get_match(self, prefix: str) -> _Match:
        if found := _REPORTED.match(prefix):
            code, modifiers = (found[2], found[1]) if found[2] else (found[3], found[4] or "1")
            return _key(int(code), int(modifiers) - 1 & ~_LOCKS)
        if (found := _LOCKED.match(prefix)) and (held := int(found[2]) - 1) & _LOCKS:
            held &= ~_LOCKS
            prefix = f"{found[1]};{held + 1}{found[3]}" if held else f"{found[1]}{found[3]}"
            prefix = prefix.replace("[1", "[", 1) if not held and found[3] != "~" else prefix
        return super()._get_match(prefix)


def terminal_input(on_background: Callable[[Theme], None], on_keyboard: Callable[[], None]) -> Input:
    """The keyboard of this terminal."""
    made = create_input()
    if isinstance(made, Vt100Input):
        callback = made.vt100_parser.feed_key_callback
        made.vt100_parser = TerminalParser(callback, on_background, on_keyboard)
    return made


def _key(code: int, held: int) -> _Match:
    """The key as terminals have always sent it, as far as they could."""
    if code == _ENTER and held & (_SHIFT | _CTRL):
        return Keys.ControlJ
    if code == _TAB and held & _SHIFT:
        return Keys.BackTab
    if code == _BACKSPACE and held & (_ALT | _CTRL):
        return (Keys.Escape, Keys.ControlH)
    if not (32 <= code < 127 or code in (_ENTER, _TAB, _ESCAPE, _BACKSPACE)):
        return Keys.Ignore
    letter = chr(code).upper() if held & _SHIFT else chr(code)
    key: Any = ANSI_SEQUENCES.get(chr(code), letter)
    if held & _CTRL and code >= 32:
        key = ANSI_SEQUENCES.get(chr(0x1F if letter in "/-" else code & 0x1F), letter)
    return (Keys.Escape, key) if held & _ALT else key
