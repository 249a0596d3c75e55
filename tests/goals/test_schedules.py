"""Which schedules are due, decided from times alone, and the file that they are kept in."""

from __future__ import annotations

import stat
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from mainspring.disk.shared_files import LocalFiles
from mainspring.errors import ConfigError, UsageError
from mainspring.goals.schedules import Due, Schedule, Schedules, due, next_us

NIGHTLY = Schedule(cron="0 2 * * *", goal="tidy up", folder="/somewhere")


def us(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1e6)


def test_nothing_is_due_before_its_time() -> None:
    assert due(NIGHTLY, us("2026-11-15T02:00"), us("2026-11-16T01:59:59"), UTC) is None


def test_a_time_is_due_once_it_has_come() -> None:
    now = us("2026-11-16T02:00:20")
    found = due(NIGHTLY, us("2026-11-15T02:00"), now, UTC)
    assert found == Due(at_us=us("2026-11-16T02:00"), how="on time")
    assert found is not None
    assert due(NIGHTLY, found.at_us, now, UTC) is None


def test_times_that_nobody_was_there_for_are_caught_up_with_once() -> None:
    found = due(NIGHTLY, us("2026-11-12T02:00"), us("2026-11-15T09:00"), UTC)
    assert found == Due(at_us=us("2026-11-15T02:00"), how="late", missed=2)


def test_what_is_older_than_the_grace_is_only_reported() -> None:
    short = Schedule(cron="0 2 * * *", goal="tidy up", folder="/", grace_s=3600)
    found = due(short, us("2026-11-12T02:00"), us("2026-11-15T09:00"), UTC)
    assert found == Due(at_us=us("2026-11-15T02:00"), how="missed", missed=3)


def test_without_catching_up_a_late_time_is_missed_and_one_just_come_is_not() -> None:
    never = Schedule(cron="0 2 * * *", goal="tidy up", folder="/", grace_s=0)
    assert due(never, us("2026-11-14T02:00"), us("2026-11-15T02:00:10"), UTC) is not None
    found = due(never, us("2026-11-14T02:00"), us("2026-11-15T02:06"), UTC)
    assert found is not None
    assert found.how == "missed"


def test_a_schedule_is_not_due_for_times_before_it_was_made() -> None:
    made = Schedule(cron="0 2 * * *", goal="tidy up", folder="/", scheduled_us=us("2026-11-15T09:00"))
    assert due(made, 0, us("2026-11-15T10:00"), UTC) is None


def test_years_of_minutes_are_looked_through_quickly() -> None:
    often = Schedule(cron="* * * * *", goal="tidy up", folder="/")
    found = due(often, us("2021-01-01T00:00"), us("2026-11-15T10:00:30"), UTC)
    assert found == Due(at_us=us("2026-11-15T10:00"), how="on time", missed=99)


def test_the_next_time_is_that_of_the_clock_on_the_wall() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    assert next_us(NIGHTLY, us("2026-07-01T12:00"), berlin) == us("2026-07-02T00:00")
    assert next_us(NIGHTLY, us("2026-12-01T12:00"), berlin) == us("2026-12-02T01:00")


def test_schedules_are_kept_in_a_private_readable_file(tmp_path: Path) -> None:
    schedules = Schedules(LocalFiles(tmp_path / "home"))
    assert schedules.all() == ()
    first, second = schedules.add(NIGHTLY), schedules.add(NIGHTLY)
    assert schedules.all() == (first, second)
    assert schedules.find(first.id[:5]) == first
    path = tmp_path / "home" / "schedules.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert '"cron": "0 2 * * *"' in path.read_text()
    schedules.remove(first)
    assert schedules.all() == (second,)
    for unknown in (first.id, ""):
        with pytest.raises(UsageError):
            schedules.find(unknown)


@pytest.mark.parametrize("text", ["{", "[{}]", '[{"cron": "61 * * * *", "goal": "x", "folder": "/"}]'])
def test_a_damaged_file_is_an_error_that_names_it(tmp_path: Path, text: str) -> None:
    (tmp_path / "schedules.json").write_text(text)
    with pytest.raises(ConfigError, match=r"schedules\.json"):
        Schedules(LocalFiles(tmp_path)).all()
