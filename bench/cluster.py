"""What a store that machines share costs: an append and a turn on a durable Postgres on loopback, beside a
bare insert and SQLite; how soon work of a killed machine goes on; what waiting costs; what workers bring;
and how it grows. Machines are homes, with process numbers of their own where that can be had."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import asyncpg

import mainspring
from bench.cluster_fleet import growth, scale, takeover, waiting
from bench.measure import timing
from bench.serving import Served, served
from mainspring.catalog.postgres import PostgresSessions
from mainspring.events import SessionStarted, UserSaid
from mainspring.settings import load_config
from tests.postgres import Postgres

APPENDS = 400
TURNS = 60
TEXT = "x" * 200


def main() -> None:
    server = Postgres(is_durable=True)
    with tempfile.TemporaryDirectory() as folder:
        try:
            asyncio.run(appends(server, Path(folder)))
            turns(server, Path(folder))
            for measure in (takeover, waiting, growth, scale):
                measure(server, Path(folder))
        finally:
            server.end()


async def appends(server: Postgres, folder: Path) -> None:
    """One event and its commit, in turn with a bare insert that the same server commits."""
    address = await server.new_store()
    bare = await asyncpg.connect(address.url)
    await bare.execute("CREATE TABLE bare (seq bigserial PRIMARY KEY, kind text, body bytea, hash bytea)")
    insert = await bare.prepare("INSERT INTO bare (kind, body, hash) VALUES ($1, $2, $3)")
    journal = await PostgresSessions(address, folder / "beside").create("one")
    await journal.append(SessionStarted(session="one", workspace="/work", version="0"))
    body, hash_ = TEXT.encode(), bytes(32)
    floor: list[float] = []
    fenced: list[float] = []
    for _ in range(APPENDS):
        floor.append(await _took(lambda: insert.fetch("UserSaid", body, hash_)))
        fenced.append(await _took(lambda: journal.append(UserSaid(text=TEXT))))
    timing("a bare insert and its commit", floor)
    timing("a fenced append", fenced, floor=floor, target="target 0.6 ms")
    await journal.close()
    await bare.close()


async def _took(do: Callable[[], Awaitable[object]]) -> float:
    start = time.perf_counter()
    await do()
    return time.perf_counter() - start


def turns(server: Postgres, folder: Path) -> None:
    """A step of our loop (a reply, a call, its end) in a session of each store, in turn."""
    url = asyncio.run(server.new_store()).url
    taken: dict[str, list[float]] = {"": [], url: []}
    for number in range(6):
        store = (url, "")[number % 2]
        with served(_script()) as model:
            asyncio.run(_turn(folder / str(number), model, store))
            asked = model.requests()
        gaps = [seen["idle_ns"] / 1e9 for seen in asked if seen["idle_ns"] is not None]
        taken[store] += gaps[10:]
    timing("a step on SQLite", taken[""])
    timing("a step on Postgres", taken[url], floor=taken[""], target="target 2.5 x")


def _script() -> dict[str, object]:
    calls = [{"calls": [{"name": "nothing", "arguments": {"number": number}}]} for number in range(TURNS)]
    return {"replies": [*calls, {"text": "done"}]}


async def nothing(number: int) -> str:
    """Does nothing, and never the same: a guard ends what repeats itself."""
    return f"ok {number}"


async def _turn(folder: Path, model: Served, store: str) -> None:
    folder.mkdir()
    session = mainspring.open(
        folder,
        model=f"openai-compatible@{model.url}#m",
        mode="yolo",
        limits=mainspring.Limits(max_cost_usd=1, max_steps=TURNS + 1),
        allow_unpriced=True,
        allow_home=True,
        tools=[mainspring.tool(nothing, effect="read")],
        config=load_config({"MAINSPRING_HOME": str(folder / "home"), "MAINSPRING_STORE": store}),
    )
    async with session as ready:
        async for _ in ready.run("go"):
            pass
