"""Schedules as cron writes them: what they mean, what is refused, and what a change of the clock does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.errors import UsageError
from mainspring.goals.cron import next_after, parse_cron

BERLIN, LORD_HOWE = ZoneInfo("Europe/Berlin"), ZoneInfo("Australia/Lord_Howe")
ZONES = (UTC, BERLIN, LORD_HOWE, ZoneInfo("America/St_Johns"), ZoneInfo("Antarctica/Troll"))


def coming(text: str, after: str, zone: tzinfo = UTC, times: int = 1) -> list[str]:
    cron, moment = parse_cron(text), datetime.fromisoformat(after).replace(tzinfo=zone)
    found: list[str] = []
    for _ in range(times):
        moment = next_after(cron, moment, zone)
        assert moment is not None
        found.append(moment.astimezone(zone).isoformat(timespec="minutes"))
    return found


@pytest.mark.parametrize(
    ("text", "after", "expected"),
    [
        ("0 2 * * *", "2026-11-15T13:00", "2026-11-16T02:00+00:00"),
        ("0 2 * * *", "2026-11-15T02:00", "2026-11-16T02:00+00:00"),
        ("0 2 * * *", "2026-11-15T01:59:59", "2026-11-15T02:00+00:00"),
        ("*/20 9-17 * * mon-fri", "2026-11-14T10:00", "2026-11-16T09:00+00:00"),
        ("5,35 * * * *", "2026-11-15T13:06", "2026-11-15T13:35+00:00"),
        ("0 0 1 JAN *", "2026-11-15T13:06", "2027-01-01T00:00+00:00"),
        ("0 0 29 2 *", "2026-11-15T13:06", "2028-02-29T00:00+00:00"),
        ("0 0 13 * fri", "2026-11-15T13:06", "2026-11-20T00:00+00:00"),
        ("0 0 */13 * fri", "2026-11-15T13:06", "2026-11-27T00:00+00:00"),
        ("0 0 * * 7", "2026-11-15T13:06", "2026-11-22T00:00+00:00"),
        ("0 0 * * 5-7", "2026-11-15T13:06", "2026-11-20T00:00+00:00"),
        ("@daily", "2026-11-15T13:06", "2026-11-16T00:00+00:00"),
        ("@Hourly", "2026-11-15T13:06", "2026-11-15T14:00+00:00"),
        ("@weekly", "2026-11-15T13:06", "2026-11-22T00:00+00:00"),
        ("@monthly", "2026-12-15T13:06", "2027-01-01T00:00+00:00"),
        ("@yearly", "2026-11-15T13:06", "2027-01-01T00:00+00:00"),
    ],
)
def test_a_schedule_comes_when_cron_says(text: str, after: str, expected: str) -> None:
    assert coming(text, after) == [expected]


@pytest.mark.parametrize(
    "text",
    [
        "", "0 2 * *", "0 2 * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * 32 * *", "* * * 13 *",
        "* * * * 8", "-1 * * * *", "5-1 * * * *", "*/0 * * * *", "*/x * * * *", "1/5 * * * *", ", * * * *",
        "1- * * * *", "* * * foo *", "* * * * mond", "@reboot", "@", "* * L * *", "* * * * 5#2", "² * * * *",
        "0 0 30 2 *", "0 0 31 4,6 *", "+5 * * * *", "0x5 * * * *",
    ],
)  # fmt: skip
def test_what_is_no_schedule_is_refused_with_a_remedy(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_cron(text)
    assert refused.value.remedy


def test_a_time_that_the_clock_leaves_out_runs_as_much_later_as_it_jumps() -> None:
    assert coming("30 2 * * *", "2026-03-28T12:00", BERLIN, 2) == [
        "2026-03-29T03:30+02:00",
        "2026-03-30T02:30+02:00",
    ]
    assert coming("30 2,3 * * *", "2026-03-29T00:00", BERLIN, 2) == [
        "2026-03-29T03:30+02:00",
        "2026-03-30T02:30+02:00",
    ]
    assert coming("0,30 2,3 * * *", "2026-03-29T00:00", BERLIN, 3) == [
        "2026-03-29T03:00+02:00",
        "2026-03-29T03:30+02:00",
        "2026-03-30T02:00+02:00",
    ]


def test_a_time_that_comes_twice_runs_once() -> None:
    assert coming("30 2 * * *", "2026-10-24T12:00", BERLIN, 2) == [
        "2026-10-25T02:30+02:00",
        "2026-10-26T02:30+01:00",
    ]


def test_what_repeats_goes_on_evenly_through_both_changes() -> None:
    assert coming("*/30 * * * *", "2026-03-29T01:15", BERLIN, 2) == [
        "2026-03-29T01:30+01:00",
        "2026-03-29T03:00+02:00",
    ]
    assert coming("*/30 * * * *", "2026-10-25T02:15", BERLIN, 4) == [
        "2026-10-25T02:30+02:00",
        "2026-10-25T02:00+01:00",
        "2026-10-25T02:30+01:00",
        "2026-10-25T03:00+01:00",
    ]


def field(low: int, high: int) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    span = st.tuples(number, number).map(lambda pair: f"{min(pair)}-{max(pair)}")
    stepped = st.tuples(st.one_of(span, st.just("*")), st.integers(1, 30)).map(
        lambda pair: f"{pair[0]}/{pair[1]}"
    )
    part = st.one_of(number.map(str), span, stepped)
    return st.one_of(st.just("*"), st.lists(part, min_size=1, max_size=3).map(",".join))


CRONS = st.tuples(field(0, 59), field(0, 23), st.just("*"), st.just("*"), field(0, 7)).map(" ".join)
# Days on which a clock changes, and the ones around them.
MOMENTS = st.builds(
    lambda day, minutes: datetime.fromisoformat(day).replace(tzinfo=UTC) + timedelta(minutes=minutes),
    st.sampled_from(["2026-03-28", "2026-10-24", "2026-04-04", "2026-10-03", "2026-03-07", "2026-11-01"]),
    st.integers(0, 2 * 24 * 60),
)


def due_by_brute_force(text: str, moment: datetime, zone: tzinfo) -> bool:
    """Whether a minute is one of the schedule's, looked at by itself."""
    cron = parse_cron(text)

    def is_named(wall: datetime) -> bool:
        return (
            wall.minute in cron.minutes and wall.hour in cron.hours and wall.isoweekday() % 7 in cron.weekdays
        )

    local = moment.astimezone(zone)
    wall = local.replace(tzinfo=None, fold=0)
    if cron.is_repeating:
        return is_named(wall)
    later = (moment + timedelta(hours=3)).astimezone(zone).utcoffset()
    earlier = (moment - timedelta(hours=3)).astimezone(zone).utcoffset()
    assert later is not None
    assert earlier is not None
    jump = later - earlier
    before = wall - jump
    is_moved = jump > timedelta() and is_left_out(before, zone) and is_named(before)
    return is_moved or (local.fold == 0 and is_named(wall))


def is_left_out(wall: datetime, zone: tzinfo) -> bool:
    return wall.replace(tzinfo=zone).astimezone(UTC).astimezone(zone).replace(tzinfo=None) != wall


@settings(max_examples=150, deadline=None)
@given(text=CRONS, moment=MOMENTS, zone=st.sampled_from(ZONES))
def test_the_next_time_is_the_first_minute_that_counts(text: str, moment: datetime, zone: tzinfo) -> None:
    found = next_after(parse_cron(text), moment, zone)
    assert found is not None
    assert found > moment
    assert found.second == found.microsecond == 0
    minute = moment.replace(second=0, microsecond=0) + timedelta(minutes=1)
    limit = moment + timedelta(days=1)
    while minute < min(found, limit):
        assert not due_by_brute_force(text, minute, zone), minute
        minute += timedelta(minutes=1)
    if found <= limit:
        assert due_by_brute_force(text, found, zone)
