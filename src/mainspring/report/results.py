"""What a goal's work left behind, as its report shows it: metrics, claims and artifacts."""

from __future__ import annotations

from collections import deque

import msgspec

from mainspring.documents.previews import PICTURES, Preview, preview_of
from mainspring.errors import JournalDamaged
from mainspring.events import (
    ClaimChecked,
    ClaimsRead,
    Evaluation,
    GoalSet,
    MeasurementsTaken,
    Recorded,
)
from mainspring.evidence.artifacts import Artifacts
from mainspring.evidence.claims import Claims
from mainspring.evidence.metrics import Better, Metrics, MetricVerdict, Summary, asked_for
from mainspring.evidence.plots import line_plot
from mainspring.journal import JournalReader
from mainspring.report.evidence import kept_text
from mainspring.report.facts import ArtifactFacts, ClaimFacts, Metric, MetricRow, ReportFold, fact_of
from mainspring.report.result_facts import FailedEvaluation

SHOWN_METRICS = 12
SHOWN_ROWS = 30
SHOWN_CLAIMS = 300
SHOWN_ARTIFACTS = 200
SHOWN_PREVIEWS = 24
MAX_PREVIEW_BYTES = 3_000_000
_MAX_TEXT = 1000
_EVENTS = 10
_LOWER, _HIGHER = ("<", "<="), (">", ">=")


class Results(ReportFold):
    """The fold of measurements and claims."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        self.claims = Claims()
        self.claims_seq = 0
        self._measured: dict[str, list[int]] = {}
        self._checked: dict[str, int] = {}
        self._failed: deque[FailedEvaluation] = deque(maxlen=SHOWN_ROWS)
        self.handlers = {
            MeasurementsTaken: self._measure,
            ClaimsRead: self._read_claims,
            ClaimChecked: self._check_claim,
        }

    def _measure(self, event: MeasurementsTaken, recorded: Recorded) -> None:
        self.metrics.apply(event)
        if event.is_ours and not event.values:
            self._failed.append(fact_of(FailedEvaluation, recorded, output="", output_blob=event.output))
        for name in {item.metric for item in event.values}:
            self._measured.setdefault(name, []).append(recorded.seq)

    def _read_claims(self, event: ClaimsRead, recorded: Recorded) -> None:
        self.claims.apply(event)
        self.claims_seq = recorded.seq

    def _check_claim(self, event: ClaimChecked, recorded: Recorded) -> None:
        self.claims.apply(event)
        self._checked[event.claim] = recorded.seq

    def reported(self) -> frozenset[str]:
        """The metrics whose newest values come from the agent alone."""
        names = self.metrics.names
        return frozenset(name for name in names if not self.metrics.table(name)[-1].is_ours)

    async def failed_evaluations(self, journal: JournalReader) -> tuple[FailedEvaluation, ...]:
        """The evaluations that measured nothing, with what the last of them said."""
        *before, last = self._failed or (None,)
        if last is None:
            return ()
        text, _ = await kept_text(journal, last.output_blob)
        return (*filter(None, before), msgspec.structs.replace(last, output=text))

    def metric_facts(self, goal: GoalSet) -> tuple[Metric, ...]:
        """Every metric, the one that the goal is about first."""
        asked = asked_for(goal)
        names = sorted(self.metrics.names, key=lambda name: name not in asked)
        return tuple(self._metric(name, _better(name, goal)) for name in names[:SHOWN_METRICS])

    def wanted(self, goal: GoalSet) -> tuple[tuple[str, Better], ...]:
        """The metrics that the goal is about and which way is better, the one to improve first."""
        names = sorted(self.metrics.names, key=lambda name: name != goal.evaluation.metric)
        return tuple((name, better) for name in names if (better := _better(name, goal)))

    def claim_facts(self) -> tuple[ClaimFacts, ...]:
        """The claims on the path to the goal first, each after what it stands on."""
        claims, path = self.claims, self.claims.path()
        names = [*(name for name in path if name in claims.all)]
        names += [name for name in claims.all if name not in set(path)]
        return tuple(self._claim(name, is_on_path=name in path) for name in names[:SHOWN_CLAIMS])

    def _metric(self, name: str, better: Better | None) -> Metric:
        rows, counted = self.metrics.table(name), self.metrics.counted(name)
        course = self.metrics.course(name, better) if better else None
        judged = self.metrics.judged(name, better) if better else ()
        verdicts = {row.iteration: verdict for _, row, verdict in judged}
        facts = [self._row(row, verdicts.get(row.iteration)) for row in rows]
        best_iteration = course.best.iteration if course else 0
        shown = [fact for fact in facts[-SHOWN_ROWS:] if fact.iteration != best_iteration]
        shown += [fact for fact in facts if course and fact.iteration == best_iteration]
        unit, best = self.metrics.unit(name), course.best if course else None
        return Metric(
            name=name,
            unit=unit,
            better=better or "",
            best_iteration=best_iteration,
            is_best_sure=bool(course and course.is_sure),
            rows=tuple(sorted(shown, key=lambda fact: fact.iteration)),
            rows_left_out=len(facts) - len(shown),
            events=tuple(self._measured.get(name, [])[-_EVENTS:]),
            plot=line_plot(name, unit, counted, best=best) if len(counted) > 1 else "",
        )

    def _row(self, row: Summary, verdict: MetricVerdict | None) -> MetricRow:
        return MetricRow(
            iteration=row.iteration,
            repeats=row.repeats,
            mean=row.mean,
            median=row.median,
            spread=row.sd,
            is_ours=row.is_ours,
            is_void=row.is_void,
            verdict=verdict.outcome if verdict else "",
            difference=verdict.difference if verdict else 0.0,
            noise=verdict.noise if verdict else 0.0,
            parameters=self.metrics.parameters(row),
            flags=self.metrics.flags(row.iteration),
        )

    def _claim(self, name: str, *, is_on_path: bool) -> ClaimFacts:
        claim, checked = self.claims.all[name], self.claims.checked(name)
        shown = msgspec.structs.replace(
            claim,
            statement=claim.statement[:_MAX_TEXT],
            status=self.claims.status(name),
            check=claim.check[:_MAX_TEXT],
            note=claim.note[:_MAX_TEXT],
        )
        return ClaimFacts(
            **msgspec.structs.asdict(shown),
            is_on_path=is_on_path,
            seq=self._checked.get(name, 0) if checked else 0,
            exit_code=checked.exit_code if checked else None,
            detail=checked.detail[:_MAX_TEXT] if checked else "",
            doubt=checked.doubt[:_MAX_TEXT] if checked else "",
        )


async def artifact_facts(artifacts: Artifacts, journal: JournalReader) -> tuple[ArtifactFacts, ...]:
    """The newest artifacts, with what can be seen of a few of them: those that have a preview come first."""
    previews = artifacts.previews
    newest = sorted(
        artifacts.made, key=lambda each: (-each.iteration, each.sha256 not in previews, each.path)
    )
    facts: list[ArtifactFacts] = []
    left, seen = MAX_PREVIEW_BYTES, dict[str, Preview]()
    for each in newest[:SHOWN_ARTIFACTS]:
        blob = previews.get(each.sha256)
        preview = seen.get(each.sha256)
        if preview is None and blob is not None and blob.size <= left and len(seen) < SHOWN_PREVIEWS:
            try:
                preview = preview_of(await journal.get(blob), blob.media_type)
            except JournalDamaged:
                preview = None  # the row is right without it, and verify tells what is damaged
            if preview is not None:
                seen[each.sha256] = preview
                left -= blob.size if blob.media_type in PICTURES else 0
        facts.append(ArtifactFacts(**msgspec.structs.asdict(each), preview=preview))
    return tuple(facts)


def _better(metric: str, goal: GoalSet) -> Better | None:
    """Which way is better: as the goal says it, or as one of its targets implies."""
    evaluation: Evaluation = goal.evaluation
    if evaluation.metric == metric and evaluation.better:
        return evaluation.better
    for target in goal.checks.targets:
        if target.metric == metric and target.relation in (*_LOWER, *_HIGHER):
            return "lower" if target.relation in _LOWER else "higher"
    return None
