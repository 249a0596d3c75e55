"""What was spent, as `mainspring cost` tells it from the journals."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta, timezone

import pytest

from mainspring.catalog import local_day
from mainspring.catalog.sqlite import SqliteSessions
from mainspring.events import Event, ModelChosen, SessionStarted, SpendReserved, SpendSettled, Usage
from mainspring.models import Price
from tests.cli.conftest import Machine, lines

USAGE = Usage(input_tokens=1000, cached_tokens=400, output_tokens=50)


def record(machine: Machine, session: str, *events: Event) -> None:
    async def recording() -> None:
        journal = await SqliteSessions(machine.home).create(session)
        await journal.append(SessionStarted(session=session, workspace="/", version="1"), *events)
        await journal.close()

    asyncio.run(recording())


def spent(number: int, model: str, source: str, usd: float) -> tuple[Event, Event]:
    name = f"{source}:{number}"
    return (
        SpendReserved(spend=name, source=source, model=model, tokens=9000, usd=usd * 2),
        SpendSettled(spend=name, usage=USAGE, usd=usd, saved_usd=0.05),
    )


def two_sessions(machine: Machine) -> None:
    lost = SpendReserved(spend="step:3", source="step", model="large", tokens=700, usd=0.5)
    record(machine, "first", *spent(1, "large", "step", 0.25), *spent(2, "small", "title", 0.001), lost)
    child = SpendReserved(spend="x/step:1", source="step", model="large", usd=9.0, child="x")
    record(
        machine,
        "second",
        *spent(1, "small", "step", 0.002),
        child,
        SpendSettled(spend="x/step:1", usage=USAGE, usd=8.0),
    )


def test_rows_are_models_sources_sessions_or_days(machine: Machine) -> None:
    two_sessions(machine)
    today = datetime.now().astimezone().date().isoformat()
    expected = {
        "model": {"large": 0.75, "small": 0.003},
        "source": {"step": 0.752, "title": 0.001},
        "session": {"first": 0.751, "second": 0.002},
        "day": {today: 0.753},
    }
    for by, rows in expected.items():
        told = lines(machine.run("cost", "--by", by, "--json").stdout)
        assert {row[by]: round(row["usd"], 6) for row in told} == rows
    assert lines(machine.run("cost", "--today", "--by", "day", "--json").stdout) == lines(
        machine.run("cost", "--by", "day", "--json").stdout
    )


def test_a_spend_without_a_model_is_of_the_one_that_was_chosen_last(machine: Machine) -> None:
    first, second = ModelChosen(model="large"), ModelChosen(model="small")
    steps = [spent(number, "", "step", 0.25) for number in range(3)]
    record(machine, "one", first, *steps[0], *spent(1, "tiny", "title", 0.001), second, *steps[1], *steps[2])
    told = lines(machine.run("cost", "--by", "model", "--json").stdout)
    assert {row["model"]: row["usd"] for row in told} == {"large": 0.25, "small": 0.5, "tiny": 0.001}


def test_a_day_is_one_of_the_time_zone_of_this_machine(machine: Machine) -> None:
    two_sessions(machine)
    for zone, hours in (("Etc/GMT-14", 14), ("Etc/GMT+12", -12)):  # never the same day in both
        day = datetime.now(timezone(timedelta(hours=hours))).date().isoformat()
        for options in ((), ("--today",)):
            (row,) = lines(machine.run("cost", "--by", "day", "--json", *options, TZ=zone).stdout)
            assert row["day"] == day


def test_the_day_changes_at_midnight_also_when_clocks_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        for moment, day in (
            ("2026-03-28T22:59:59", "2026-03-28"),  # the last second in winter time
            ("2026-03-28T23:00:00", "2026-03-29"),
            ("2026-03-29T21:59:59", "2026-03-29"),  # a day of 23 hours
            ("2026-03-29T22:00:00", "2026-03-30"),
            ("2026-10-25T22:59:59", "2026-10-25"),  # a day of 25 hours
            ("2026-10-25T23:00:00", "2026-10-26"),
        ):
            at_us = int(datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp()) * 1_000_000
            assert local_day(at_us) == day
    finally:
        monkeypatch.undo()
        time.tzset()


def test_no_amount_has_a_tail_of_binary_fractions(machine: Machine) -> None:
    record(machine, "one", *spent(1, "m", "step", 0.1), *spent(2, "m", "title", 0.2))
    assert 0.1 + 0.2 != 0.3
    (row,) = lines(machine.run("cost", "--json").stdout)
    assert (row["usd"], machine.only_session()["cost_usd"]) == (0.3, 0.3)
    price = Price(input=0.3, output=0.7)
    assert price.cost_usd(Usage(input_tokens=100_001, output_tokens=100_003)) == 0.1000024


def test_the_table_has_a_total_and_says_what_was_never_settled(machine: Machine) -> None:
    two_sessions(machine)
    told = machine.run("cost")
    heading, large, small, total = told.stdout.splitlines()
    assert heading.split() == ["model", "requests", "input", "cached", "output", "cost", "saved"]
    assert large.split() == ["large", "2", "1,000", "400", "50", "$0.7500", "$0.0500"]
    assert small.split() == ["small", "2", "2,000", "800", "100", "$0.0030", "$0.1000"]
    assert total.split() == ["total", "4", "3,000", "1,200", "150", "$0.7530", "$0.1500"]
    assert "Requests reserved and not settled, which count as spent: 1 (700 tokens)" in told.stderr


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_the_table_fits_its_terminal(machine: Machine, columns: int) -> None:
    record(machine, "long", *spent(1, "provider/a-model-with-a-rather-long-name", "step", 0.5))
    shown = machine.run("cost", COLUMNS=str(columns)).stdout.splitlines()
    assert "provider/a-model-with-a-rather-long-name" in shown
    assert max(map(len, shown)) <= columns
    assert any(line.split()[:2] == ["requests", "input"] for line in shown) == (columns >= 60)


def test_one_session_is_asked_for_by_the_beginning_of_its_id(machine: Machine) -> None:
    two_sessions(machine)
    (row,) = lines(machine.run("cost", "sec", "--json").stdout)
    assert (row["model"], row["usd"], row["requests"]) == ("small", 0.002, 1)
    assert machine.run("cost", "nowhere").returncode == 2


def test_no_name_of_a_model_breaks_the_table(machine: Machine) -> None:
    record(machine, "odd", *spent(1, "a\nb\x1b[31m", "step", 0.5))
    told = machine.run("cost")
    assert told.returncode == 0
    assert "\x1b" not in told.stdout
    assert lines(machine.run("cost", "--json").stdout)[0]["model"] == "a\nb\x1b[31m"


def test_a_home_without_sessions_has_spent_nothing(machine: Machine) -> None:
    told = machine.run("cost")
    assert (told.stdout, told.stderr) == ("", "Nothing was spent.\n")
