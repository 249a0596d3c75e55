"""Colours and marks. Only the sixteen colours of the terminal's own scheme are used, so that light and dark
terminals are both right; without colours weight is left, and words carry every meaning anyway. Pure."""

from __future__ import annotations

from typing import Literal

import msgspec

Tone = Literal["dim", "bold", "red", "green", "yellow", "blue", "magenta", "cyan", "italic"]
Theme = Literal["dark", "light", "mono"]

_CODES: dict[Tone, int] = {
    "bold": 1,
    "dim": 2,
    "italic": 3,
    "red": 31,
    "green": 32,
    "yellow": 33,
    "blue": 34,
    "magenta": 35,
    "cyan": 36,
}
_WEIGHTS: frozenset[Tone] = frozenset({"bold", "dim", "italic"})
_TONES: dict[str, tuple[Tone, ...]] = {
    "·": ("dim",),
    "!": ("yellow",),
    "✗": ("red",),
    "✓": ("green",),
    "■": ("dim",),
    "?": ("magenta",),
    "→": ("cyan",),
    "◷": ("dim",),
    "+": ("green",),
    "-": ("red",),
    "~": ("yellow",),
    "⚠": ("yellow",),
}
LEGEND = (
    ("›", "you"),
    ("✓ ✗", "a call that succeeded, failed"),
    ("·", "a note of mainspring"),
    ("!", "something to know"),
    ("?", "a question to you, or its answer"),
    ("■", "the end of a turn"),
    ("✻", "thinking"),
    ("⋯", "a message that waits"),
    ("☐ ▶ ☑", "of the plan: open, begun, done"),
    ("◷", "a wait"),
    ("⑂", "an agent that was given work"),
    ("⇢", "a job on another machine"),
    ("◎ ⟳ ⚒", "a goal, an attempt, a fix"),
    ("→", "what is called, or becomes of something"),
    ("⚠", "text that reads like orders to the model"),
    ("+ ~ -", "a file that was made, changed, deleted"),
)


def theme_of(colours: str) -> Theme:
    """Of a terminal that says which of the sixteen its text and background have: `COLORFGBG=0;15`."""
    back = colours.rpartition(";")[2]
    return "light" if back in ("7", "15") else "dark"


class Palette(msgspec.Struct, frozen=True):
    """How text is coloured on this terminal."""

    theme: Theme = "dark"
    is_styled: bool = True
    """Whether any escape sequence may be written at all."""

    def paint(self, text: str, *tones: Tone) -> str:
        used: list[Tone] = [each for each in tones if self.theme != "mono" or each in _WEIGHTS]
        if not self.is_styled or not used or not text:
            return text
        return f"\x1b[{';'.join(str(_CODES[each]) for each in used)}m{text}\x1b[0m"

    def marked(self, text: str) -> str:
        """Lines in the tone of the mark that the first one begins with."""
        stripped = text.lstrip()
        tones = _TONES.get(stripped[:1], ()) if stripped[1:2] in (" ", "") else ()
        return "\n".join(self.paint(line, *tones) for line in text.split("\n"))
