"""Processes for the journal's tests: `python workers.py <what> <home> …`. Each says on stdout what it did."""

import asyncio
import os
import resource
import sys
import time
from pathlib import Path

from mainspring.catalog.sqlite import SqliteSessions
from mainspring.errors import JournalError
from mainspring.events import CallStarted, UserSaid


def say(*words: object) -> None:
    print(*words, flush=True)


async def hold(home: str) -> None:
    journal = await SqliteSessions(Path(home)).open("one")
    await journal.append(UserSaid(text="mine"))
    say("holding")
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    await journal.close()


async def hold_and_leave_a_child(home: str) -> None:
    """The child inherits the lock by fork and outlives the owner."""
    await SqliteSessions(Path(home)).open("one")
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    say(child)
    os._exit(0)


async def write_for_ever(home: str) -> None:
    journal = await SqliteSessions(Path(home)).open("one")
    blob = ""
    for number in range(1_000_000):
        if number % 7 == 0:
            blob = (await journal.put(b"%d" % number * 100)).sha256
        recorded = await journal.append(
            CallStarted(call=str(number), tool=blob), UserSaid(text="x" * (number % 3000))
        )
        say(recorded[-1].seq)


async def open_and_close(home: str) -> None:
    for number in range(60):
        journal = await SqliteSessions(Path(home)).open("one")
        await journal.append(UserSaid(text="x" * 50 * number), UserSaid(text="y" * 20_000))
        await journal.close()


async def fill_the_disk(home: str) -> None:
    journal = await SqliteSessions(Path(home)).open("one")
    await journal.append(UserSaid(text="fits"))
    wal = Path(home) / "sessions" / "one" / "journal.sqlite-wal"
    limit = wal.stat().st_size + 10_000
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    heard = []
    journal.subscribe(heard.extend)
    for size in (8_000, 9_000, 100_000, 5_000_000):
        try:
            await journal.append(UserSaid(text=os.urandom(size).hex()))
        except JournalError as error:
            say(type(error).__name__, await journal.last_seq(), len(heard), bool(error.remedy))
    results = await asyncio.gather(
        *(journal.append(UserSaid(text="y" * size)) for size in (10, 15_000, 15_000, 15_000)),
        return_exceptions=True,
    )
    say("together", [type(result).__name__ for result in results])
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    recorded = await journal.append(UserSaid(text="space again"))
    say("again", recorded[0].seq == await journal.last_seq(), (await journal.verify()).problem == "")
    await journal.close()


if __name__ == "__main__":
    asyncio.run(globals()[sys.argv[1]](*sys.argv[2:]))
