"""Measurements with real workers: taking over, waiting, more workers, and how a store grows."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import asyncpg

from bench.measure import median, ms, row
from bench.serving import served
from mainspring.catalog import WorkerRow
from mainspring.catalog.postgres import PostgresSessions
from mainspring.catalog.postgres_queue import PostgresQueue
from mainspring.catalog.queue import ClaimChoice, Claimed
from mainspring.events import SessionStarted, UserSaid
from mainspring.journal.postgres.connection import StoreAddress
from tests.cluster.machines import LEASE_S, SETTINGS, WorkerMachine
from tests.forked import run_forked
from tests.postgres import Postgres

TAKEOVERS = 3
WAITING = 1000
WATCHED_S = 20.0
THINKING_S = 12.0
CAPACITY = 4
FREE = ("--mode", "yolo", "--sandbox", "none", "--max-cost-usd", "1", "--allow-unpriced")
_RESUMED = "SELECT count(*) FROM mainspring.events WHERE kind = 'SessionResumed'"
_ENDED = "SELECT count(*) FROM mainspring.events WHERE kind = 'TurnEnded'"


class Fleet:
    """A store, a client, and workers that may use it."""

    def __init__(self, server: Postgres, folder: Path, workers: int) -> None:
        self.address, self.folder = asyncio.run(server.new_store(lease_s=LEASE_S)), folder
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        environment = {**kept, "MAINSPRING_STORE": self.address.url}
        # Numbers that stand for namespaces of their own.
        self.workers = [WorkerMachine(folder, 2 * number, environment, SETTINGS) for number in range(workers)]
        self._client = {**environment, "MAINSPRING_HOME": str(folder / "client")}

    def queue(self, number: int, model: str) -> None:
        workspace = self.folder / "workspaces" / str(number)
        workspace.mkdir(parents=True)
        words = ["run", "--queue", "default", "--model", model, *FREE, "-C", str(workspace), "do it"]
        left = run_forked(words, str(self.folder), self._client)
        assert left.returncode == 0, left.stderr

    def ask(self, question: str, *given: object) -> Any:
        async def asked() -> Any:
            connection = await asyncpg.connect(self.address.url)
            try:
                return await connection.fetchval(question, *given)
            finally:
                await connection.close()

        return asyncio.run(asked())

    def wait_for(self, question: str, least: int) -> float:
        """When so many are there."""
        while self.ask(question) < least:
            time.sleep(0.02)
        return time.perf_counter()


@contextmanager
def fleet(server: Postgres, folder: Path, workers: int) -> Iterator[Fleet]:
    folder.mkdir()
    made = Fleet(server, folder, workers)
    try:
        yield made
    finally:
        for each in made.workers:
            each.end()


def takeover(server: Postgres, folder: Path) -> None:
    """From the death of a machine until a process of another one has its session."""
    taken: list[float] = []
    with served(_thinks(600.0)) as model, fleet(server, folder / "takeover", 2) as machines:
        for number in range(TAKEOVERS):
            one, other = machines.workers
            one.start(("--capacity", "1"))
            machines.queue(number, f"openai-compatible@{model.url}#m")
            machines.wait_for(_RESUMED, 2 * number + 1)
            other.start(("--capacity", "1"))
            machines.wait_for("SELECT count(*) FROM mainspring.workers WHERE until > clock_timestamp()", 2)
            start = time.perf_counter()
            one.end()
            taken.append(machines.wait_for(_RESUMED, 2 * number + 2) - start)
            other.end()
            machines.ask("UPDATE mainspring.queue SET is_set_aside = true")
    row(
        f"a machine is killed: another goes on (lease {LEASE_S:g} s)",
        " ".join(f"{each:.2f}" for each in taken) + " s",
        f"lease + {max(taken) - LEASE_S:.2f} s",
        "target lease + 1 s",
        taken_s=taken,
    )


def _thinks(seconds: float) -> dict[str, Any]:
    """A model that thinks for so long before each answer."""
    slow = {"kind": "slow", "seconds": seconds, "times": 10_000}
    return {"replies": [{"text": "done"}], "faults": [slow]}


def waiting(server: Postgres, folder: Path) -> None:
    """What a worker and the database use while a thousand sessions sleep."""
    with fleet(server, folder / "waiting", 1) as machines:
        asyncio.run(_clones(machines.address, folder, WAITING, events=2))
        machines.ask(
            "INSERT INTO mainspring.queue (session, queue, labels, person, options, idle_seq, wake)"
            " SELECT id, 'default', '{}', 'me', '{}', last_seq, clock_timestamp() + interval '1 day'"
            " FROM mainspring.sessions"
        )
        (worker,) = machines.workers
        worker.start(("--capacity", str(CAPACITY)))
        machines.wait_for("SELECT count(*) FROM mainspring.workers", 1)
        time.sleep(3)
        before, start = _cpu_s([*worker.workers()]), time.perf_counter()
        before_server = server.cpu_s()
        time.sleep(WATCHED_S)
        passed = time.perf_counter() - start
        ours, theirs = _cpu_s(worker.workers()) - before, server.cpu_s() - before_server
    row(f"{WAITING:,} sessions that wait: a worker's CPU", f"{ours / passed:.2%}", "", "target 1 %")
    row(f"{WAITING:,} sessions that wait: the database's CPU", f"{theirs / passed:.2%}")


def _cpu_s(pids: Sequence[int]) -> float:
    total = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def scale(server: Postgres, folder: Path) -> None:
    """Sessions per second of one worker and of four, which mostly wait for a model."""
    rates: list[float] = []
    for workers, sessions in ((1, 50), (4, 200)):
        with (
            served(_thinks(THINKING_S)) as model,
            fleet(server, folder / f"scale{workers}", workers) as machines,
        ):
            for number in range(sessions):
                machines.queue(number, f"openai-compatible@{model.url}#m")
            start = time.perf_counter()
            for each in machines.workers:
                each.start(("--capacity", str(CAPACITY)))
            rates.append(sessions / (machines.wait_for(_ENDED, sessions) - start))
        share = THINKING_S * rates[-1] / (workers * CAPACITY)
        name = f"{sessions} sessions, {workers} worker{'s' * (workers > 1)} with {CAPACITY} at once"
        row(name, f"{rates[-1]:.2f} sessions/s", f"{share:.0%} of it thinking")
    row("four workers against one", f"{rates[1] / rates[0]:.2f} x", "", "target 3.2 x")


def growth(server: Postgres, folder: Path) -> None:
    """What grows with the sessions of a store, with those in a queue, and with the events of one session."""
    asyncio.run(_growth(server, folder / "growth"))


async def _growth(server: Postgres, folder: Path) -> None:
    address = await server.new_store()
    sessions = PostgresSessions(address, folder)
    connection = await asyncpg.connect(address.url)
    sizes: list[tuple[int, float, float, float]] = []
    for count in (500, 1000):
        await _clones(address, folder, count - (500 if count == 1000 else 0), events=100, begin=count)
        await connection.execute(
            "INSERT INTO mainspring.queue (session, queue, labels, person, options, idle_seq)"
            " SELECT id, 'default', '{}', 'me', '{}', last_seq FROM mainspring.sessions"
            " ON CONFLICT DO NOTHING"
        )
        await connection.execute("ANALYZE")
        await sessions.rows()
        listed = [await _took(sessions.rows()) for _ in range(5)]
        queue = PostgresQueue(sessions)
        looked = [
            await _took(queue.claim(WorkerRow(id="me", queue="default"), (), 16, _nothing)) for _ in range(7)
        ]
        await queue.close()
        size = await connection.fetchval("SELECT pg_database_size(current_database())")
        sizes.append((count, median(listed), median(looked), size))
    (few, list_few, look_few, size_few), (many, list_many, look_many, size_many) = sizes
    more = many - few
    row(
        "the list of sessions: each further one",
        ms((list_many - list_few) / more),
        f"{ms(list_many)} for {many:,}",
    )
    row(
        "a worker's look: each further one in a queue",
        ms((look_many - look_few) / more),
        f"{ms(look_many)} for {many:,}",
    )
    row("the database: each further event", f"{(size_many - size_few) / more / 100:,.0f} bytes")
    opened: list[float] = []
    for events in (5_000, 10_000):
        journal = await sessions.create(f"long{events}")
        for _ in range(events // 500):
            await journal.append(*(UserSaid(text="x" * 200) for _ in range(500)))
        await journal.close()
        times: list[float] = []
        for _ in range(3):
            start = time.perf_counter()
            journal = await sessions.open(f"long{events}")
            times.append(time.perf_counter() - start)
            await journal.close()
        opened.append(median(times))
    row(
        "taking a session, every hash checked: 1,000 further events",
        ms((opened[1] - opened[0]) / 5),
        ms(opened[1]) + " for 10,000",
    )
    await connection.close()


async def _took(asked: Any) -> float:
    start = time.perf_counter()
    await asked
    return time.perf_counter() - start


async def _nothing(claimed: Claimed) -> ClaimChoice:  # noqa: ARG001
    return ClaimChoice()


async def _clones(address: StoreAddress, folder: Path, count: int, *, events: int, begin: int = 0) -> None:
    """So many sessions with so many events each."""
    journal = await PostgresSessions(address, folder).create(f"model{begin}")
    await journal.append(SessionStarted(session=f"model{begin}", workspace=str(folder), version="0"))
    await journal.append(*(UserSaid(text="x" * 200) for _ in range(events - 1)))
    await journal.close()
    connection = await asyncpg.connect(address.url)
    clone = (f"copy{begin}n", f"model{begin}", count - 1)
    await connection.execute(
        "INSERT INTO mainspring.sessions SELECT $1::text || n, last_seq, head, time_us"
        " FROM mainspring.sessions, generate_series(1, $3::int) AS n WHERE id = $2",
        *clone,
    )
    await connection.execute(
        "INSERT INTO mainspring.events SELECT $1::text || n, seq, time_us, kind, body, hash"
        " FROM mainspring.events, generate_series(1, $3::int) AS n WHERE session = $2",
        *clone,
    )
    await connection.close()
