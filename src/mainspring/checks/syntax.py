"""Whether a file can be read as what its name says: any language alike, by `grammars`, which runs confined as
one process for a session. A file that crashes it or takes too long is not checked, and that is told."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from mainspring.checks import ConfinedBy, NotChecked
from mainspring.checks.grammars import GRAMMARS, is_readable
from mainspring.errors import SandboxError
from mainspring.events import CheckFinding
from mainspring.sandbox import Command, CommandResult, Sandbox
from mainspring.sandbox.policy import Confinement
from mainspring.sandbox.programs import confined_to_reading

_PROGRAM = Path(__file__).with_name("grammars.py")
_LIFE_S = 30 * 24 * 3600.0
_PATIENCE_S = 5.0


class Syntax:
    """The first rung. `sandbox` gives where the reader runs."""

    name = "syntax"

    def __init__(self, confinement: Confinement, sandbox: ConfinedBy) -> None:
        self._policy = confinement
        self._sandbox = sandbox
        self._reader: _Reader | None = None
        self._turn = asyncio.Lock()

    def takes(self, path: str) -> bool:
        return is_readable(path)

    async def findings(self, path: str, content: bytes) -> Sequence[CheckFinding]:
        async with self._turn:
            answer = await self._ask(path, content)
        if "not_checked" in answer:
            raise NotChecked(answer["not_checked"])
        return [
            CheckFinding(by=self.name, rule=self.name, line=line, message=message)
            for line, message in answer["found"]
        ]

    async def close(self) -> None:
        if self._reader:
            await self._reader.end()
            self._reader = None

    async def complexities(self, path: str, content: bytes) -> list[tuple[int, str, int]]:
        """Each function with its line, its name, and in how many ways it can be gone through."""
        async with self._turn:
            answer = await self._ask(path, content, is_about_complexity=True)
        if "not_checked" in answer:
            raise NotChecked(answer["not_checked"])
        return [(line, name, count) for line, name, count in answer["found"]]

    async def _ask(self, path: str, content: bytes, *, is_about_complexity: bool = False) -> dict[str, Any]:
        if self._reader is None:
            try:
                self._reader = _Reader(await self._sandbox(), self._policy)
            except SandboxError as error:
                raise NotChecked(error.message) from error
        try:
            async with asyncio.timeout(_PATIENCE_S):
                return await self._reader.ask(path, content, is_about_complexity=is_about_complexity)
        except TimeoutError as error:
            await self.close()
            raise NotChecked(f"reading it took more than {_PATIENCE_S:g} s") from error
        except _Ended as error:
            await self.close()
            raise NotChecked(f"its parser ended: {error}") from error


class Complexity:
    """Functions that can be gone through in more ways than `most`."""

    name = "complexity"

    def __init__(self, syntax: Syntax, most: int) -> None:
        self._syntax = syntax
        self._most = most

    def takes(self, path: str) -> bool:
        return self._most > 0 and PurePosixPath(path).suffix.lower() in GRAMMARS

    async def findings(self, path: str, content: bytes) -> Sequence[CheckFinding]:
        return [
            CheckFinding(
                by=self.name,
                rule=self.name,
                line=line,
                message=f"`{name}` can be gone through in {count} ways (more than {self._most})",
                severity="warning",
            )
            for line, name, count in await self._syntax.complexities(path, content)
            if count > self._most
        ]


class _Ended(Exception):
    """How the reader ended."""


class _Reader:
    """The process, and the ends of its pipes."""

    def __init__(self, sandbox: Sandbox, policy: Confinement) -> None:
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        self._out: BinaryIO = os.fdopen(ours_out, "wb")
        self._in: BinaryIO = os.fdopen(ours_in, "rb")
        command = Command(
            argv=(sys.executable, "-I", str(_PROGRAM)),
            cwd=policy.workspace,
            timeout_s=_LIFE_S,
            policy=confined_to_reading(policy, Path(sys.prefix), Path(sys.base_prefix), _PROGRAM.parent),
            stdin=theirs_in,
            stdout=theirs_out,
            is_whole=True,
        )
        self._asking: asyncio.Task[bytes] | None = None
        self._task = asyncio.create_task(_run(sandbox, command, (theirs_in, theirs_out)))

    async def ask(self, path: str, content: bytes, *, is_about_complexity: bool) -> dict[str, Any]:
        request = {"path": path, "size": len(content), "is_about_complexity": is_about_complexity}
        head = json.dumps(request).encode() + b"\n"
        self._asking = asyncio.create_task(asyncio.to_thread(self._exchange, head + content))
        line = await asyncio.shield(self._asking)
        if not line:
            (result,) = await asyncio.gather(self._task, return_exceptions=True)
            how = result if isinstance(result, BaseException) else f"exit code {result.exit_code}"
            raise _Ended(how)
        return json.loads(line)

    async def end(self) -> None:
        """Ends the process; a thread that still reads from it comes back then."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if self._asking:
            await self._asking
        self._in.close()
        with suppress(OSError):  # what was not sent is of no use to anybody
            self._out.close()

    def _exchange(self, data: bytes) -> bytes:
        try:
            self._out.write(data)
            self._out.flush()
        except OSError:
            return b""  # it ended; the caller says how
        return self._in.readline()


async def _run(sandbox: Sandbox, command: Command, theirs: tuple[int, int]) -> CommandResult:
    """Runs it to its end; then nobody holds its pipes."""
    try:
        return await sandbox.run(command)
    finally:
        for fd in theirs:
            os.close(fd)
