"""The commands that an agent asks us to run: in the session's own sandbox, not in the agent's."""

from __future__ import annotations

import asyncio
import shlex
from pathlib import Path

from mainspring.errors import SandboxError
from mainspring.sandbox import Command, Sandbox
from mainspring.sandbox.output import HeadAndTail

_LIFE_S = 24 * 3600.0
_USUAL_OUTPUT = 1024 * 1024


class Terminal:
    """One command; its output so far, and its exit code once it has one."""

    def __init__(self, output_bytes: int | None) -> None:
        self._output = HeadAndTail(min(output_bytes or _USUAL_OUTPUT, _USUAL_OUTPUT))
        self.exit_code: int | None = None
        self.is_over = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    @property
    def output(self) -> str:
        return self._output.text().decode(errors="replace")

    @property
    def is_truncated(self) -> bool:
        return self._output.dropped > 0

    async def run(self, sandbox: Sandbox, argv: tuple[str, ...], cwd: Path, env: dict[str, str]) -> None:
        noted = self._output.total
        command = Command(argv=argv, cwd=cwd, env=env, timeout_s=_LIFE_S, is_whole=True)
        try:
            done = await sandbox.run(command, self._output.feed)
            self.exit_code = done.exit_code
            if done.stderr and self._output.total == noted:
                self._output.feed(done.stderr)
        except SandboxError as error:
            self._output.feed(str(error).encode())
            self.exit_code = 126
        finally:
            self.is_over.set()

    def note(self, text: str) -> None:
        """Says something of ours before the command does."""
        self._output.feed(text.encode(errors="replace"))

    def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()


def argv_of(command: str, args: list[str] | None) -> tuple[str, ...]:
    """Agents send a program with its arguments, or a whole line for a shell."""
    is_line = not args and any(map(str.isspace, command))
    return ("/bin/sh", "-c", command) if is_line else (command, *(args or ()))


def line_of(command: str, args: list[str] | None) -> str:
    """The command as a policy judges it."""
    return shlex.join((command, *args)) if args else command
