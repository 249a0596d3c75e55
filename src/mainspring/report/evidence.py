"""What shows that a goal is done, or not: checks, and the results that the agent cites; folded."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import msgspec

from mainspring.errors import JournalDamaged
from mainspring.events import Blob, CheckEnded, Evidence, GoalChecks, GoalSet, Recorded, WorkFinished
from mainspring.evidence.artifacts import Artifacts
from mainspring.evidence.loaded_files import deciding_files
from mainspring.journal import JournalReader
from mainspring.report.facts import CheckFacts, Cited, Finish, ReportFold, fact_of
from mainspring.report.iterations import Iterations

SHOWN_CHECKS = 60
SHOWN_REFUSALS = 20
SHOWN_FINISHES = 5
SHOWN_CLAIMS = 50
MAX_OUTPUT = 2000
_MAX_TEXT = 4000

_OLD_DOUBT = "named in a check, and changed by the agent itself"
"""How a doubt began that was recorded as a check that had passed, before there were grades."""

Condition = tuple[str, str]
"""The kind of a check, and the command, file, target or claims that it looks at."""


class Checks(ReportFold):
    """The fold: the newest look at each condition, and those that refused a done."""

    def __init__(self, iterations: Iterations) -> None:
        self.newest: dict[Condition, CheckFacts] = {}
        self._iterations = iterations
        self._failed: deque[CheckFacts] = deque(maxlen=SHOWN_REFUSALS)
        self._outputs: dict[str, Blob] = {}
        self._finished: deque[tuple[WorkFinished, int, int]] = deque(maxlen=SHOWN_FINISHES)
        self.total = 0
        self.failed_total = 0
        self.finished_total = 0
        self.handlers = {CheckEnded: self._check, WorkFinished: self._finish}

    def _check(self, event: CheckEnded, recorded: Recorded) -> None:
        if event.output:
            self._outputs[event.output.sha256] = event.output
        blob = event.output.sha256 if event.output else ""
        check = fact_of(CheckFacts, recorded, output="", output_blob=blob)
        self.newest[event.kind, event.check] = check
        self.total += 1
        if not event.passed:
            self._failed.append(check)
            self.failed_total += 1

    def _finish(self, event: WorkFinished, recorded: Recorded) -> None:
        self._finished.append((event, recorded.seq, self._iterations.number))
        self.finished_total += 1

    def grade_old(self, goal: GoalSet, artifacts: Artifacts, reported: frozenset[str]) -> None:
        """Grades what was recorded before there were grades, by what else is on record. A doubt was a check
        that had passed then: it is none."""
        doubts = [each for each, check in self.newest.items() if check.detail.startswith(_OLD_DOUBT)]
        own = {name for _, name in doubts}
        for condition in doubts:
            del self.newest[condition]
        frozen = [each.path for each in goal.evaluation.hashes]
        told = {
            f"{each.metric} {each.relation} {each.value:g}"
            for each in goal.checks.targets
            if each.metric in reported
        }
        for condition, check in self.newest.items():
            if check.grade or not check.passed:
                continue
            line = check.check if check.kind == "command" else ""
            line = goal.evaluation.command if check.kind == "target" else line
            work = goal.checks.files
            written = deciding_files(line, artifacts, lambda _: None, frozen=frozen, work=work).written
            written = tuple(sorted({*written, *(path for path in own if path in line)}))
            grade = "checked" if written or check.kind == "claims" else "verified"
            grade = "claimed" if check.kind == "target" and check.check in told else grade
            self.newest[condition] = msgspec.structs.replace(check, grade=grade, written=written)

    async def shown(self, journal: JournalReader) -> tuple[CheckFacts, ...]:
        """The newest look at each condition, what failed first, with the end of its output."""
        looked = sorted(self.newest.values(), key=lambda check: (check.passed, -check.seq))
        return tuple([await self._with_output(check, journal) for check in looked[:SHOWN_CHECKS]])

    async def refusals(self, journal: JournalReader) -> tuple[CheckFacts, ...]:
        """The looks that refused a done and are not the newest at their condition; the last ones first."""
        newest = {check.seq for check in self.newest.values()}
        past = [check for check in reversed(self._failed) if check.seq not in newest]
        return tuple([await self._with_output(check, journal) for check in past])

    def finishes(self) -> tuple[Finish, ...]:
        """What the agent said when it called itself done, the last first, with the results that it cites."""
        return tuple(
            Finish(
                seq=seq,
                iteration=iteration,
                summary=event.summary[:_MAX_TEXT],
                claims=tuple(self._cited(item) for item in event.evidence[:SHOWN_CLAIMS]),
            )
            for event, seq, iteration in reversed(self._finished)
        )

    async def _with_output(self, check: CheckFacts, journal: JournalReader) -> CheckFacts:
        if not check.output_blob:
            return check
        text, is_cut = await kept_text(journal, self._outputs[check.output_blob])
        return msgspec.structs.replace(check, output=text, is_output_cut=is_cut)

    def _cited(self, item: Evidence) -> Cited:
        results = {call: self._iterations.result(call) for call in item.calls}
        found = tuple(each for each in results.values() if each is not None)
        missing = [call for call, each in results.items() if each is None]
        doubt = ""
        if not item.calls:
            doubt = "It cites no recorded result."
        elif missing:
            doubt = f"No result of {', '.join(missing)} is on record."
        elif any(each.outcome != "ok" or each.exit_code for each in found):
            doubt = "A result that it cites is a failure."
        return Cited(claim=item.claim[:_MAX_TEXT], results=found, doubt=doubt)


async def kept_text(journal: JournalReader, blob: Blob | None) -> tuple[str, bool]:
    """The end of an output that was kept, and whether it is cut."""
    if blob is None:
        return "", False
    try:
        text = (await journal.get(blob)).decode("utf-8", "replace").strip()
    except JournalDamaged as error:
        text = f"(not readable any more: {error.message})"
    return text[-MAX_OUTPUT:], len(text) > MAX_OUTPUT


def wanted(checks: GoalChecks) -> tuple[Condition, ...]:
    """Every condition of being done that is named, as its check is recorded."""
    targets = (f"{each.metric} {each.relation} {each.value:g}" for each in checks.targets)
    named: Iterable[Condition] = (
        *(("command", line) for line in checks.commands),
        *(("file", name) for name in checks.files),
        *(("target", name) for name in targets),
    )
    return tuple(dict.fromkeys(named))
