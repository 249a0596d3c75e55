"""Has the pages of many files written, some side by side, and stops when the budget or the model is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import msgspec

from mainspring.errors import ELSEWHERE, AuthFailed, ModelError, ModelUnknown
from mainspring.events import DocsEnded
from mainspring.forge.ask import OutOfBudget
from mainspring.forge.drafts import PageDrafter
from mainspring.forge.fold import DocsFold, PageState
from mainspring.forge.sources import ChosenSources
from mainspring.forge.values import SourceFile
from mainspring.turns.runtime import Runtime

_OF_ALL = (*ELSEWHERE, AuthFailed, ModelUnknown)
"""Errors that the next page would meet as well."""


class DocsStop(msgspec.Struct, frozen=True):
    """Why a run ended before all pages have a verdict."""

    message: str
    remedy: str = ""
    is_budget: bool = False


class DocsProgress(msgspec.Struct, frozen=True):
    """A file that begins (without a standing) or has its verdict, and how many of how many have one."""

    path: str
    done: int
    total: int
    standing: str = ""
    why: str = ""


class PageRun:
    def __init__(
        self,
        runtime: Runtime,
        fold: DocsFold,
        chosen: ChosenSources,
        *,
        tries: int,
        on_progress: Callable[[DocsProgress], None],
    ) -> None:
        self._runtime = runtime
        self._fold = fold
        self._drafter = PageDrafter(runtime, fold, chosen.names, tries)
        self._on_progress = on_progress
        self.todo = [file for file in chosen.files if self._is_open(file)]
        self._files = chosen.files
        self._done = 0
        self.stop: DocsStop | None = None

    def _is_open(self, file: SourceFile) -> bool:
        return self._fold.page(file.path, file.sha256).standing == "unfinished"

    async def run(self, at_once: int) -> DocsEnded:
        """Works on so many files at a time; what came of all is on record at the end."""
        waiting = iter(self.todo)
        async with asyncio.TaskGroup() as group:
            for _ in range(min(at_once, len(self.todo))):
                group.create_task(self._work(waiting))
        standings = [self._fold.page(file.path, file.sha256).standing for file in self._files]
        ended = DocsEnded(
            approved=standings.count("approved"),
            rejected=standings.count("rejected"),
            person=standings.count("person"),
            undone=standings.count("unfinished"),
            why=self.stop.message if self.stop else "",
        )
        await self._runtime.record(ended)
        return ended

    async def _work(self, waiting: Iterator[SourceFile]) -> None:
        while self.stop is None and (file := next(waiting, None)):
            self._tell(file, None)
            try:
                state = await self._drafter.finish(file)
            except OutOfBudget as error:
                self.stop = DocsStop(error.message, error.remedy, is_budget=True)
                return
            except _OF_ALL as error:
                self.stop = DocsStop(error.message, error.remedy)
                return
            except ModelError as error:
                state = await self._drafter.give_up(file, f"the model gave no reply: {error.message}")
            self._done += 1
            self._tell(file, state)

    def _tell(self, file: SourceFile, state: PageState | None) -> None:
        standing, why = (state.standing, state.why) if state else ("", "")
        self._on_progress(DocsProgress(file.path, self._done, len(self.todo), standing, why))
