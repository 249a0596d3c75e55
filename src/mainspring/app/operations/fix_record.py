"""Where a fix stands, as its journal says: a fold, and what follows from it."""

from __future__ import annotations

from typing import Literal

import msgspec

from mainspring.context.history import read_all
from mainspring.errors import UsageError
from mainspring.events import (
    AttemptEnded,
    AttemptsEnded,
    AttemptsStarted,
    AttemptStarted,
    BranchMoved,
    CheckEnded,
    FaultReproduced,
    FixEnded,
    FixOutcome,
    FixStarted,
    HypothesisJudged,
    ModelChosen,
    Recorded,
    SuiteEnded,
)
from mainspring.journal import JournalReader
from mainspring.patterns import lazy_pattern
from mainspring.secrets.redaction import expanded
from mainspring.secrets.vault import Vault

BEFORE = 0
"""The iteration of checks that look at the files as they were before the first attempt."""
_KINDS = (
    "FixStarted", "FaultReproduced", "HypothesisJudged", "FixEnded", "CheckEnded", "AttemptsStarted",
    "AttemptStarted", "AttemptEnded", "AttemptsEnded", "ModelChosen", "SuiteEnded", "BranchMoved",
)  # fmt: skip
_NOT_FOUND = (126, 127)
_NO_TESTS = {4: "pytest does not know what it was given", 5: "pytest found no tests"}
_PYTEST = lazy_pattern(r"(?:^|[\s/])pytest(?:\s|$)")

Move = Literal["run", "locate", "attempt", "end"]


class FixAttempt(msgspec.Struct):
    """One attempt, with the model that made it and what it suspected."""

    attempt: int
    model: str
    seq: int
    ended: AttemptEnded | None = None
    checks: list[CheckEnded] = []
    hypotheses: list[HypothesisJudged] = []

    def apply(self, event: CheckEnded | HypothesisJudged | AttemptEnded) -> None:
        match event:
            case CheckEnded():
                self.checks.append(event)
            case HypothesisJudged():
                self.hypotheses.append(event)
            case AttemptEnded():
                self.ended = event


class Fix(msgspec.Struct):
    """`runs` are those of the command on the files as they were. `baseline` is what all tests of the project
    said of them."""

    session: str
    seq: int
    started: FixStarted
    model: str = ""
    runs: list[CheckEnded] = []
    fault: FaultReproduced | None = None
    attempts_seq: int = 0
    attempts: list[FixAttempt] = []
    baseline: SuiteEnded | None = None
    kept: AttemptsEnded | None = None
    ended: FixEnded | None = None
    is_landed: bool = False

    @property
    def hypotheses(self) -> list[HypothesisJudged]:
        return [each for attempt in self.attempts for each in attempt.hypotheses]

    def apply(self, recorded: Recorded) -> None:
        """What is true after an event that follows the start."""
        match recorded.event:
            case CheckEnded(iteration=iteration) as check if iteration == BEFORE:
                self.runs.append(check)
            case FaultReproduced() as fault:
                self.fault = fault
            case SuiteEnded() as suite if suite.cause == "baseline" and not self.attempts:
                self.baseline = suite
            case ModelChosen(model=model):
                self._choose(model)
            case AttemptsStarted():
                self.attempts_seq = recorded.seq
            case AttemptStarted(attempt=number):
                self.attempts.append(FixAttempt(number, self.model, recorded.seq))
            case CheckEnded() | HypothesisJudged() | AttemptEnded() as event:
                self.attempts[-1].apply(event)
            case AttemptsEnded() | FixEnded() | BranchMoved() as event:
                self._end(event)
            case _:
                pass

    def _choose(self, model: str) -> None:
        self.model = model
        if self.attempts and self.attempts[-1].ended is None:
            self.attempts[-1].model = model  # it is chosen in the commit that begins the attempt

    def _end(self, event: AttemptsEnded | FixEnded | BranchMoved) -> None:
        match event:
            case AttemptsEnded():
                self.kept = event
            case FixEnded():
                self.ended = event
            case BranchMoved():
                self.is_landed = self.is_landed or event.action == "merged"


async def load_fix(journal: JournalReader, vault: Vault) -> Fix:
    """The last fix of a session; `UsageError` when there is none."""
    found: Fix | None = None
    model = ""
    for item in await read_all(journal, kinds=_KINDS):
        item = msgspec.structs.replace(item, event=expanded(item.event, vault))
        if isinstance(item.event, FixStarted):
            found = Fix(journal.session, item.seq, item.event, model)
        elif found is not None:
            found.apply(item)
        elif isinstance(item.event, ModelChosen):
            model = item.event.model
    if found is None:
        raise UsageError(
            f"Session {journal.session} has no fix.", remedy="mainspring fix COMMAND starts one."
        )
    return found


def next_move(fix: Fix) -> Move:
    """What the journal lacks."""
    if fix.ended or first_end(fix):
        return "end"
    if fix.fault is None:
        is_reproduced = len(fix.runs) > 1 and any(not run.passed for run in fix.runs)
        return "locate" if is_reproduced else "run"
    return "end" if fix.kept else "attempt"


def first_end(fix: Fix) -> tuple[FixOutcome, str] | None:
    """How it ends before anything is attempted, and why; None when it does not."""
    runs, repeat = fix.runs, fix.started.repeat
    if not runs or fix.fault:
        return None
    passed = sum(run.passed for run in runs)
    if why := _unusable(fix.started.command, runs[-1]):
        return "unusable", why
    if passed == len(runs):
        times = "" if repeat == 1 else f" {passed} times in a row"
        again = f" If it fails now and then, say how often to try: --repeat {max(10, repeat * 5)}"
        return ("passes", f"the command passes{times}.{again}") if passed >= repeat else None
    if passed and repeat == 1:
        return "flaky", "the command failed, and passed on the same files. To fix that: --repeat 10"
    return None


def _unusable(command: str, run: CheckEnded) -> str:
    code = run.exit_code
    if run.detail.startswith("not run"):
        return run.detail
    if code in _NOT_FOUND:
        return f"a program of it is not there, or may not be run (exit code {code})"
    if code in _NO_TESTS and _PYTEST.search(command):
        return f"{_NO_TESTS[code]} (exit code {code})"
    return ""


def last_end(fix: Fix) -> tuple[FixOutcome, str]:
    """How it ends after the attempts, and why."""
    made = [each.ended for each in fix.attempts if each.ended]
    last, kept = made[-1] if made else None, fix.kept
    if kept is None or last is None:
        return "stopped", "the session was taken to another place"
    if kept.is_passed:
        return "fixed", "the command passes, by a run after the change"
    if last.ending == "failed" and not last.used.steps:
        return "failed", kept.reason
    if last.ending in ("budget", "limit"):
        return last.ending, last.detail or kept.reason
    if len(made) < fix.started.attempts:
        return "budget", kept.reason
    return "attempts", f"{len(made)} of {fix.started.attempts} attempts made, and none passed"
