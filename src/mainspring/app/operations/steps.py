"""What was run without an agent, from the journals of steps. `mainspring.app.build.run_step` runs one."""

from __future__ import annotations

from mainspring.app import steps
from mainspring.app.steps import StepRecord, newest_steps
from mainspring.app.stores import steps_of
from mainspring.catalog import reading
from mainspring.errors import UnknownSession, UsageError
from mainspring.settings import Config


async def list_steps(config: Config, *, limit: int) -> list[StepRecord]:
    """The newest steps."""
    return await newest_steps(steps_of(config), limit)


async def load_step(config: Config, step: str) -> StepRecord:
    """The one step whose id begins so."""
    store = steps_of(config)
    try:
        found = await steps.load_step(store, await store.find(step))
    except UnknownSession as error:
        raise UsageError(f"There is no command {step}.", remedy="`mainspring execs` lists them.") from error
    if found is None:
        raise UsageError(f"The record of command {step} is empty.")
    return found


async def load_output(config: Config, step: StepRecord) -> tuple[bytes, bytes]:
    """All that a step wrote to its standard output and to its standard error."""
    async with reading(steps_of(config), step.id) as reader:
        stdout = await reader.get(step.stdout) if step.stdout else b""
        return stdout, await reader.get(step.stderr) if step.stderr else b""
