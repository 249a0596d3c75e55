"""The index of a folder's repository: opened, brought up to date, asked. Who asks for it loads it."""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from mainspring.app.policies import confine, confinement_of
from mainspring.checks import NotChecked
from mainspring.checks.grammars import GRAMMARS, OUTLINED
from mainspring.checks.syntax import Syntax
from mainspring.disk.files import try_locked
from mainspring.errors import SandboxError
from mainspring.index import IndexDamaged, index_file
from mainspring.index.store import IndexStore
from mainspring.index.update import (
    DocumentText,
    IndexChange,
    NotIndexed,
    ReadSymbols,
    Updater,
)
from mainspring.sandbox import Sandbox
from mainspring.sandbox.files import Files
from mainspring.settings import Config
from mainspring.tools import ToolFailed
from mainspring.tools.documents import document_text
from mainspring.workspace.instructions import repository_root

Progress = Callable[[int, int], None]
_MAX_PARSERS = 4
_PATIENCE_S = 30.0
"""How long one file may take on a busy machine: what takes longer is not tried again until it changes."""
_SHELL = (".sh", ".bash")
_PACKAGES = ("pypdfium2", "docx", "python_calamine")


@cache
def installed_readers() -> str:
    """What can be read here, as a text: with another grammar, files are read anew."""
    modules = sorted({grammar.module for grammar in GRAMMARS.values()} | set(_PACKAGES))
    return " ".join(name for name in modules if find_spec(name))


def is_code(path: str) -> bool:
    suffix = PurePosixPath(path).suffix
    return suffix in OUTLINED or suffix in _SHELL


class _Place(msgspec.Struct, frozen=True):
    files: Files
    sandbox: Callable[[], Awaitable[Sandbox]]


class RepositoryIndex:
    """One repository's. Parsers start with the first file that must be read; close it."""

    def __init__(self, config: Config, folder: Path) -> None:
        self.root = repository_root(folder.resolve())
        self.file = index_file(config.home, self.root)
        self._config = config
        self._files = Files(confinement_of(self.root, "plan", config))
        self._parsers = [
            Syntax(self._files.policy, self._confined, patience_s=_PATIENCE_S)
            for _ in range(min(_MAX_PARSERS, os.cpu_count() or 1))
        ]
        self._sandbox: Sandbox | None = None
        self._refused: SandboxError | None = None
        self._turn = asyncio.Lock()

    @property
    def is_there(self) -> bool:
        return self.file.exists()

    def store(self) -> IndexStore:
        return IndexStore(self.file, installed_readers())

    async def update(
        self, on_progress: Progress = lambda _done, _all: None, max_s: float = math.inf
    ) -> IndexChange:
        """Reads what changed, and ranks again when something did; after `max_s` the rest is left."""
        return await self._updated(lambda updater: updater.update(), on_progress, time.monotonic() + max_s)

    async def refresh(self, on_progress: Progress = lambda _done, _all: None) -> IndexChange:
        """The same without ranking."""
        return await self._updated(lambda updater: updater.update(has_ranks=False), on_progress)

    async def update_files(self, *paths: str) -> IndexChange:
        """Only these files, by their paths in the repository."""
        return await self._updated(lambda updater: updater.update_files(paths))

    async def outline(self, path: str, content: bytes) -> dict[str, Any]:
        """What a file of this name and content defines, whether or not it is there; raises `NotChecked`."""
        return await self._parsers[0].outline(path, content)

    async def close(self) -> None:
        for each in self._parsers:
            await each.close()
        if self._sandbox:
            await self._sandbox.close()
            self._sandbox = None

    async def _updated(
        self,
        run: Callable[[Updater], Awaitable[IndexChange]],
        on_progress: Progress = lambda _done, _all: None,
        until_s: float = math.inf,
    ) -> IndexChange:
        with try_locked(self.file) as is_only:
            if not is_only:
                return IndexChange(is_busy=True)
            try:
                return await self._filled(run, on_progress, until_s)
            except IndexDamaged:
                return await self._filled(run, on_progress, until_s)

    async def _filled(
        self, run: Callable[[Updater], Awaitable[IndexChange]], on_progress: Progress, until_s: float
    ) -> IndexChange:
        self._refused = None
        with self.store() as store:
            place = _Place(self._files, self._confined)

            async def text_of(path: str, data: bytes, kind: str) -> str:
                try:
                    return await document_text(place, path, data, kind)
                except ToolFailed as error:
                    if self._refused:
                        raise NotIndexed(self._refused.message, is_passing=True) from error
                    raise

            reader: DocumentText = text_of
            parsers = [self._symbols_by(each) for each in self._parsers]
            made = Updater(self.root, self._files, store, parsers, is_code, reader, on_progress, until_s)
            return await run(made)

    async def _confined(self) -> Sandbox:
        async with self._turn:
            if self._refused:
                raise self._refused
            try:
                self._sandbox = self._sandbox or await confine("", self._files.policy, self._config)
            except SandboxError as error:
                self._refused = error
                raise
            return self._sandbox

    def _symbols_by(self, syntax: Syntax) -> ReadSymbols:
        async def read(path: str, content: bytes) -> Any:
            try:
                return await syntax.symbols(path, content)
            except NotChecked as error:
                raise NotIndexed(str(error), is_passing=self._refused is not None) from error

        return read


@asynccontextmanager
async def repository_index(config: Config, folder: Path) -> AsyncGenerator[RepositoryIndex]:
    index = RepositoryIndex(config, folder)
    try:
        yield index
    finally:
        await index.close()
