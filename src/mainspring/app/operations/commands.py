"""What was run without an agent, from their journals. `mainspring.app.step.run_command` runs one."""

from __future__ import annotations

from mainspring.app.commands import CommandRecord, newest_commands
from mainspring.app.commands import load_command as load_record
from mainspring.app.stores import commands_of
from mainspring.catalog import reading
from mainspring.errors import UnknownSession, UsageError
from mainspring.settings import Config

__all__ = ["CommandRecord", "list_commands", "load_command", "load_output"]


async def list_commands(config: Config, *, limit: int) -> list[CommandRecord]:
    """The newest commands."""
    return await newest_commands(commands_of(config), limit)


async def load_command(config: Config, command: str) -> CommandRecord:
    """The one command whose id begins so."""
    store = commands_of(config)
    try:
        found = await load_record(store, await store.find(command))
    except UnknownSession as error:
        raise UsageError(
            f"There is no command {command}.", remedy="`mainspring execs` lists them."
        ) from error
    if found is None:
        raise UsageError(f"The record of command {command} is empty.")
    return found


async def load_output(config: Config, command: CommandRecord) -> tuple[bytes, bytes]:
    """All that a command wrote to its standard output and to its standard error."""
    async with reading(commands_of(config), command.id) as reader:
        stdout = await reader.get(command.stdout) if command.stdout else b""
        return stdout, await reader.get(command.stderr) if command.stderr else b""
