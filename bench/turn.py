"""What mainspring adds to a model turn, measured at the server: from its last byte to the next whole request.

Durable commits are on, the tool does nothing. The floor is a bare loop in the same run: raw HTTP, and three
fsynced SQLite commits a turn.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import tempfile
from pathlib import Path

import apsw

import mainspring
from bench.measure import row, rss_mb, timing
from bench.serving import Served, served
from mainspring.settings import load_config

TURNS = 1000
ROUNDS = 3


async def nothing(number: int) -> str:
    """Does nothing, and never the same: a guard ends what repeats itself."""
    return f"ok {number}"


def main() -> None:
    memory = (0.0, 0.0)
    calls = [{"name": "nothing", "arguments": {"number": number}} for number in range(TURNS)]
    script = {"replies": [{"calls": [call]} for call in calls]}
    bare: list[float] = []
    mine: list[list[float]] = []
    for _ in range(ROUNDS):
        with served(script) as server:
            floor(server, turns=120)
            bare += gaps(server)[90:110]
        with served(script) as server:
            memory = asyncio.run(ours(server))
            mine.append(gaps(server))
    timing("bare loop at turn 100", bare)
    for turn, target in ((100, "target 1.4 x"), (300, ""), (TURNS, "")):
        around = [value for gaps_of in mine for value in gaps_of[turn - 11 : turn + 9]]
        timing(f"mainspring at turn {turn}", around, floor=bare, target=target)
    row("memory after 1 turn", f"{memory[0]:.0f} MB", "", "target 60 MB")
    row(f"memory after {TURNS} turns", f"{memory[1]:.0f} MB", "", "target 90 MB")


def gaps(server: Served) -> list[float]:
    return [seen["idle_ns"] / 1e9 for seen in server.requests() if seen["idle_ns"] is not None]


async def ours(server: Served) -> tuple[float, float]:
    memory = [0.0, 0.0]
    with tempfile.TemporaryDirectory() as folder:
        config = load_config({"MAINSPRING_HOME": str(Path(folder) / "home")})
        opened = mainspring.open(
            folder,
            model=f"openai-compatible@{server.url}#m",
            mode="yolo",
            limits=mainspring.Limits(max_cost_usd=1, max_steps=TURNS),
            allow_unpriced=True,
            allow_home=True,
            tools=[mainspring.tool(nothing, effect="read")],
            config=config,
        )
        async with opened as session:
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
