"""What checks say of the files that a session changed, and what they took, read from its journal."""

from __future__ import annotations

import msgspec

from mainspring.app.operations.sessions import journal_of
from mainspring.events import (
    ChangesChecked,
    CheckedFile,
    CheckFinding,
    CheckTime,
    Event,
    ReviewEnded,
    SuiteEnded,
)
from mainspring.journal import JournalReader, events_in
from mainspring.settings import Config
from mainspring.workspace.coverage import BY as COVERAGE

_KINDS = ("ChangesChecked", "SuiteEnded", "ReviewEnded")


class ChecksOverview(msgspec.Struct, frozen=True, kw_only=True):
    """All that was checked; `duration_s` is what that took, in so many `rounds`. `times` has it by check
    (they run beside each other, so their sum may be more), with `tests` that ran by themselves. `cost_usd` is
    what reviews took; other checks cost nothing. Of `lines` that can run the tests `reached` so many when all
    of them last ran; `untested` are changed lines that no test runs, None where nobody knows."""

    session: str
    files: tuple[CheckedFile, ...] = ()
    not_checked: tuple[str, ...] = ()
    rounds: int = 0
    duration_s: float = 0.0
    times: tuple[CheckTime, ...] = ()
    cost_usd: float = 0.0
    lines: int = 0
    reached: int = 0
    untested: int | None = None


class _Fold:
    """What stands now; a later look of a check replaces an earlier one."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, tuple[CheckFinding, ...]]] = {}
        self.unchecked: dict[str, None] = {}
        self.times: dict[str, float] = {}
        self.rounds, self.duration_s, self.cost_usd = 0, 0.0, 0.0
        self.lines = self.reached = 0

    def add(self, event: Event) -> None:
        match event:
            case ChangesChecked():
                self._add_checked(event)
            case SuiteEnded():
                self._spend("tests", event.duration_s)
                if event.lines:
                    self.lines, self.reached = event.lines, event.reached
            case ReviewEnded():
                self.cost_usd += event.cost_usd
            case _:
                pass

    def _add_checked(self, event: ChangesChecked) -> None:
        self.rounds, self.duration_s = self.rounds + 1, self.duration_s + event.duration_s
        self.unchecked |= dict.fromkeys(event.not_checked)
        for each in event.times:
            self._spend(each.by, each.duration_s)
        for file in event.files:
            by_check = self.found.setdefault(file.path, {})
            for by in file.by:
                by_check[by] = tuple(each for each in file.findings if each.by == by)

    def _spend(self, by: str, duration_s: float) -> None:
        self.times[by] = self.times.get(by, 0.0) + duration_s

    def overview(self, session: str) -> ChecksOverview:
        files = [
            CheckedFile(
                path=path, by=tuple(sorted(by)), findings=tuple(each for one in by.values() for each in one)
            )
            for path, by in self.found.items()
        ]
        times = sorted(self.times.items(), key=lambda each: (-each[1], each[0]))
        return ChecksOverview(
            session=session,
            files=tuple(files),
            not_checked=tuple(self.unchecked),
            rounds=self.rounds,
            duration_s=round(self.duration_s, 6),
            times=tuple(CheckTime(by, round(spent, 6)) for by, spent in times),
            cost_usd=self.cost_usd,
            lines=self.lines,
            reached=self.reached,
            untested=self._untested(),
        )

    def _untested(self) -> int | None:
        measured = [by[COVERAGE] for by in self.found.values() if COVERAGE in by]
        if not measured:
            return None
        return sum(
            each.last_line - each.line + 1
            for findings in measured
            for each in findings
            if each.rule == "untested"
        )


async def checks_of(config: Config, session: str) -> ChecksOverview:
    """What stands now against the files of a session."""
    async with journal_of(config, session) as reader:
        return await standing_checks(reader)


async def standing_checks(reader: JournalReader) -> ChecksOverview:
    """The same of a journal that is open."""
    fold = _Fold()
    async for recorded in events_in(reader, kinds=_KINDS):
        fold.add(recorded.event)
    return fold.overview(reader.session)
