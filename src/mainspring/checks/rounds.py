"""One round of looking at changed files: what waits to be looked at, what is being asked, what came of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import msgspec

from mainspring.checks import ChangeChecker, ChangedFile, Checker, NotChecked, new_findings
from mainspring.checks.syntax import Syntax
from mainspring.events import Blob, ChangesChecked, CheckedFile, CheckFinding, CheckTime, FileState


class WaitingFile(msgspec.Struct):
    """A file to be looked at: as it was when the session began, and as it is by the newest event."""

    path: str
    before: Blob | None
    state: FileState | None
    is_new: bool = False
    is_quiet: bool = False
    """Nothing is recorded unless something is found."""

    @property
    def content(self) -> str:
        return self.state.content_sha256 if self.state else ""


class _Timed(msgspec.Struct):
    """One check of one file, and how long it took once its turn came."""

    checker: Checker | ChangeChecker
    changed: ChangedFile
    first: asyncio.Task[list[CheckFinding]] | None
    spent_s: float = 0.0

    async def __call__(self) -> list[CheckFinding]:
        if self.first:
            await asyncio.wait([self.first])
            if not self.first.cancelled() and not self.first.exception() and self.first.result():
                return []
        began = time.monotonic()
        try:
            return await new_findings(self.checker, self.changed)
        finally:
            self.spent_s = time.monotonic() - began


class LateCheck(msgspec.Struct):
    file: WaitingFile
    checker: str
    task: asyncio.Task[list[CheckFinding]]
    began: float
    timed: _Timed


class CheckRound(msgspec.Struct):
    """What one round of looking came to: findings by file and check, and what was left out."""

    found: dict[str, dict[str, list[CheckFinding]]] = {}
    not_checked: list[str] = []
    times: dict[str, float] = {}

    def add(self, path: str, by: str, findings: list[CheckFinding]) -> None:
        self.found.setdefault(path, {})[by] = findings

    def event(self, duration_s: float, *, is_late: bool) -> ChangesChecked:
        files = [
            CheckedFile(
                path=path,
                by=tuple(sorted(by)),
                findings=tuple(sorted((each for one in by.values() for each in one), key=_order)),
            )
            for path, by in self.found.items()
        ]
        return ChangesChecked(
            files=tuple(files),
            not_checked=tuple(dict.fromkeys(self.not_checked)),
            duration_s=round(duration_s, 6),
            is_late=is_late,
            times=tuple(CheckTime(by, round(spent, 6)) for by, spent in sorted(self.times.items())),
        )


def started(
    file: WaitingFile, changed: ChangedFile, checkers: Sequence[Checker | ChangeChecker]
) -> list[LateCheck]:
    """The checks as tasks: linters wait for the syntax, and say nothing of what cannot even be read."""
    began = time.monotonic()
    tasks: list[LateCheck] = []
    for checker in checkers:
        first = tasks[0].task if tasks and tasks[0].checker == Syntax.name else None
        timed = _Timed(checker, changed, first)
        tasks.append(LateCheck(file, checker.name, asyncio.create_task(timed()), began, timed))
    return tasks


def collect(now: CheckRound, late: LateCheck) -> None:
    """What a linter found, or why it could not tell; a fault of ours is raised."""
    now.times[late.checker] = now.times.get(late.checker, 0.0) + late.timed.spent_s
    error = late.task.exception()
    if isinstance(error, NotChecked):
        now.not_checked.append(f"{late.file.path} by {late.checker}: {error}")
    else:
        found = late.task.result()
        if found or not late.file.is_quiet:
            now.add(late.file.path, late.checker, found)


def _order(finding: CheckFinding) -> tuple[bool, int]:
    return finding.severity != "error", finding.line
