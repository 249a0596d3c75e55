"""Five fields of cron, and when they come next. Pure: the caller brings the time and the zone.

Times are those of a clock on the wall. Where the clock is put forward, a time that does not exist runs as
much later as the clock jumps; where it is put back, a time that comes twice runs once. What repeats by the
minute or the hour (`*` there) goes by what the clock shows instead: nothing is run for what is left out, and
all of what comes twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import MAXYEAR, UTC, datetime, timedelta, tzinfo

import msgspec

from mainspring.errors import UsageError

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of the month", 1, 31, ()),
    ("month", 1, 12, _MONTHS),
    ("day of the week", 0, 7, _DAYS),
)
_NAMED = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_MINUTE = timedelta(minutes=1)
_AROUND = timedelta(hours=3)  # no clock was ever put forward or back by more
_DIGITS = 2
_YEARS = 29  # after which the days of the week of a 29th of February begin again, but for 2100
_REMEDY = 'Write minute, hour, day, month and weekday, as "0 2 * * mon-fri", or @daily.'


class Cron(msgspec.Struct, frozen=True):
    """`is_either` when both days are restricted: then one of them is enough, as cron has it."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    is_either: bool
    is_repeating: bool


def parse_cron(text: str) -> Cron:
    """Raises `UsageError` that names the field, also for a date that never comes."""
    words = _NAMED.get(text.strip().lower(), text).lower().split()
    if len(words) != len(_FIELDS):
        raise UsageError(f"{text!r} is not a schedule.", remedy=_REMEDY)
    minutes, hours, days, months, weekdays = (
        _field(word, *field) for word, field in zip(words, _FIELDS, strict=True)
    )
    cron = Cron(
        minutes=tuple(sorted(minutes)),
        hours=tuple(sorted(hours)),
        days=frozenset(days),
        months=frozenset(months),
        weekdays=frozenset(day % 7 for day in weekdays),
        is_either=not words[2].startswith("*") and not words[4].startswith("*"),
        is_repeating=words[0].startswith("*") or words[1].startswith("*"),
    )
    if _next_wall(cron, datetime(2000, 1, 1)) is None:  # noqa: DTZ001 - a time on the wall
        raise UsageError(f"The schedule {text!r} never runs: no month has that day.", remedy=_REMEDY)
    return cron


def single_days(text: str) -> list[str]:
    """The schedules that come, all together, when this one does, of which each restricts one kind of day at
    most: not everybody takes two as cron does."""
    if not parse_cron(text).is_either:
        return [text]
    minute, hour, day, month, weekday = text.split()
    return [f"{minute} {hour} {day} {month} *", f"{minute} {hour} * {month} {weekday}"]


def next_after(cron: Cron, after: datetime, zone: tzinfo) -> datetime | None:
    """The first time after this one, in UTC; None when there is none in sight."""
    after = after.astimezone(UTC)
    wall = _wall(after, zone) - _MINUTE
    found = _first(cron, wall, after, zone, past=timedelta())
    if found is None or (_is_even(after, zone) and _is_even(found, zone)):
        return found
    # Around a change of the clock, what is later on the wall may come sooner.
    return _first(cron, wall - _AROUND, after, zone, past=_AROUND)


def _field(word: str, name: str, low: int, high: int, names: tuple[str, ...]) -> set[int]:
    found = set[int]()
    for part in word.split(","):
        span, slash, step = part.partition("/")
        first, dash, last = span.partition("-")
        if span == "*":
            start, end = low, high
        else:
            start = _number(first, names, low)
            end = _number(last, names, low) if dash else start
        is_step = not slash or (step.isascii() and step.isdigit() and int(step) > 0 and (dash or span == "*"))
        if start is None or end is None or not low <= start <= end <= high or not is_step:
            raise UsageError(
                f"{part!r} cannot be the {name} ({low} to {high}) of a schedule.", remedy=_REMEDY
            )
        found.update(range(start, end + 1, int(step) if slash else 1))
    return found


def _number(text: str, names: tuple[str, ...], low: int) -> int | None:
    if text in names:
        return names.index(text) + low
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS else None


def _first(cron: Cron, wall: datetime, after: datetime, zone: tzinfo, *, past: timedelta) -> datetime | None:
    best: datetime | None = None
    following = _next_wall(cron, wall)
    while following is not None:
        if best is not None and following > _wall(best, zone) + past:
            break
        for instant in _instants(cron, following, zone):
            if instant > after and (best is None or instant < best):
                best = instant
        following = _next_wall(cron, following)
    return best


def _instants(cron: Cron, wall: datetime, zone: tzinfo) -> list[datetime]:
    """When the clock on the wall shows this: once, twice, or never."""
    first, second = (wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    if first == second:
        return [first]
    is_left_out = first > second
    if not cron.is_repeating:
        return [first]
    return [] if is_left_out else [first, second]


def _next_wall(cron: Cron, wall: datetime) -> datetime | None:
    """The first minute after this one that the fields name, whether the clock shows it or not."""
    start = wall + _MINUTE
    for day in _matching_days(cron, start):
        is_first = day.date() == start.date()
        for hour in cron.hours:
            if is_first and hour < start.hour:
                continue
            for minute in cron.minutes:
                if not (is_first and hour == start.hour and minute < start.minute):
                    return day.replace(hour=hour, minute=minute)
    return None


def _matching_days(cron: Cron, start: datetime) -> Iterator[datetime]:
    day = start.replace(hour=0, minute=0, second=0, microsecond=0)
    until = day.year + _YEARS
    while day.year < min(until, MAXYEAR):
        if day.month not in cron.months:
            day = (day.replace(day=1) + timedelta(days=32)).replace(day=1)
            continue
        is_day, is_weekday = day.day in cron.days, day.isoweekday() % 7 in cron.weekdays
        if (is_day or is_weekday) if cron.is_either else (is_day and is_weekday):
            yield day
        day += timedelta(days=1)


def _wall(instant: datetime, zone: tzinfo) -> datetime:
    local = instant.astimezone(zone)
    return local.replace(tzinfo=None, fold=0, second=0, microsecond=0)


def _is_even(instant: datetime, zone: tzinfo) -> bool:
    offsets = {(instant + shift).astimezone(zone).utcoffset() for shift in (-_AROUND, _AROUND)}
    return len(offsets) == 1
