"""A process that writes session `one` of a Postgres store until it is no longer its owner."""

import asyncio
import sys
from pathlib import Path

from mainspring.catalog.postgres import PostgresSessions
from mainspring.errors import JournalOwned
from mainspring.events import UserSaid
from mainspring.journal.postgres.connection import StoreAddress


async def main(url: str, lease_s: str, home: str) -> None:
    journal = await PostgresSessions(StoreAddress(url, float(lease_s)), Path(home)).open("one")
    try:
        for _ in range(1_000_000):
            recorded = await journal.append(UserSaid(text="by the worker"))
            print(recorded[-1].seq, flush=True)
    except JournalOwned:
        print("lost", flush=True)
    await journal.close()


asyncio.run(main(*sys.argv[1:]))
