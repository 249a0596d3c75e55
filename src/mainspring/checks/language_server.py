"""One language server of a session: started when first asked, and again, a few times, when it ended or did
not answer. It looks at one document after the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from mainspring.checks import ConfinedBy, NotChecked
from mainspring.checks.diagnostics import findings_in
from mainspring.checks.programs import settings_folder
from mainspring.checks.server_facts import ServerFacts
from mainspring.checks.server_process import LanguageServerProcess
from mainspring.errors import SandboxError
from mainspring.events import CheckFinding
from mainspring.events.decoding import DECODE_ERRORS
from mainspring.sandbox.policy import Confinement

LIMIT_S = 60.0
_MAX_STARTS = 3
T = TypeVar("T")


class LanguageServer:
    """A checker for the files of its languages: those whose nearest settings lie in the folder `root` of the
    workspace; None for one that looks for the settings of each file by itself."""

    def __init__(
        self,
        facts: ServerFacts,
        program: Path,
        confinement: Confinement,
        sandbox: ConfinedBy,
        root: str | None = "",
    ) -> None:
        self.name = facts.name
        self._facts = facts
        self._root = root
        self._program = program
        self._confinement = confinement
        self._sandbox = sandbox
        self._turn = asyncio.Lock()
        self._process: LanguageServerProcess | None = None
        self._starts = 0

    def takes(self, path: str) -> bool:
        if not path.endswith(self._facts.suffixes):
            return False
        folder = settings_folder(self._facts, self._confinement.workspace, path)
        return folder is not None if self._root is None else folder == self._root

    async def findings(self, path: str, content: bytes) -> Sequence[CheckFinding]:
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError as error:
            raise NotChecked("it is not UTF-8") from error
        async with self._turn:
            return await self._ask(lambda process: process.diagnose(path, text), self._read)

    @property
    def knows_symbols(self) -> bool:
        return not self._facts.is_linter

    async def ask(
        self, path: str, text: str, method: str, params: Mapping[str, Any], read: Callable[[Any], T]
    ) -> T:
        """What `read` makes of the answer to a question about a file that holds this text."""
        async with self._turn:
            return await self._ask(lambda process: process.ask_about(path, text, method, params), read)

    def changed(self, kinds: Mapping[str, int]) -> None:
        """Hears which files were made (1), changed (2) or deleted (3)."""
        if self._process and not self._process.is_over:
            self._process.changed({path: kind for path, kind in kinds.items() if self.takes(path)})

    async def close(self) -> None:
        if self._process:
            await self._process.end()
            self._process = None

    def _read(self, items: list[Any]) -> list[CheckFinding]:
        return findings_in(self.name, items)

    async def _ask(
        self, work: Callable[[LanguageServerProcess], Awaitable[Any]], read: Callable[[Any], T]
    ) -> T:
        """What an answer of the server means; one that does not answer is ended."""
        try:
            async with asyncio.timeout(LIMIT_S):
                return read(await work(await self._started()))
        except TimeoutError as error:
            await self.close()
            raise NotChecked(f"no answer within {LIMIT_S:g} s") from error
        except DECODE_ERRORS as error:
            raise NotChecked("its answer cannot be read") from error

    async def _started(self) -> LanguageServerProcess:
        if self._process is None or self._process.is_over:
            await self.close()
            if self._starts >= _MAX_STARTS:
                raise NotChecked(f"it ended {self._starts} times; it is not started again")
            self._starts += 1
            try:
                sandbox = await self._sandbox()
            except SandboxError as error:
                raise NotChecked(error.message) from error
            self._process = LanguageServerProcess(
                self._facts, self._program, self._confinement, sandbox, self._root or ""
            )
        await self._process.begun()
        return self._process
