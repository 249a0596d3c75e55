"""Choosing one of many: typed letters narrow the list, arrows move in it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from mainspring.chat.completion import best_fits
from mainspring.chat.palette import Palette
from mainspring.chat.surface import Choice
from mainspring.chat.width import clipped

_ROWS = 4


class Picker:
    """`query` is what was typed so far."""

    def __init__(self, title: str, choices: Sequence[Choice]) -> None:
        self._title = title
        self._choices = {f"{each.title} {each.value}": each for each in choices}
        self._rows = _ROWS if any(each.preview for each in choices) else _ROWS + 1
        self._query = ""
        self._at = next((at for at, each in enumerate(choices) if each.is_now), 0)

    @property
    def found(self) -> list[Choice]:
        return [self._choices[key] for key in best_fits(self._query, tuple(self._choices), most=200)]

    @property
    def chosen(self) -> Choice | None:
        found = self.found
        return found[min(self._at, len(found) - 1)] if found else None

    def narrow(self, query: str) -> None:
        self._query, self._at = query, 0

    def move(self, by: int) -> None:
        self._at = max(0, min(self._at + by, len(self.found) - 1))

    def lines(self, palette: Palette, columns: int) -> list[str]:
        """A title, a few rows, and a preview of the one that Enter takes."""
        found = self.found
        at = max(0, min(self._at, len(found) - 1))
        first = max(0, min(at - 1, len(found) - self._rows))
        title = f"{self._title} ({len(found)}) · type to search, Enter takes, Esc leaves"
        lines = [palette.paint(clipped(title, columns), "bold")]
        for number, each in enumerate(found[first : first + self._rows], first):
            mark = "▸ " if number == at else "  "
            text = clipped(f"{mark}{each.title}", columns)
            lines.append(palette.paint(text, "cyan") if number == at else text)
        preview = self.chosen.preview if self.chosen else "nothing fits"
        return [*lines, *([palette.paint(clipped(f"  {preview}", columns), "dim")] if preview else [])]
