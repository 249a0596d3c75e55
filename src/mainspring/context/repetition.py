"""Tells noise from an answer: text that only repeats itself, as small models give it when they are lost, and
things in a row that come round again."""

from __future__ import annotations

from collections.abc import Hashable

import msgspec

REPEATS = 3
REPEATS_AFTER_WARNING = 2

_LONGEST_UNIT = 200
_LEAST_REPEATS = 8
_LOOKED_AT = 8_000
_WHOLE, _LEAST_WHOLE = 0.9, 40
_LARGE_PART, _LEAST_PART = 0.5, 400


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
