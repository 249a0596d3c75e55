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
from bench.measure import median, ms, row, rss_mb
from bench.serving import Served, served
from mainspring.settings import load_config

TURNS = 1000


async def nothing(number: int) -> str:
    """Does nothing, and never the same: a guard ends what repeats itself."""
    return f"ok {number}"


def main() -> None:
    calls = [{"name": "nothing", "arguments": {"number": number}} for number in range(TURNS)]
    script = {"replies": [{"calls": [call]} for call in calls]}
    with served(script) as server:
        floor(server, turns=300)
        bare = gaps(server)
    with served(script) as server:
        memory = asyncio.run(ours(server))
        mine = gaps(server)
    base = median(bare[90:110])
    row("bare loop at turn 100", ms(base))
    for turn in (100, 300, TURNS):
        value = median(mine[turn - 11 : turn + 9])
        against = (
            f"{value / base:.2f} x bare" if turn == 100 else f"{value / median(mine[89:109]):.2f} x turn 100"
        )
        target = {100: "target 3 ms", TURNS: "target 1.5 x"}.get(turn, "")
        row(f"mainspring at turn {turn}", ms(value), against, target)
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
