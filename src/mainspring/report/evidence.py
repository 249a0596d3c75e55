"""What shows that a goal is done, or not: checks, and the results that the agent cites; folded."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

import msgspec

from mainspring.errors import JournalDamaged
from mainspring.events import Blob, CheckEnded, Event, Evidence, GoalChecks, Recorded, WorkFinished
from mainspring.journal import JournalReader
from mainspring.report.facts import CheckFacts, Cited, CommandFacts, Finish, fact_of

SHOWN_CHECKS = 60
SHOWN_REFUSALS = 20
SHOWN_FINISHES = 5
SHOWN_CLAIMS = 50
MAX_OUTPUT = 2000
_MAX_TEXT = 4000

KINDS: tuple[type[Event], ...] = (CheckEnded, WorkFinished)
Condition = tuple[str, str]
"""The kind of a check, and the command, file, target or claims that it looks at."""


class _Looked(msgspec.Struct, frozen=True):
    """A look at a condition, and where its whole output is kept."""

    check: CheckFacts
    output: Blob | None


class Checks:
    """The fold: the newest look at each condition, and those that refused a done."""

    def __init__(self) -> None:
        self._newest: dict[Condition, _Looked] = {}
        self._failed: deque[_Looked] = deque(maxlen=SHOWN_REFUSALS)
        self._finished: deque[tuple[Recorded, int]] = deque(maxlen=SHOWN_FINISHES)
        self.total = 0
        self.failed_total = 0
        self.finished_total = 0

    def apply(self, recorded: Recorded, iteration: int) -> None:
        match recorded.event:
            case CheckEnded() as event:
                looked = _looked(recorded, event.output)
                self._newest[event.kind, event.check] = looked
                self.total += 1
                if not event.passed:
                    self._failed.append(looked)
                    self.failed_total += 1
            case WorkFinished():
                self._finished.append((recorded, iteration))
                self.finished_total += 1
            case _:
                pass

    @property
    def conditions(self) -> int:
        return len(self._newest)

    def newest(self) -> dict[Condition, CheckFacts]:
        return {condition: looked.check for condition, looked in self._newest.items()}

    async def shown(self, journal: JournalReader) -> tuple[CheckFacts, ...]:
        """The newest look at each condition, what failed first, with the end of its output."""
        looked = sorted(self._newest.values(), key=lambda each: (each.check.passed, -each.check.seq))
        return tuple([await _with_output(each, journal) for each in looked[:SHOWN_CHECKS]])

    async def refusals(self, journal: JournalReader) -> tuple[CheckFacts, ...]:
        """The looks that refused a done and are not the newest at their condition; the last ones first."""
        newest = {looked.check.seq for looked in self._newest.values()}
        past = [looked for looked in reversed(self._failed) if looked.check.seq not in newest]
        return tuple([await _with_output(each, journal) for each in past])

    def finishes(self, result: Callable[[str], CommandFacts | None]) -> tuple[Finish, ...]:
        """What the agent said when it called itself done, the last first, with the results that it cites."""
        return tuple(
            Finish(
                seq=recorded.seq,
                iteration=iteration,
                summary=recorded.event.summary[:_MAX_TEXT],
                claims=tuple(_cited(item, result) for item in recorded.event.evidence[:SHOWN_CLAIMS]),
            )
            for recorded, iteration in reversed(self._finished)
            if isinstance(recorded.event, WorkFinished)
        )


def wanted(checks: GoalChecks) -> tuple[Condition, ...]:
    """Every condition of being done that is named, as its check is recorded."""
    targets = (f"{each.metric} {each.relation} {each.value:g}" for each in checks.targets)
    named: Iterable[Condition] = (
        *(("command", line) for line in checks.commands),
        *(("file", name) for name in checks.files),
        *(("target", name) for name in targets),
    )
    return tuple(dict.fromkeys(named))


def _looked(recorded: Recorded, output: Blob | None) -> _Looked:
    blob = output.sha256 if output else ""
    return _Looked(fact_of(CheckFacts, recorded, output="", output_blob=blob), output)


async def _with_output(looked: _Looked, journal: JournalReader) -> CheckFacts:
    if looked.output is None:
        return looked.check
    text = await read_text(journal, looked.output)
    return msgspec.structs.replace(
        looked.check, output=text[-MAX_OUTPUT:], is_output_cut=len(text) > MAX_OUTPUT
    )


async def read_text(journal: JournalReader, blob: Blob) -> str:
    """A kept text; of one that cannot be read it says so."""
    try:
        return (await journal.get(blob)).decode("utf-8", "replace").strip()
    except JournalDamaged as error:
        return f"(not readable any more: {error.message})"


def _cited(item: Evidence, result: Callable[[str], CommandFacts | None]) -> Cited:
    results = {call: result(call) for call in item.calls}
    found = tuple(each for each in results.values() if each is not None)
    missing = [call for call, each in results.items() if each is None]
    failed = [each for each in found if each.outcome != "ok" or each.exit_code]
    doubt = ""
    if not item.calls:
        doubt = "It cites no recorded result."
    elif missing:
        doubt = f"No result of {', '.join(missing)} is on record."
    elif failed:
        doubt = "A result that it cites is a failure."
    return Cited(claim=item.claim[:_MAX_TEXT], results=found, doubt=doubt)
