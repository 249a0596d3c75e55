"""What a server says it counted, as counts that can be added up.

Servers leave counts out, send them as text or with a fraction, below zero, or larger than any model's window.
A count that cannot be one is none, and a part is never larger than its whole: else one such reply would give
money back, or make every later request look too large.
"""

from __future__ import annotations

import math
from typing import Any

from mainspring.events import Usage

Count = Any
"""A field that should hold a number, and must not make a reply unreadable."""

_MOST = 100_000_000


def number(said: Count) -> int:
    """The count that was said, 0 when that is none."""
    if isinstance(said, str):
        try:
            said = float(said)
        except ValueError:
            return 0
    if not isinstance(said, int | float) or math.isnan(said) or not 0 < said <= _MOST:
        return 0
    return int(said)


def counted(
    sent: Count, written: Count, *, cached: Count = 0, cache_written: Count = 0, reasoning: Count = 0
) -> Usage:
    """The usage of one reply: all that was sent, and all that was written."""
    whole, made = number(sent), number(written)
    read = min(number(cached), whole)
    return Usage(
        input_tokens=whole,
        cached_tokens=read,
        cache_write_tokens=min(number(cache_written), whole - read),
        output_tokens=made,
        reasoning_tokens=min(number(reasoning), made),
    )
