"""A cap for the day holds for all processes of one data folder together."""

import asyncio
import sys
import time

import pytest

from mainspring.catalog import local_day
from mainspring.catalog.sqlite import SqliteSessions
from mainspring.events import Cap, Limits, SpendReserved, SpendSettled, TurnStarted, Usage
from tests import ROOT
from tests.journal.samples import write

CAP = 1.0
SPENDER = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from mainspring.catalog.sqlite import SqliteSessions
from mainspring.catalog.day import Today
from mainspring.turns.spend import reserve
from tests.folds.test_ledger import Journaled, Limits, Cap, Reservation

async def main():
    store = SqliteSessions(Path(sys.argv[1]))
    journal = await store.create(sys.argv[2])
    turn = Journaled(sys.argv[2], Limits(day=Cap(usd=float(sys.argv[4]))), day=store.today())
    turn.record = journal.append
    made = 0
    for number in range(20):
        made += isinstance(await reserve(turn, source="title", spend=f"t{number}", input_tokens=100), Reservation)
    await journal.close()
    print(made)

asyncio.run(main())
"""


def spent_today(store):
    async def asking():
        async with store.today().held() as spent:
            return spent

    return asyncio.run(asking())


def test_today_is_what_every_journal_says_of_today(store):
    reserved = [SpendReserved(spend=name, source="step", model="m", tokens=50, usd=1.0) for name in "ab"]
    write(store, "one", [TurnStarted(turn=1, limits=Limits(day=Cap(usd=2.0))), *reserved])
    write(store, "one", [SpendSettled(spend="a", usd=0.25, usage=Usage(input_tokens=7, output_tokens=3))])
    write(store, "two", [*reserved[:1]])
    spent = spent_today(store)
    assert (spent.usd, spent.tokens, spent.steps) == (2.25, 110, 3)


def test_one_reserves_after_the_other(store):
    async def both():
        order = []

        async def hold(name, until):
            async with store.today().held():
                order.append(name)
                await until.wait()
                order.append(name)

        store.home.mkdir(exist_ok=True)
        first, second = asyncio.Event(), asyncio.Event()
        second.set()
        async with asyncio.TaskGroup() as group:
            group.create_task(hold("first", first))
            while not order:
                await asyncio.sleep(0)
            group.create_task(hold("second", second))
            await asyncio.sleep(0.05)
            assert order == ["first"]
            first.set()
        return order

    assert asyncio.run(both()) == ["first", "first", "second", "second"]


@pytest.mark.slow
def test_processes_that_race_do_not_jointly_pass_the_cap(store):
    store.home.mkdir(exist_ok=True)

    async def race():
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(spender(name)) for name in ("one", "two", "three")]
        return [task.result() for task in tasks]

    async def spender(name):
        tests = str(ROOT)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", SPENDER, str(store.home), name, tests, str(CAP), stdout=-1
        )
        out, _ = await process.communicate()
        assert process.returncode == 0
        return int(out)

    made = asyncio.run(race())
    assert sum(made) > 0
    assert 0.8 * CAP < spent_today(SqliteSessions(store.home)).usd <= CAP + 1e-6


def test_a_time_zone_that_no_date_can_have_counts_as_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "XXX-25:00")
    time.tzset()
    try:
        assert local_day(1_700_000_000_000_000) == "2023-11-14"
    finally:
        monkeypatch.undo()
        time.tzset()
