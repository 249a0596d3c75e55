"""A process that waits, to be killed: `python waiter.py FOLDER WAIT`, where WAIT is a `WaitStarted` as JSON.

Prints the wait as it is on record, and then the end of it.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import msgspec

sys.path.append(str(Path(__file__).parents[2]))

from mainspring.events import WaitStarted
from mainspring.session.session import runtime_of
from mainspring.waits.hold import hold
from tests.waits.asleep import Asleep, until_open


async def main(folder: Path, started: WaitStarted) -> None:
    async with Asleep(folder).awake() as session, asyncio.TaskGroup() as group:
        holding = group.create_task(hold(runtime_of(session).waiting, started))
        print(msgspec.json.encode(await until_open(session, started.wait)).decode(), flush=True)
        print(msgspec.json.encode(await holding).decode(), flush=True)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), msgspec.json.decode(sys.argv[2], type=WaitStarted)))
