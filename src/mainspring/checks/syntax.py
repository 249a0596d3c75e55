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

from mainspring.checks import Checker, ConfinedBy, NotChecked
from mainspring.checks.grammars import GRAMMARS, is_readable
from mainspring.checks.security_rules import MESSAGES, has_rules, rules_for
from mainspring.checks.settings import ChecksSettings
from mainspring.errors import SandboxError
from mainspring.events import SYNTAX, CheckFinding
from mainspring.sandbox import Command, CommandResult, Sandbox
from mainspring.sandbox.policy import Confinement
from mainspring.sandbox.programs import confined_to_reading

_PROGRAM = Path(__file__).with_name("grammars.py")
_LIFE_S = 30 * 24 * 3600.0
_PATIENCE_S = 5.0
"""How long an edit waits for its file to be read."""


class Syntax:
    """The first rung. `sandbox` gives where the reader runs."""

    name = SYNTAX

    def __init__(
        self, confinement: Confinement, sandbox: ConfinedBy, *, patience_s: float = _PATIENCE_S
    ) -> None:
        self._policy = confinement
        self._sandbox = sandbox
        self._patience_s = patience_s
        self._reader: _Reader | None = None
        self._turn = asyncio.Lock()

    def takes(self, path: str) -> bool:
        return is_readable(path)

    async def findings(self, path: str, content: bytes) -> Sequence[CheckFinding]:
        return [
            CheckFinding(by=self.name, rule=self.name, line=line, message=message)
            for line, message in await self._ask("syntax", path, content)
        ]

    async def close(self) -> None:
        if self._reader:
            await self._reader.end()
            self._reader = None

    async def complexities(self, path: str, content: bytes) -> list[tuple[int, str, int]]:
        """Each function with its line, its name, and in how many ways it can be gone through."""
        found = await self._ask("complexities", path, content)
        return [(line, name, count) for line, name, count in found]

    async def matches(
        self, path: str, content: bytes, queries: Sequence[tuple[str, str]]
    ) -> list[tuple[int, str]]:
        """The lines where named queries find something, with the names."""
        found = await self._ask("matches", path, content, queries)
        return [(line, name) for line, name in found]

    async def symbols(self, path: str, content: bytes) -> Any:
        """What a file defines, uses and imports, as `code_symbols` says it."""
        return await self._ask("symbols", path, content)

    async def outline(self, path: str, content: bytes) -> dict[str, Any]:
        """What a file defines: `outlines` says in which form."""
        return await self._ask("outline", path, content)

    async def _ask(self, about: str, path: str, content: bytes, *given: Any) -> Any:
        request = {"path": path, "size": len(content), "about": about, "given": given}
        async with self._turn:
            answer = await self._answer(json.dumps(request).encode() + b"\n" + content)
        if "not_checked" in answer:
            raise NotChecked(answer["not_checked"])
        return answer["found"]

    async def _answer(self, request: bytes) -> dict[str, Any]:
        if self._reader is None:
            try:
                self._reader = _Reader(await self._sandbox(), self._policy)
            except SandboxError as error:
                raise NotChecked(error.message) from error
        try:
            async with asyncio.timeout(self._patience_s):
                return await self._reader.ask(request)
        except TimeoutError as error:
            await self.close()
            raise NotChecked(f"reading it took more than {self._patience_s:g} s") from error
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


class Security:
    """What a change brings that may let others in, by rules of ours."""

    name = "security"

    def __init__(self, syntax: Syntax) -> None:
        self._syntax = syntax

    def takes(self, path: str) -> bool:
        return has_rules(path)

    async def findings(self, path: str, content: bytes) -> Sequence[CheckFinding]:
        queries = rules_for(PurePosixPath(path).suffix.lower())
        return [
            CheckFinding(by=self.name, rule=name, line=line, message=MESSAGES[name], severity="warning")
            for line, name in await self._syntax.matches(path, content, queries)
        ]


def parsing_checks(syntax: Syntax, settings: ChecksSettings) -> list[Checker]:
    """The checks by the same process that the settings want."""
    complexity = Complexity(syntax, settings.max_complexity)
    return [syntax, complexity, *([Security(syntax)] if settings.security == "on" else [])]


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

    async def ask(self, request: bytes) -> dict[str, Any]:
        self._asking = asyncio.create_task(asyncio.to_thread(self._exchange, request))
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
