"""A real session that waits: real journal, real processes, looked at quickly so that tests are quick."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from mainspring.approvals import ModePolicy
from mainspring.events import Condition, StatusDelta, WaitEnded, WaitStarted
from mainspring.sandbox import Sandbox
from mainspring.sandbox.files import Files
from mainspring.sandbox.policy import policy
from mainspring.sandbox.rungs.process import PlainSandbox
from mainspring.secrets.vault import Vault
from mainspring.session.session import Session, runtime_of
from mainspring.waits.hold import hold
from mainspring.waits.reach import Pace, Reach
from tests.stage import Stage

QUICK = Pace(
    slice_s=0.2,
    status_s=0.05,
    stall_s=0.05,
    file_s=(0.01, 0.05),
    session_s=(0.01, 0.05),
    slurm_s=(0.01, 0.05),
    least_command_s=0.02,
    command_timeout_s=10,
)


async def plain(path: str = "") -> Sandbox:
    return PlainSandbox(environment={**os.environ, "PATH": path or os.environ["PATH"]})


class Asleep(Stage):
    """One session in one folder, with a workspace beside it. `path` is where outside programs are found."""

    def __init__(self, folder: Path, *, path: str = "", **reach: Any) -> None:
        super().__init__(folder / "home")
        self.work = folder / "work"
        self.work.mkdir(exist_ok=True, parents=True)
        self.folder = folder
        self.vault = Vault()
        self.reach = Reach(sessions=self.store, outside=partial(plain, path), **{"pace": QUICK, **reach})

    @asynccontextmanager
    async def awake(self, **changes: Any) -> AsyncIterator[Session]:
        async with self.opened(
            choose_sandbox=plain,
            policy=ModePolicy("yolo", max_cost_usd=1.0),
            workspace=str(self.work),
            files=Files(policy(self.work, home=self.folder / "user")),
            processes=self.folder / "processes",
            reach=self.reach,
            vault=self.vault,
            **changes,
        ) as session:
            yield session

    def wait(
        self,
        *conditions: Condition,
        meanwhile: Callable[[Session], Awaitable[None]] | None = None,
        **fields: Any,
    ) -> WaitEnded:
        """Opens the session and holds this wait; `meanwhile` is done once it is on record."""
        started = wanted(*conditions, **fields)

        async def held() -> WaitEnded:
            async with asyncio.timeout(60), self.awake() as session, asyncio.TaskGroup() as group:
                holding = group.create_task(hold(runtime_of(session).waiting, started))
                if meanwhile is not None:
                    await until_open(session, started.wait)
                    await meanwhile(session)
                return await holding

        return asyncio.run(held())

    def statuses(self, *conditions: Condition, count: int = 1, **fields: Any) -> list[str]:
        """The first status lines of a wait that is then stopped."""

        async def told() -> list[str]:
            lines: list[str] = []
            async with asyncio.timeout(60), self.awake() as session, asyncio.TaskGroup() as group:
                holding = group.create_task(hold(runtime_of(session).waiting, wanted(*conditions, **fields)))
                async for item in session.subscribe(deltas=True):
                    lines += [item.event.text] if isinstance(item.event, StatusDelta) else []
                    if len(lines) == count:
                        break
                holding.cancel()
            return lines

        return asyncio.run(told())


def wanted(*conditions: Condition, **fields: Any) -> WaitStarted:
    return WaitStarted(**({"wait": "w1", "conditions": conditions} | fields))


async def until_open(session: Session, wait: str) -> WaitStarted:
    """The wait as it stands on record."""
    while (known := session.state.waits.get(wait)) is None:
        await asyncio.wait({session.state.waits.stirring()})
    return known.started
