"""What came of a fix, for people and programs."""

from __future__ import annotations

import msgspec

from mainspring.app.operations.fix_record import Fix, FixAttempt
from mainspring.events import CheckEnded, Ending, FaultPlace, FixOutcome, HypothesisJudged, TurnEnded
from mainspring.journal import JournalReader, last_event

EXIT_CODES: dict[FixOutcome, int] = {
    "fixed": 0,
    "attempts": 1,
    "failed": 1,
    "unusable": 1,
    "budget": 4,
    "limit": 5,
    "passes": 6,
    "flaky": 7,
    "stopped": 130,
}
_PAUSED: dict[Ending, int] = {"blocked": 3, "waiting": 3, "interrupted": 130}


class AttemptReport(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt. `checks` are our own looks at it, with what each found."""

    attempt: int
    model: str
    is_passed: bool
    ending: str = ""
    files: tuple[str, ...] = ()
    changed_lines: int = 0
    cost_usd: float = 0.0
    checks: tuple[CheckEnded, ...] = ()
    hypotheses: tuple[HypothesisJudged, ...] = ()


class FixReport(msgspec.Struct, frozen=True, kw_only=True):
    """`outcome` is None while it is not over; `detail` says then what it waits for."""

    session: str
    command: str
    outcome: FixOutcome | None
    detail: str
    exit_code: int
    runs: int = 0
    failed_runs: int = 0
    last_exit_code: int | None = None
    tests: tuple[str, ...] = ()
    places: tuple[FaultPlace, ...] = ()
    recent: tuple[str, ...] = ()
    attempts: tuple[AttemptReport, ...] = ()
    kept: int = 0
    files: tuple[str, ...] = ()
    changed_lines: int = 0
    not_checked: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    branch: str = ""
    commit: str = ""
    is_landed: bool = False
    not_landed: str = ""
    cost_usd: float = 0.0


async def report_of(journal: JournalReader, fix: Fix) -> FixReport:
    """The report of a fix, also of one that is not over."""
    attempts = tuple(_attempt(each) for each in fix.attempts)
    fault, ended = fix.fault, fix.ended
    report = FixReport(
        session=fix.session,
        command=fix.started.command,
        outcome=None,
        detail="",
        exit_code=3,
        runs=len(fix.runs),
        failed_runs=sum(not run.passed for run in fix.runs),
        last_exit_code=fix.runs[-1].exit_code if fix.runs else None,
        tests=fault.tests if fault else (),
        places=fault.places if fault else (),
        recent=fault.recent if fault else (),
        attempts=attempts,
        branch=fix.started.branch,
        is_landed=fix.is_landed,
        cost_usd=sum(each.cost_usd for each in attempts),
    )
    if ended is None:
        last = await last_event(journal, TurnEnded) if fix.attempts else None
        detail = f"{last.ending}: {last.detail}".strip(": ") if last else "interrupted"
        code = _PAUSED.get(last.ending, 3) if last else 130
        return msgspec.structs.replace(report, detail=detail, exit_code=code)
    return msgspec.structs.replace(
        report,
        outcome=ended.outcome,
        detail=ended.detail,
        exit_code=EXIT_CODES[ended.outcome],
        kept=ended.attempt,
        files=ended.files,
        changed_lines=ended.changed_lines,
        not_checked=ended.not_checked,
        left=ended.left,
        commit=ended.commit,
    )


def _attempt(each: FixAttempt) -> AttemptReport:
    ended = each.ended
    return AttemptReport(
        attempt=each.attempt,
        model=each.model,
        is_passed=ended is not None and ended.is_passed,
        ending=ended.ending if ended else "",
        files=ended.files if ended else (),
        changed_lines=ended.changed_lines if ended else 0,
        cost_usd=ended.used.usd if ended else 0.0,
        checks=tuple(each.checks),
        hypotheses=tuple(each.hypotheses),
    )
