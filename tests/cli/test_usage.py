"""`mainspring usage`: who spent what, by every combination of keys, and what exports of it hold."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import stat

import pytest

from mainspring.app.records import recording
from mainspring.catalog import local_day
from mainspring.events import (
    Event,
    Origin,
    SessionResumed,
    SessionStarted,
    SpendReserved,
    SpendSettled,
    Usage,
    UserSaid,
)
from mainspring.settings import load_config
from tests.cli.conftest import Machine, lines

ADA, BEA = Origin(user="ada", face="cli"), Origin(user="bea", face="web")
DAEMON = Origin(user="root", face="daemon")


def spend(name: str, usd: float, model: str = "small") -> tuple[Event, ...]:
    usage = Usage(input_tokens=100, output_tokens=10)
    return (
        SpendReserved(spend=name, source="step", model=model, usd=1.0, tokens=500),
        SpendSettled(spend=name, usd=usd, usage=usage),
    )


def record(machine: Machine, session: str, workspace: str, *events: Event) -> None:
    config = load_config(machine.environment())

    async def recorded() -> None:
        from mainspring.app.stores import sessions_of

        await (await sessions_of(config).create(session)).close()
        async with recording(session, config) as recorder:
            started = SessionStarted(session=session, workspace=workspace, version="1", origin=ADA)
            await recorder.record(started, *events)

    asyncio.run(recorded())


@pytest.fixture
def used(machine: Machine) -> Machine:
    said = [UserSaid(text="x", origin=origin) for origin in (ADA, BEA)]
    resumed = SessionResumed(version="1", host="h", pid=1, origin=DAEMON)
    record(
        machine, "one", "/work/one", said[0], *spend("a", 0.5), said[1], resumed, *spend("b", 0.25, "large")
    )
    held = SpendReserved(spend="c", source="step", model="=large", usd=2.0, tokens=500)
    record(machine, "two", "/work/one/below", said[0], held)
    record(machine, "three", "/work/one-other", said[1], *spend("d", 0.125))
    return machine


def rows(machine: Machine, *words: str) -> list[tuple[str | float, ...]]:
    ran = machine.run("usage", "--format", "json", *words)
    assert ran.returncode == 0, ran.stderr
    found = lines(ran.stdout)
    return [(*list(row.values())[: -len(_REST)], row["sessions"], row["usd"]) for row in found]


_REST = ("sessions", "requests", "input", "cached", "output", "held", "usd", "saved", "unsettled", "unpriced")


def test_what_was_spent_belongs_to_who_said_it_last_and_not_to_what_went_on_with_it(used: Machine) -> None:
    assert rows(used) == [("ada", 2, 2.5), ("bea", 2, 0.375)]
    assert rows(used, "--by", "model") == [("=large", 1, 2.0), ("large", 1, 0.25), ("small", 2, 0.625)]
    assert rows(used, "--by", "person,project", "--person", "ada") == [
        ("ada", "/work/one", 1, 0.5),
        ("ada", "/work/one/below", 1, 2.0),
    ]
    assert rows(used, "--by", "session", "--project", "/work/one") == [("one", 1, 0.75), ("two", 1, 2.0)]


def test_days_bound_what_counts(used: Machine) -> None:
    used.run("sessions")
    (row,) = lines(used.run("usage", "--by", "day", "--format", "json").stdout)
    today = row["day"]
    assert today <= local_day(10**18)
    assert rows(used, "--by", "day", "--since", today, "--until", today) == [(today, 3, 2.875)]
    assert rows(used, "--since", "9999-01-01") == []
    assert rows(used, "--until", "2000-01-01") == []


def test_a_table_and_a_file_for_spreadsheets(used: Machine) -> None:
    shown = used.run("usage").stdout.splitlines()
    assert shown[0].split() == ["person", "sessions", "requests", "input", "cached", "output", "cost"]
    assert shown[1].split()[:4] == ["ada", "2", "2", "100"]
    file = used.workspace / "usage.csv"
    assert used.run("usage", "--by", "model,person", "--format", "csv", "-o", str(file)).stdout == ""
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    found = list(csv.DictReader(io.StringIO(file.read_text())))
    assert [(row["model"], row["person"], row["unsettled"], row["held_tokens"]) for row in found] == [
        ("'=large", "ada", "1", "500"),
        ("large", "bea", "0", "0"),
        ("small", "ada", "0", "0"),
        ("small", "bea", "0", "0"),
    ]


@pytest.mark.parametrize(
    "words", [("--by", "mood"), ("--by", ","), ("--since", "yesterday"), ("--until", "2026-1-1")]
)
def test_what_makes_no_sense_is_refused(machine: Machine, words: tuple[str, ...]) -> None:
    refused = machine.run("usage", *words)
    assert (refused.returncode, refused.stdout) == (2, "")


def test_nothing_was_spent(machine: Machine) -> None:
    ran = machine.run("usage", "--format", "csv")
    assert ran.stdout.startswith("person,sessions,requests")
    assert "Nothing was spent" in ran.stderr
    assert json.loads(machine.run("usage", "--format", "json").stdout or "[]") == []
