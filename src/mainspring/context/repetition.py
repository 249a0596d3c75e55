"""Tells noise from an answer: text that says nothing or only repeats itself, as small models give it when
they are lost, and things in a row that come round again."""

from __future__ import annotations

import re
from collections.abc import Hashable

import msgspec

from mainspring.patterns import lazy_pattern

REPEATS = 3
REPEATS_AFTER_WARNING = 2

_LONGEST_UNIT = 200
_LEAST_REPEATS = 8
_LOOKED_AT = 8_000
_WHOLE, _LEAST_WHOLE = 0.9, 40
_LARGE_PART, _LEAST_PART = 0.5, 400


_CONTROL_TOKEN = lazy_pattern(r"<\|[\w▁ ]{1,40}\|>|</?s>|<(?:start|end)_of_turn>|<eos>")
# Some servers leave thinking in the text, also without its first mark.
_THOUGHT = lazy_pattern(r"\A.*</think(?:ing)?>|\A\s*<think(?:ing)?>.*", re.DOTALL)
_BARE = lazy_pattern(r"(?:`{3,}\w*|~{3,}\w*|[\s\u2400\u200b-\u200f\u2060\ufeff])*")


def answer_in(text: str) -> str:
    """What a text says, without thinking and signs of a model's template; empty when it says nothing."""
    said = _THOUGHT.sub("", _CONTROL_TOKEN.sub("", text)).strip()
    return "" if _BARE.fullmatch(said) else said


def is_repetition(text: str) -> bool:
    """Whether a text ends in the same few characters again and again, and consists of little else."""
    tail = text[-_LOOKED_AT:]
    for size in range(1, min(_LONGEST_UNIT, len(tail) // _LEAST_REPEATS) + 1):
        run = _run(tail, size)
        if run < size * _LEAST_REPEATS:
            continue
        is_all = run >= _LEAST_WHOLE and run >= _WHOLE * len(tail)
        if is_all or (run >= _LEAST_PART and run >= _LARGE_PART * len(tail)):
            return True
    return False


def _run(text: str, size: int) -> int:
    """How many characters at the end are one unit of this size, repeated."""
    run = size
    while run < len(text) and text[-run - 1] == text[size - run - 1]:
        run += 1
    return run


class Track(msgspec.Struct):
    """Things in a row that may come round again: `cycle` is what repeats, empty when nothing does."""

    periods: tuple[int, ...] = (1,)
    items: list[Hashable] = []
    warned: tuple[Hashable, ...] = ()

    def add(self, item: Hashable) -> None:
        if self.warned and item != self.warned[len(self.items) % len(self.warned)]:
            self.warned, self.items = (), []
        self.items.append(item)
        del self.items[: -max(self.periods) * REPEATS]

    def warn(self) -> None:
        self.warned, self.items = self.cycle, []

    @property
    def cycle(self) -> tuple[Hashable, ...]:
        if self.warned:
            return self.warned if len(self.items) >= REPEATS_AFTER_WARNING * len(self.warned) else ()
        for period in self.periods:
            tail = self.items[-period * REPEATS :]
            if len(tail) == period * REPEATS and tail == tail[:period] * REPEATS:
                return tuple(tail[:period])
        return ()
