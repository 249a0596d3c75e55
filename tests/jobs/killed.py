"""A process that submits a job and is killed where it is told: `planned` (before its host hears of it), `taken` (its
host has it, and that is not on record) or `submitted`; or that goes on.

    python -m tests.jobs.killed FOLDER [WHERE]
"""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from mainspring.app import session_jobs
from mainspring.catalog.sqlite import SqliteSessions
from mainspring.events import JobSubmitted
from mainspring.jobs import JobHost
from mainspring.jobs.hosts import open_host
from mainspring.testing import Stage, tool_call
from tests.jobs.stage import COMMAND, config_of, free


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Dying:
    """A host whose caller dies before it hears of a job, or when it has taken it."""

    def __init__(self, host: JobHost, where: str, folder: Path) -> None:
        self._host = host
        self._where = where
        self._folder = folder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._host, name)

    async def submit(self, spec: Any) -> Any:
        if self._where == "taken":
            await self._host.submit(spec)
            await job_ended(self._folder)
        die()


async def job_ended(folder: Path) -> None:
    """Jobs of the stand-in are ours, and would be ended with us."""
    while not list(folder.glob("jobs/*/exit")):
        await asyncio.sleep(0.02)


async def main(folder: Path, where: str) -> None:
    stage = Stage(
        folder,
        tool_call("submit_job", host="far", command=COMMAND, hours=1, outputs=["made"]),
        tool_call("job", action="wait", job="j1"),
        tool_call("job", action="collect", job="j1"),
        "Done.",
        sessions=SqliteSessions(folder / "store"),
    )
    known = await stage.sessions.names()
    stage.session = next(iter(known), "")
    if where in ("planned", "taken"):
        session_jobs.open_host = lambda *words: Dying(open_host(*words), where, folder)
    async with stage.open(**free(config_of(folder))) as session:
        async for recorded in session.watch("" if known else "go"):
            if where == "submitted" and isinstance(recorded.event, JobSubmitted):
                await job_ended(folder)
                die()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), (*sys.argv[2:], "")[0]))
