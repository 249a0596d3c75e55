"""The command of a server that speaks on its standard streams: it runs in the sandbox, in our custody, with
the variables that it was given and no others but the usual ones.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from mainspring.errors import SandboxError
from mainspring.mcp.servers import McpServer
from mainspring.mcp.settings import McpServerSettings
from mainspring.sandbox import Command, CommandResult, Confinement, Sandbox
from mainspring.sandbox.environment import DEFAULT_PATH
from mainspring.sandbox.policy import Network
from mainspring.sandbox.programs import projects_of

_LIFE_S = 30 * 24 * 3600.0
_MAX_STDERR = 64 * 1024
_TAIL = 600
_TAIL_LINES = 3
_END_WITHIN_S = 2.0


class ServerProcess:
    def __init__(self, server: McpServer, policy: Confinement, environment: Mapping[str, str]) -> None:
        self._server = server
        self._environment = environment
        self._policy = policy
        self._stderr = b""
        self._task: asyncio.Task[CommandResult] | None = None

    @property
    def stderr_tail(self) -> str:
        lines = self._stderr.decode("utf-8", "replace").strip()[-_TAIL:].splitlines()
        told = [line.strip() for line in lines if "error" in line.lower()]  # a runtime may say more after it
        return told[-1] if told else " / ".join(line.strip() for line in lines[-_TAIL_LINES:])

    def start(self, sandbox: Sandbox) -> tuple[int, int]:
        """Starts it; gives the ends of its pipes to read from and to write to, which are the caller's."""
        given, writing = os.pipe()
        reading, printed = os.pipe()
        settings = self._server.settings
        command = Command(
            argv=(settings.command, *settings.args),
            cwd=self._policy.workspace,
            env=settings.env,
            timeout_s=_LIFE_S,
            policy=confinement_of(self._server, self._policy, self._environment),
            max_output_bytes=_MAX_STDERR,
            stdin=given,
            stdout=printed,
            is_whole=True,
        )
        self._task = asyncio.ensure_future(self._run(sandbox, command, (given, printed)))
        return reading, writing

    async def end(self) -> str:
        """Ends it with all that it started; says how it had ended by itself before, if it had."""
        if self._task is None:
            return ""
        is_over = self._task.done()
        if not is_over:
            self._task.cancel()
            await asyncio.wait([self._task], timeout=_END_WITHIN_S)
        if not is_over or self._task.cancelled():
            return ""
        if error := self._task.exception():
            return str(error)
        done = self._task.result()
        return f"it {done.stopped or f'ended with exit code {done.exit_code}'}"

    async def _run(self, sandbox: Sandbox, command: Command, theirs: tuple[int, int]) -> CommandResult:
        try:
            done = await sandbox.run(command, self._hear)
            if done.stderr and not self._stderr:
                self._stderr = done.stderr
            return done
        except SandboxError:
            raise
        finally:
            for descriptor in theirs:
                os.close(descriptor)

    def _hear(self, chunk: bytes) -> None:
        self._stderr = (self._stderr + chunk)[-_MAX_STDERR:]


def confinement_of(server: McpServer, policy: Confinement, environment: Mapping[str, str]) -> Confinement:
    """The session's own, with the network and the folders that the settings of a server give it. Its program
    can be read also where a sandbox has a folder of its own."""
    settings = server.settings
    folders = tuple(Path(folder).expanduser().resolve() for folder in settings.writable)
    programs = projects_of(_programs_of(settings, environment), policy)
    return msgspec.structs.replace(
        policy,
        network=Network("full") if settings.network else policy.network,
        writable=(*policy.writable, *folders),
        readable=(*policy.readable, *folders, *programs),
    )


def _programs_of(settings: McpServerSettings, environment: Mapping[str, str]) -> Iterator[Path]:
    """The program that is started, and absolute paths among its arguments, also in the text of a shell."""
    search = settings.env.get("PATH", environment.get("PATH", DEFAULT_PATH))
    if found := shutil.which(settings.command, path=search):
        yield Path(found)
    for argument in settings.args:
        try:
            words = shlex.split(argument)
        except ValueError:  # no text of a shell
            words = [argument]
        yield from (Path(word) for word in (argument, *words) if word.startswith("/"))
