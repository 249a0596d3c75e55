"""What a session has of the index of its repository: answers of `symbols` where no language server knows
better, and the map in its first message. Where there is no index, or it is off, nothing of it is loaded."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from mainspring.events import Profile
from mainspring.index import IndexDamaged, IndexedSymbol, UsedAt, index_file
from mainspring.secrets.vault import Vault
from mainspring.settings import Config
from mainspring.tools.primer import SMALL_PROJECT
from mainspring.workspace.instructions import repository_root


def session_index(place: Path, config: Config) -> SessionIndex | None:
    """None where it is off, or `auto` and there is none."""
    wanted = config.settings.work.index
    is_used = wanted == "on" or (wanted == "auto" and _has_index(place, config))
    return SessionIndex(place, config) if is_used else None


def repository_map(place: Path, config: Config, profile: Profile) -> str:
    work = config.settings.work
    if work.index == "off" or not work.map_tokens or profile == "small" or not _has_index(place, config):
        return ""
    text: str = import_module("mainspring.app.operations.index").prompt_map(
        config, place, least_files=SMALL_PROJECT
    )
    return Vault(config.secrets).redact(text) if text else ""


def _has_index(place: Path, config: Config) -> bool:
    """Also one that is just being made."""
    file = index_file(config.home, repository_root(place.resolve()))
    return file.exists() or file.with_suffix(".begun").exists()


class SessionIndex:
    """Looks again at the files before each answer. Paths are those of the workspace."""

    def __init__(self, place: Path, config: Config) -> None:
        self._place, self._config = place.resolve(), config
        self._loaded: Any = None
        self.is_busy = False

    async def outline(self, path: str) -> list[IndexedSymbol]:
        return await self._asked("outline", lambda index: self._inside(index, path))

    async def definitions(self, name: str) -> list[IndexedSymbol]:
        return await self._asked("definitions", lambda _: name)

    async def references(self, name: str) -> list[UsedAt]:
        return await self._asked("references", lambda _: name.rpartition(".")[2])

    def path_here(self, path: str) -> str:
        """A path of the repository as the tools of the session take it."""
        root = repository_root(self._place)
        whole = root / path
        return str(whole.relative_to(self._place)) if whole.is_relative_to(self._place) else str(whole)

    async def close(self) -> None:
        if self._loaded is not None:
            await self._loaded.close()

    def _inside(self, index: Any, path: str) -> str:
        return os.path.relpath(self._place / path, index.root)

    async def _asked(self, question: str, about: Callable[[Any], str]) -> list[Any]:
        """One that turns out to be damaged is made again first."""
        index = await self._fresh()
        try:
            return await asyncio.to_thread(self._ask, index, question, about(index))
        except IndexDamaged:
            index = await self._fresh()
        return await asyncio.to_thread(self._ask, index, question, about(index))

    async def _fresh(self) -> Any:
        if self._loaded is None:
            module = import_module("mainspring.app.index")
            self._loaded = module.RepositoryIndex(self._config, self._place)
        self.is_busy = (await self._loaded.refresh()).is_busy
        return self._loaded

    @staticmethod
    def _ask(index: Any, question: str, about: str) -> Any:
        with index.store() as store:
            return getattr(store, question)(about)
