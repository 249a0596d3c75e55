"""How long a long session takes from the command line to its first request, and how much memory.

One session of 100,000 events in a single turn, never compacted: every reply is still part of the request. The
floor is a bare reader: the same rows out of SQLite, decoded and joined, without a runtime around it.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import apsw
import msgspec

from bench.measure import python, row, timing
from mainspring.catalog.sqlite import SqliteSessions
from mainspring.events import (
    AssistantSaid,
    CallAsked,
    CallEnded,
    CallStarted,
    Event,
    ModeChosen,
    ModelChosen,
    PromptSet,
    SessionStarted,
    SpendReserved,
    SpendSettled,
    TurnStarted,
    Usage,
    UserSaid,
)
from mainspring.models.reply import call_id
from mainspring.models.scripted import Script
from mainspring.testing.server import HostedModelServer

EVENTS = 100_000
RUNS = 5
SESSION = "long"
RESUME = python("-m", "mainspring", "resume", "--json", SESSION, "Go on.")
STARTER = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
"""


def main() -> None:
    silent = HostedModelServer(Script(replies=()), keep_bodies=False)
    with tempfile.TemporaryDirectory() as folder, silent as server:
        home = Path(folder) / "home"
        workspace = Path(folder) / "workspace"
        workspace.mkdir()
        asyncio.run(write(home, str(workspace), f"openai-compatible@{server.url}#m"))
        copies = [(Path(folder) / str(number), Path(folder) / f"crashed{number}") for number in range(RUNS)]
        rounds: list[tuple[float, float, float, float]] = []
        for whole, crashed in copies:
            floor_s, first_s, again_s = bare(home), resumed(home, whole, server), ask(whole, server)
            rounds.append((floor_s, first_s, again_s, resumed(home, crashed, server, is_crashed=True)))
        floor, first, again, after_crash = zip(*rounds, strict=True)
        most_kb = max(peak_kb(prepared(home, Path(folder) / "without folds")), peak_kb(copies[0][0]))
        timing("bare read, decode and join", floor)
        what = f"resume of {EVENTS:,} events to the first request"
        timing(what, again, floor=floor, target="target 250 ms")
        timing("the same when no folds are kept beside the journal", first, floor=floor)
        timing("the same after a crash, every hash checked", after_crash, floor=floor)
        size = f"body {server.seen[0].size / 1e6:.1f} MB"
        row("its memory", f"{most_kb * 1024 / 1e6:.0f} MB", size, "target 120 MB")


def resumed(home: Path, copy: Path, server: HostedModelServer, *, is_crashed: bool = False) -> float:
    """Seconds to the first request of a process that resumes a copy of the session. Such a process leaves its
    folds behind."""
    return ask(prepared(home, copy, is_crashed=is_crashed), server)


def prepared(home: Path, copy: Path, *, is_crashed: bool = False) -> Path:
    shutil.copytree(home, copy)
    if not is_crashed:
        asyncio.run(close_in_order(copy))
    return copy


def ask(home: Path, server: HostedModelServer) -> float:
    before = len(server.seen)
    start = time.monotonic_ns()
    subprocess.run(
        RESUME, check=False, stdout=subprocess.DEVNULL, env={**os.environ, "MAINSPRING_HOME": str(home)}
    )
    return (server.seen[before].arrived_ns - start) / 1e9


def peak_kb(home: Path) -> int:
    """What a process that resumes has in memory at most. The kernel counts for a process also what its parent
    had when it was started, so a small process starts it, and not this one."""
    environment = {**os.environ, "MAINSPRING_HOME": str(home)}
    measured = subprocess.run(
        python("-c", STARTER, *RESUME), check=False, stderr=subprocess.PIPE, env=environment
    )
    return int(measured.stderr.split()[-1])


async def close_in_order(home: Path) -> None:
    """Leaves the journal as a process does that ends in order; a copy is one that nobody closed."""
    await (await SqliteSessions(home).open(SESSION)).close()


async def write(
    home: Path, workspace: str, model: str, *, events: int = EVENTS, ends: Sequence[Event] = ()
) -> None:
    """A session of one long turn, and what it ends with, if it does."""
    journal = await SqliteSessions(home).create(SESSION)
    await journal.append(
        SessionStarted(session=SESSION, workspace=workspace, version="0"),
        PromptSet(system="You are a benchmark."),
        ModelChosen(model=model),
        ModeChosen(mode="auto"),
        UserSaid(text="Go on for a long time."),
        TurnStarted(turn=1),
    )
    for step in range(1, events // 5):
        await journal.append(*events_of(step))
    if ends:
        await journal.append(*ends)
    await journal.close()


def events_of(step: int) -> list[Event]:
    call = call_id(step, 0)
    asked = CallAsked(call=call, name="read", arguments=f'{{"path":"file{step}.py"}}')
    return [
        SpendReserved(spend=f"step:{step}", source="step", model="m", tokens=100),
        SpendSettled(spend=f"step:{step}", usage=Usage(input_tokens=90, output_tokens=10)),
        AssistantSaid(step=step, parts=(asked,), stop="calls"),
        CallStarted(call=call, tool="read"),
        CallEnded(call=call, outcome="ok", output=f"line {step} of a file"),
    ]


def bare(home: Path) -> float:
    start = time.perf_counter()
    path = home / "sessions" / SESSION / "journal.sqlite"
    database = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    decode, encode = msgspec.json.Decoder().decode, msgspec.json.Encoder().encode
    rows = database.execute("SELECT body FROM events WHERE kind IN ('AssistantSaid', 'CallEnded')")
    b",".join(encode(decode(body)) for (body,) in rows)
    database.close()
    return time.perf_counter() - start
