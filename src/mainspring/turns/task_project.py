"""What is known of the project that a task is about: above all, the command that runs its tests."""

from __future__ import annotations

import asyncio

from mainspring.events import UserSaid
from mainspring.turns.runtime import Runtime
from mainspring.workspace.project import Project, asked_test, look_at


async def project_of(runtime: Runtime, task: str) -> Project:
    """What is known of the project; the test command that a task gives comes before its own."""
    return asked_test(await asyncio.to_thread(look_at, runtime.state.workspace), task)


async def project_of_turn(runtime: Runtime) -> Project:
    """The same, with the task of the open turn."""
    said = await runtime.journal.last("UserSaid")
    task = said.event.text if said and isinstance(said.event, UserSaid) else ""
    return await project_of(runtime, runtime.recorder.vault.expand(task))
