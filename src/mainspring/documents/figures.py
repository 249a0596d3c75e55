"""Times and money as people read them."""

from __future__ import annotations

from datetime import tzinfo

from mainspring.events.moments import date_of
from mainspring.waits.describe import clock


def when(time_us: int) -> str:
    return clock(time_us) if time_us else f"{'unknown':<20}"


def local_time(time_us: int, zone: tzinfo) -> str:
    """A time as the clock on the wall shows it there."""
    return date_of(time_us, zone).isoformat(timespec="minutes")


def money(usd: float) -> str:
    return f"${usd:.4f}" if usd else "$0"
