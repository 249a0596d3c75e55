"""Reads a goal's journal once, only the kinds that its report needs, and gives the `Report`."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from mainspring.catalog import SessionFold, Spent, take
from mainspring.events import (
    EngineChosen,
    Event,
    GoalEnded,
    GoalPaused,
    GoalSet,
    ModelChosen,
    PlanSet,
    Recorded,
    SessionResumed,
    SessionStarted,
    SpendReserved,
    SpendSettled,
)
from mainspring.evidence.artifacts import read_artifacts
from mainspring.goals import fold
from mainspring.goals.fold import Goal
from mainspring.journal import JournalReader, events_in
from mainspring.report.around import EventsAround
from mainspring.report.evidence import SHOWN_CHECKS, Checks
from mainspring.report.facts import Close, Report, ReportFold, ReportText, Spending, fact_of
from mainspring.report.iterations import MAX_SAID, Iterations
from mainspring.report.outcome import best_result, file_diffs
from mainspring.report.results import SHOWN_METRICS, Results, artifact_facts
from mainspring.report.standing import SHOWN_LEFT, judge, left_of, next_commands

_PAGE = 2000
_TEXTS = 20
_CLOSES = 50
_WAITS = 100
_NOTICES = 50
_OUTAGES = 20
_APPROVALS = 50
_PROCESSES = 50
_MODELS = 20
_SPENDINGS = 50
_MAX_TEXT = 20_000
_PAID = (SessionStarted, ModelChosen, SpendReserved, SpendSettled)


class _Read(ReportFold):
    """Every fold of a report, fed with the same events."""

    def __init__(self) -> None:
        self.goal = Goal()
        self.fold = SessionFold()
        self.iterations = Iterations()
        self.checks = Checks(self.iterations)
        self.results = Results()
        self.around = EventsAround(self.goal, self.iterations)
        self.plan: Recorded | None = None
        self.texts: list[ReportText] = []
        self.closes: list[Close] = []
        self.models: dict[str, None] = {}
        self.engine = EngineChosen(engine="")
        self.version = ""
        self.last_us = 0
        self._set: GoalSet | None = None
        self.handlers = {
            GoalSet: self._apply_goal,
            GoalEnded: self._close,
            GoalPaused: self._close,
            EngineChosen: self._choose_engine,
            ModelChosen: lambda event, _: self.models.setdefault(event.model),
            SessionStarted: self._open,
            SessionResumed: self._open,
            PlanSet: self._plan,
        }

    def takers(self) -> dict[str, list[Callable[[Recorded], object]]]:
        """Who takes in an event of each kind that is wanted: most are not for most folds."""
        wanted: tuple[tuple[Callable[[Recorded], object], Iterable[type[Event]]], ...] = (
            (self.around.apply, self.around.handlers),
            (self.goal.apply, fold.KINDS),
            (lambda recorded: take(self.fold, recorded), _PAID),
            *((each.apply, each.handlers) for each in (self.iterations, self.checks, self.results, self)),
        )
        takers: dict[str, list[Callable[[Recorded], object]]] = {}
        for take_in, kinds in wanted:
            for kind in kinds:
                takers.setdefault(kind.__name__, []).append(take_in)
        return takers

    def _open(self, event: SessionStarted | SessionResumed, _: Recorded) -> None:
        self.version = event.version

    def _close(self, event: GoalEnded | GoalPaused, recorded: Recorded) -> None:
        ending = event.ending if isinstance(event, GoalEnded) else "paused"
        self.closes.append(fact_of(Close, recorded, ending=ending))

    def _choose_engine(self, event: EngineChosen, _: Recorded) -> None:
        self.engine = event

    def _plan(self, _: PlanSet, recorded: Recorded) -> None:
        self.plan = recorded

    def _apply_goal(self, event: GoalSet, recorded: Recorded) -> None:
        before, self._set = self._set, event
        names = ("profile", "engine", "memory", "checks", "rules", "evaluation")
        changes = tuple(
            name for name in names if before is not None and getattr(before, name) != getattr(event, name)
        )
        is_new = before is None or before.text != event.text
        if not is_new and not changes:
            return
        shown = {"text": event.text[:_MAX_TEXT]} if is_new else {"text": "", "source": ""}
        self.texts.append(fact_of(ReportText, recorded, changes=changes, **shown))

    def spent(self) -> Spent:
        total = Spent()
        for each in self.fold.spent().values():
            total = total.plus(each)
        return total

    def spendings(self) -> tuple[Spending, ...]:
        totals: dict[tuple[str, str], Spent] = {}
        for purpose, spent in self.fold.spent().items():
            key = (purpose.source, purpose.model)
            totals[key] = totals.get(key, Spent()).plus(spent)
        rows = [
            Spending(source=source, model=model, **msgspec.structs.asdict(spent))
            for (source, model), spent in totals.items()
        ]
        return tuple(sorted(rows, key=lambda row: (-row.usd, -row.input_tokens, row.source, row.model)))


async def read_report(journal: JournalReader, *, now_us: int, is_running: bool) -> Report:
    """The report of the goal of a journal; `is_running` when a process works on it, up to `now_us`."""
    read = _Read()
    takers = read.takers()
    async for recorded in events_in(journal, kinds=tuple(takers), limit=_PAGE):
        for take_in in takers[recorded.kind]:
            take_in(recorded)
        read.last_us = recorded.time_us
    goal = read.goal.now
    result = best_result(read.results.metrics, read.results.wanted(goal), read.iterations.ended())
    diffs, diffs_left_out = await file_diffs(
        journal, result.state_seq or None if result else None, (goal.memory,)
    )
    artifacts = await read_artifacts(journal)
    read.checks.grade_old(goal, artifacts, read.results.reported())
    report = _told(read, journal.session, now_us=now_us, is_running=is_running)
    made = artifacts.made
    return msgspec.structs.replace(
        report,
        last_seq=await journal.last_seq(),
        checks=await read.checks.shown(journal),
        checks_left_out=max(len(read.checks.newest) - SHOWN_CHECKS, 0),
        refusals=await read.checks.refusals(journal),
        result=result,
        diffs=diffs,
        diffs_left_out=diffs_left_out,
        metrics=read.results.metric_facts(goal),
        failed_evaluations=await read.results.failed_evaluations(journal),
        metrics_left_out=max(len(read.results.metrics.names) - SHOWN_METRICS, 0),
        artifacts=await artifact_facts(artifacts, journal),
        artifacts_total=len(made),
        artifacts_bytes=sum(each.size for each in made),
        artifacts_deleted=sum(each.is_deleted and each.iteration > 0 for each in artifacts.all),
    )


def _told(read: _Read, session: str, *, now_us: int, is_running: bool) -> Report:
    """What needs nothing but the folds."""
    goal, around, results = read.goal, read.around, read.results
    checks, missing = read.checks.newest, results.claims.missing() if results.claims.is_read else ()
    flags = results.metrics.flags(goal.iterations)
    judged = judge(goal, checks, flags, is_running=is_running)
    left = left_of(goal, checks, missing, results.claims_seq, read.plan, around)
    said, is_live = read.iterations.last_said, is_running and goal.ended is None
    spent = read.spent()
    finishes = read.checks.finishes()
    report = Report(
        session=session,
        workspace=read.fold.workspace,
        version=read.version,
        made_us=now_us,
        is_running=is_live,
        profile=goal.now.profile,
        engine=read.engine.engine or goal.now.engine,
        engine_program=read.engine.program,
        engine_version=read.engine.version,
        models=tuple(read.models)[:_MODELS],
        rules=goal.now.rules,
        checks_wanted=goal.now.checks,
        evaluation=goal.now.evaluation,
        texts=(*read.texts[:1], *read.texts[1:][-_TEXTS:]),
        texts_left_out=max(len(read.texts) - 1 - _TEXTS, 0),
        standing=judged.standing,
        grade=judged.grade,
        standing_why=judged.why,
        standing_seqs=judged.seqs,
        doubts=judged.doubts,
        closes=tuple(read.closes[-_CLOSES:]),
        closes_left_out=max(len(read.closes) - _CLOSES, 0),
        clock=read.iterations.clock(now_us if is_live else read.last_us),
        spendings=read.spendings()[:_SPENDINGS],
        cost_usd=spent.usd,
        tokens=spent.tokens,
        iterations_total=read.iterations.total,
        iterations=read.iterations.facts(),
        outcomes=read.iterations.outcomes,
        checks_total=read.checks.total,
        refusals_total=read.checks.failed_total,
        finishes=finishes,
        finishes_left_out=read.checks.finished_total - len(finishes),
        last_said=said[-MAX_SAID:],
        last_said_seq=read.iterations.last_said_seq,
        is_last_said_cut=len(said) > MAX_SAID,
        left=left[:SHOWN_LEFT],
        left_out=max(len(left) - SHOWN_LEFT, 0),
        next_commands=next_commands(session, goal, judged, around, is_running=is_running),
    )
    return _with_claims(_with_around(report, around), results, missing)


def _with_around(report: Report, around: EventsAround) -> Report:
    return msgspec.structs.replace(
        report,
        waits=tuple(around.waits.values())[-_WAITS:],
        waits_total=len(around.waits),
        outages=tuple(around.outages.values())[-_OUTAGES:],
        approvals=tuple(around.approvals.values())[-_APPROVALS:],
        approvals_total=len(around.approvals),
        mode=around.mode,
        rungs=tuple(around.rungs),
        notices=tuple(around.notices[-_NOTICES:]),
        notices_total=len(around.notices),
        crashes=tuple(around.crashes[-_NOTICES:]),
        crashes_total=len(around.crashes),
        processes=tuple(around.processes.values())[-_PROCESSES:],
        left_running=around.left_running[-_PROCESSES:],
    )


def _with_claims(report: Report, results: Results, missing: tuple[str, ...]) -> Report:
    claims, facts = results.claims, results.claim_facts()
    return msgspec.structs.replace(
        report,
        claims=facts,
        claims_left_out=len(claims.all) - len(facts),
        claims_seq=results.claims_seq,
        claims_missing=missing[:SHOWN_LEFT],
        claims_problems=claims.problems[:SHOWN_LEFT],
    )
