"""The lowest rung: plain processes in our custody, confined by nothing but limits.

Only a person may choose it. What it promises is custody: the whole tree ends with the command's time.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from mainspring.sandbox import Command, CommandResult, OnOutput
from mainspring.sandbox.background import Background
from mainspring.sandbox.environment import fresh
from mainspring.sandbox.launch import Custody, Launch, refused
from mainspring.sandbox.limits import rlimits


class PlainSandbox:
    """`environment` is the host's, of which an allow-list is passed on."""

    name = "none"
    is_containing = False
    is_containing_background = False
    has_own_pids = False

    def __init__(self, *, environment: Mapping[str, str]) -> None:
        self._host = environment
        self._custody = Custody()

    async def run(self, command: Command, on_output: OnOutput | None = None) -> CommandResult:
        launch = self._launch(command)
        if isinstance(launch, CommandResult):
            return launch
        return await self._custody.run(launch, command, on_output)

    async def start(self, command: Command, folder: Path, *, is_terminal: bool = False) -> Background:
        launch = self._launch(command)
        return await self._custody.keep(launch, command, folder, is_terminal=is_terminal)

    async def end_left(self) -> None:
        await self._custody.end_left()

    async def close(self) -> None:
        await self._custody.close()

    def _launch(self, command: Command) -> Launch | CommandResult:
        env = fresh(self._host, command.env)
        program = find_program(command, env)
        if isinstance(program, CommandResult):
            return program
        return Launch(
            argv=(program, *command.argv[1:]),
            env=env,
            cwd=str(command.cwd),
            rlimits=rlimits(command.limits, has_memory_cgroup=False, has_pids_cgroup=False),
        )


def find_program(command: Command, env: Mapping[str, str]) -> str | CommandResult:
    """The program's path, or what a shell would say of one that is not there."""
    name = command.argv[0] if command.argv else ""
    if any("\0" in text for text in (*command.argv, str(command.cwd), *env, *env.values())):
        return refused(name.replace("\0", "\\0"), "a NUL byte in the command", 126)
    if "/" in name:
        return str(Path(command.cwd, name))
    found = shutil.which(name, path=env.get("PATH", ""))
    return found or refused(name or "''", "command not found", 127)
