"""Shell programs on another machine over ssh, or on this one, in our custody and outside of the sandbox."""

from __future__ import annotations

import os
import shlex
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from mainspring.errors import JobHostError
from mainspring.sandbox import Command, CommandResult, OnOutput, Sandbox

_UNREACHABLE = 255
_KEPT_BYTES = 4 * 1024 * 1024
_DIGITS = 18
_SSH = (
    "ssh",
    "-T",
    "-o",
    "BatchMode=yes",
    "-o",
    "ConnectTimeout=15",
    "-o",
    "ServerAliveInterval=15",
    "-o",
    "ServerAliveCountMax=4",
)
"""Nobody is there to type a password or to accept an unknown machine."""


class HostShell:
    """`outside` is where our own commands run; `destination` is what ssh takes, empty for this machine."""

    def __init__(
        self,
        outside: Callable[[], Awaitable[Sandbox]],
        environment: Mapping[str, str],
        destination: str,
        ssh_options: tuple[str, ...] = (),
    ) -> None:
        self._outside = outside
        self._agent = {name: environment[name] for name in ("SSH_AUTH_SOCK",) if name in environment}
        self._destination = destination
        self._options = ssh_options
        self._sandbox: Sandbox | None = None

    @property
    def place(self) -> str:
        return self._destination or "this machine"

    async def run(
        self,
        program: str,
        *arguments: str,
        stdin: Path | None = None,
        stdout: Path | None = None,
        timeout_s: float = 120.0,
    ) -> CommandResult:
        """Runs a POSIX shell program there, with a file as its input, or for its output. Its own exit code is
        a value; raises `JobHostError` when the machine cannot be reached."""
        source = os.open(stdin, os.O_RDONLY | os.O_CLOEXEC) if stdin else -1
        target = os.open(stdout, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600) if stdout else -1
        try:
            done = await self._run(program, arguments, source, target, timeout_s)
        finally:
            for descriptor in (source, target):
                if descriptor >= 0:
                    os.close(descriptor)
        if done.stopped or (self._destination and done.exit_code == _UNREACHABLE):
            why = done.stopped or last_line(done.stderr) or "ssh failed"
            raise JobHostError(
                f"{self.place} cannot be reached: {why}.",
                remedy=f"Try it by hand: ssh {shlex.join([*self._options, self._destination])}",
            )
        return done

    async def follow(
        self, program: str, *arguments: str, stdin: int, timeout_s: float, on_output: OnOutput
    ) -> CommandResult:
        """Runs one whose output is seen as it comes, as long as a descriptor has input; that the machine
        cannot be reached is a value here, as the exit code of ssh."""
        return await self._run(program, arguments, stdin, -1, timeout_s, on_output)

    async def _run(
        self,
        program: str,
        arguments: tuple[str, ...],
        source: int,
        target: int,
        timeout_s: float,
        on_output: OnOutput | None = None,
    ) -> CommandResult:
        argv = ("sh", "-c", program, "sh", *arguments)
        if self._destination:
            argv = (*_SSH, *self._options, "--", self._destination, shlex.join(argv))
        self._sandbox = self._sandbox or await self._outside()
        command = Command(
            argv=argv,
            cwd=Path("/"),
            timeout_s=timeout_s,
            env=self._agent,
            max_output_bytes=_KEPT_BYTES,
            stdin=source,
            stdout=target,
        )
        return await self._sandbox.run(command, on_output)

    async def close(self) -> None:
        if self._sandbox is not None:
            await self._sandbox.close()
            self._sandbox = None


def number_of(text: str) -> int | None:
    """A number that the far side says, where a command can write what it wants; None when it is none."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _DIGITS else None


def check_silent(said: bytes, place: str) -> None:
    """Raises when a shell prints something: that would stand before every answer, and in archives."""
    if said.strip():
        raise JobHostError(
            f"The shell of {place} prints something when it begins: {last_line(said)!r}.",
            remedy="Only shells that somebody types in may: see .bashrc and the like there.",
            is_refused=True,
        )


def last_line(output: bytes) -> str:
    """The last line of what a program complained of."""
    lines = output.decode("utf-8", "replace").strip().splitlines()
    return lines[-1].strip().rstrip(".")[:500] if lines else ""
