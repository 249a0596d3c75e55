"""A number with its noun, for sentences that are recorded or shown."""

from __future__ import annotations


def plural(count: int, noun: str) -> str:
    """`1 step`, `2 steps`, `1,000 processes`."""
    ending = "" if count == 1 else "es" if noun.endswith(("s", "ch", "x")) else "s"
    return f"{count:,} {noun}{ending}"
