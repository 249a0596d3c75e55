"""What mainspring adds to a model turn, measured at the server: from its last byte to the next whole request.

Durable commits are on, the tool does nothing. The floor is a bare loop in the same run: raw HTTP, and three
fsynced SQLite commits a turn. Then how both grow with a long history, and what a turn takes when many
sessions in one process wait for a model that thinks for a second.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import random
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import apsw

import mainspring
from bench.measure import median, ms, row, rss_mb, timing
from bench.serving import Served, served
from mainspring.settings import load_config

TURNS = 1000
ROUNDS = 3
LONG = 5000
SESSIONS = 100
CROWD_TURNS = 12
THINKING_S = 1.0


async def nothing(number: int) -> str:
    """Does nothing, and never the same: a guard ends what repeats itself."""
    return f"ok {number}"


def main() -> None:
    memory = (0.0, 0.0)
    bare: list[float] = []
    mine: list[list[float]] = []
    for _ in range(ROUNDS):
        with served(script(TURNS)) as server:
            floor(server, turns=120)
            bare += gaps(server)[90:110]
        with served(script(TURNS)) as server:
            memory = asyncio.run(ours(server, TURNS))
            mine.append(gaps(server))
    timing("bare loop at turn 100", bare)
    for turn, target in ((100, "target 1.4 x"), (300, ""), (TURNS, "")):
        around = [value for gaps_of in mine for value in gaps_of[turn - 11 : turn + 9]]
        timing(f"mainspring at turn {turn}", around, floor=bare, target=target)
    row("memory after 1 turn", f"{memory[0]:.0f} MB", "", "target 60 MB")
    row(f"memory after {TURNS} turns", f"{memory[1]:.0f} MB", "", "target 90 MB")
    written()
    growth()
    crowd()


def written() -> None:
    """What a turn leaves in the journal: its events as text, and with hashes, times and indexes on disk."""
    turns = 200
    with tempfile.TemporaryDirectory() as folder, served(script(turns)) as server:
        asyncio.run(told(server, folder, turns))
        (path,) = Path(folder).rglob("journal.sqlite")
        database = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        size = sum(len(body) for (body,) in database.execute("SELECT body FROM events"))
        database.close()
        on_disk = f"{path.stat().st_size / turns / 1000:.2f} KB on the disk"
    row("journal: events of a turn", f"{size / turns / 1000:.2f} KB", on_disk, "target 0.8 KB")


async def told(server: Served, folder: str, turns: int) -> None:
    async with opened(folder, server, turns) as session:
        async for _ in session.run("go"):
            pass


def script(turns: int, **fields: Any) -> dict[str, Any]:
    calls = [{"name": "nothing", "arguments": {"number": number}} for number in range(turns)]
    return {"replies": [{"calls": [call], **fields} for call in calls]}


def growth() -> None:
    """How much longer a turn takes at the end of a long history than near its beginning."""
    grown: list[float] = []
    for is_ours in (False, True):
        with served(script(LONG)) as server:
            if is_ours:
                asyncio.run(ours(server, LONG))
            else:
                floor(server, turns=LONG)
            early, late = (median(gaps(server)[turn - 50 : turn]) for turn in (150, LONG - 1))
        grown.append(late / early)
        name = "mainspring" if is_ours else "bare loop"
        row(f"{name}: turn {LONG:,} against turn 100", f"{grown[-1]:.2f} x", f"{ms(early)} to {ms(late)}")
    row("growth against that of the bare loop", f"{grown[1] / grown[0]:.2f} x", "", "target 1.1 x")


def crowd() -> None:
    """A turn of one session alone, and of many that began at odd moments of a second."""
    alone: list[float] = []
    for sessions in (1, SESSIONS):
        slow = {"kind": "slow", "seconds": THINKING_S, "times": sessions}
        with served(script(CROWD_TURNS, faults=[slow])) as server:
            asyncio.run(many(server, sessions))
            arrived: dict[int, list[int]] = {}
            for seen in server.requests():
                arrived.setdefault(seen["connection"], []).append(seen["arrived_ns"])
        # The first turns of some are taken while others are still being opened.
        steps = [pair for times in arrived.values() for pair in pairwise(times[1:])]
        taken = sorted((later - before) / 1e9 - THINKING_S for before, later in steps)
        alone = alone or taken
        name = f"{sessions} session{'s' * (sessions > 1)} in one process"
        timing(f"{name}: a turn", taken, floor=[] if taken is alone else alone)
        if sessions > 1:
            row(f"{name}: 99 of 100 turns within", ms(taken[len(taken) * 99 // 100]), "", "target 30 ms")


async def many(server: Served, sessions: int) -> None:
    odd, are_open = random.Random(1), asyncio.Barrier(sessions)

    async def one(folder: str, wait_s: float) -> None:
        async with opened(folder, server, CROWD_TURNS) as session:
            await are_open.wait()
            await asyncio.sleep(wait_s)
            async for _ in session.run("go"):
                pass

    with tempfile.TemporaryDirectory() as folder:
        await asyncio.gather(*(one(folder, odd.random() * THINKING_S) for _ in range(sessions)))


def gaps(server: Served) -> list[float]:
    return [seen["idle_ns"] / 1e9 for seen in server.requests() if seen["idle_ns"] is not None]


@asynccontextmanager
async def opened(folder: str, server: Served, turns: int) -> AsyncIterator[mainspring.Session]:
    session = mainspring.open(
        folder,
        model=f"openai-compatible@{server.url}#m",
        mode="yolo",
        limits=mainspring.Limits(max_cost_usd=1, max_steps=turns),
        allow_unpriced=True,
        allow_home=True,
        tools=[mainspring.tool(nothing, effect="read")],
        config=load_config({"MAINSPRING_HOME": str(Path(folder) / "home")}),
    )
    async with session as ready:
        yield ready


async def ours(server: Served, turns: int) -> tuple[float, float]:
    memory = [0.0, 0.0]
    with tempfile.TemporaryDirectory() as folder:
        async with opened(folder, server, turns) as session:
            async for _ in session.run("go"):
                memory[0] = memory[0] or (rss_mb() if session.state.turn_steps == 2 else 0.0)
            memory[1] = rss_mb()
    return memory[0], memory[1]


def floor(server: Served, *, turns: int) -> None:
    address = server.url.removeprefix("http://").removesuffix("/v1")
    connection = http.client.HTTPConnection(address)
    messages: list[dict[str, object]] = [{"role": "user", "content": "go"}]
    with tempfile.TemporaryDirectory() as folder:
        database = apsw.Connection(str(Path(folder) / "floor.sqlite"))
        for statement in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", "CREATE TABLE events (body)"):
            database.execute(statement).fetchall()
        for turn in range(turns):
            body = json.dumps({"model": "m", "stream": True, "messages": messages})
            connection.request("POST", "/v1/chat/completions", body)
            connection.getresponse().read()
            call = {"id": f"c{turn}", "type": "function", "function": {"name": "nothing", "arguments": "{}"}}
            messages += [
                {"role": "assistant", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": f"c{turn}", "content": "ok"},
            ]
            for _ in range(3):
                database.execute("INSERT INTO events VALUES (?)", (body[:200],))
        database.close()
    connection.close()
