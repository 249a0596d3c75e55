"""Lines with escape sequences as prompt_toolkit draws them, read once for each text."""

from __future__ import annotations

from itertools import groupby

from prompt_toolkit.formatted_text import ANSI, OneStyleAndTextTuple, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.formatted_text.utils import fragment_list_width, split_lines
from prompt_toolkit.layout import Window
from prompt_toolkit.layout.screen import Screen, WritePosition


class Painted:
    """What a text becomes, kept until it is another one."""

    def __init__(self) -> None:
        self._text = ""
        self.parts: StyleAndTextTuples = []
        self.widths: list[int] = []
        """How wide each of its lines is."""

    def set(self, text: str) -> None:
        if text != self._text:
            self._text = text
            signs = to_formatted_text(ANSI(text))
            self.parts = [(style, "".join(each[1] for each in run)) for style, run in groupby(signs, _style)]
            self.widths = [fragment_list_width(line) for line in split_lines(self.parts)]


def _style(part: OneStyleAndTextTuple) -> str:
    return part[0]


class BareWindow(Window):
    """A window without a style of its own: there is nothing to paint on all its cells."""

    def _apply_style(self, new_screen: Screen, write_position: WritePosition, parent_style: str) -> None:
        pass
