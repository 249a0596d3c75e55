"""A recorded time as a date.

A clock that was wrong, or a journal of somebody else, can hold times that no calendar has. They are shown as
the nearest one that it has: one of them must not make a whole list unreadable.
"""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo

_LAST_US = 253_402_200_000_000_000  # the end of the year 9999 in every time zone, up to which there are dates


def date_of(time_us: int, zone: tzinfo = UTC) -> datetime:
    return datetime.fromtimestamp(min(max(time_us, 0), _LAST_US) / 1e6, zone)
