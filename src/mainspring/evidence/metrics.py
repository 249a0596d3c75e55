"""What was measured on the way to a goal, and whether it got better: decided against the noise.

Two iterations are compared by their medians, and the noise is the median absolute deviation, corrected for
few repeats: simulated, noise alone is called a difference in at most 7 % of comparisons of 3 repeats and 5 %
of more, also when one run in seven is an outlier, where a bootstrap of the means sees far fewer of the true
ones. It needs no random numbers. What we measured ourselves counts before what the agent reported.
"""

from __future__ import annotations

import math
import operator
import statistics
from collections.abc import Iterator
from typing import Literal

import msgspec

from mainspring.events import GoalSet, MeasurementsTaken, Parameter, ResultFile, Target
from mainspring.events.counts import plural

MIN_REPEATS = 3
_PLATEAU = 3
_RELATIONS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
EVALUATOR_CHANGED = "the evaluator was changed"
"""How a flag begins that makes measurements worth nothing."""
AS_FROZEN = "measured with the frozen files as they were"
"""How a flag begins that takes nothing from them."""

Better = Literal["lower", "higher"]
Outcome = Literal["better", "worse", "same", "too few"]

_TO_SD = 1.4826
_MEDIAN_ERROR = 1.2533
# The MAD of few values is too small by these (Croux and Rousseeuw, 1992).
_FEW = {2: 1.196, 3: 1.495, 4: 1.363, 5: 1.206, 6: 1.200, 7: 1.140, 8: 1.129, 9: 1.107}
# Student's t, 95 % of both sides, by degrees of freedom.
_T = {
    1: 12.71,
    2: 4.30,
    3: 3.18,
    4: 2.78,
    5: 2.57,
    6: 2.45,
    7: 2.36,
    8: 2.31,
    9: 2.26,
    10: 2.23,
    15: 2.13,
    20: 2.09,
}
_T_MANY = 2.05
_MAX_LINES = 5


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """One metric in one iteration; `is_void` when it was measured with a changed evaluator: it is shown, and
    never compared."""

    iteration: int
    values: tuple[float, ...]
    is_ours: bool = False
    is_void: bool = False

    @property
    def repeats(self) -> int:
        return len(self.values)

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def sd(self) -> float:
        return statistics.stdev(self.values) if len(self.values) > 1 else 0.0

    @property
    def mad(self) -> float:
        middle = self.median
        return statistics.median(abs(value - middle) for value in self.values)


class MetricVerdict(msgspec.Struct, frozen=True):
    """How one summary stands against another: their difference, and how large it must be to be one."""

    outcome: Outcome
    difference: float = 0.0
    noise: float = 0.0


class Course(msgspec.Struct, frozen=True, kw_only=True):
    """How a metric went: the best iteration, whether it is sure to be, how many came after it without being
    better, and those that made it worse than the best before them."""

    best: Summary
    is_sure: bool
    since_best: int
    dead_ends: tuple[tuple[Summary, Summary], ...] = ()


class Metrics:
    """The fold."""

    def __init__(self) -> None:
        self._values: dict[str, dict[tuple[int, bool], list[float]]] = {}
        self._units: dict[str, str] = {}
        self._flags: dict[int, dict[str, None]] = {}
        self._void: set[int] = set()
        self._parameters: dict[tuple[int, bool], tuple[Parameter, ...]] = {}
        self.files: dict[str, ResultFile] = {}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._values)

    def unit(self, metric: str) -> str:
        return self._units.get(metric, "")

    def flags(self, iteration: int) -> tuple[str, ...]:
        """What is to be said of the measurements of an iteration."""
        return tuple(self._flags.get(iteration, ()))

    def doubts(self, iteration: int) -> tuple[str, ...]:
        """What makes the measurements of an iteration doubtful."""
        return tuple(flag for flag in self.flags(iteration) if not flag.startswith(AS_FROZEN))

    def parameters(self, row: Summary) -> str:
        """With what the values of an iteration were made; names that had several values tell each."""
        told = self._parameters.get((row.iteration, row.is_ours)) or self._parameters.get(
            (row.iteration, not row.is_ours), ()
        )
        values: dict[str, list[str]] = {}
        for item in told:
            values.setdefault(item.name, []).append(item.value)
        return ", ".join(f"{name}={'|'.join(each)}" for name, each in values.items())

    def apply(self, event: MeasurementsTaken) -> None:
        self.files |= {file.path: file for file in event.files}
        if event.parameters:
            self._parameters[event.iteration, event.is_ours] = event.parameters
        flags = self._flags.setdefault(event.iteration, {})
        flags.update(dict.fromkeys(event.flags))
        if event.is_ours and any(flag.startswith(EVALUATOR_CHANGED) for flag in event.flags):
            self._void.add(event.iteration)
        for item in event.values:
            unit = self._units.setdefault(item.metric, item.unit) or item.unit
            self._units[item.metric] = unit
            if item.unit and item.unit != unit:
                flags[f"{item.metric} is in {item.unit} here and in {unit} before; left out"] = None
                continue
            by_iteration = self._values.setdefault(item.metric, {})
            by_iteration.setdefault((event.iteration, event.is_ours), []).append(item.value)

    def table(self, metric: str) -> tuple[Summary, ...]:
        """One row for each iteration; where we measured, only that."""
        rows: dict[int, Summary] = {}
        for (iteration, is_ours), values in self._values.get(metric, {}).items():
            if is_ours or iteration not in rows or not rows[iteration].is_ours:
                is_void = is_ours and iteration in self._void
                rows[iteration] = Summary(
                    iteration=iteration, values=tuple(values), is_ours=is_ours, is_void=is_void
                )
        return tuple(rows[iteration] for iteration in sorted(rows))

    def counted(self, metric: str) -> tuple[Summary, ...]:
        """The rows that may be compared: those that no changed evaluator measured."""
        return tuple(row for row in self.table(metric) if not row.is_void)

    def course(self, metric: str, better: Better) -> Course | None:
        rows = self.counted(metric)
        if not rows:
            return None
        best, is_sure, since = rows[0], True, 0
        dead_ends: list[tuple[Summary, Summary]] = []
        for before, row, verdict in self.judged(metric, better):
            if _is_new_best(verdict, better):
                best, is_sure, since = row, verdict.outcome == "better", 0
                continue
            since += 1
            if verdict.outcome == "worse":
                dead_ends.append((before, row))
        return Course(best=best, is_sure=is_sure, since_best=since, dead_ends=tuple(dead_ends))

    def judged(self, metric: str, better: Better) -> Iterator[tuple[Summary, Summary, MetricVerdict]]:
        """Each iteration but the first, after the best before it, and how it stands against that."""
        best: Summary | None = None
        for row in self.counted(metric):
            if best is None:
                best = row
                continue
            verdict = compare(best, row, better)
            yield best, row, verdict
            best = row if _is_new_best(verdict, better) else best

    def reached(self, target: Target, *, needs_ours: bool = False) -> tuple[bool, str]:
        """Whether the newest median holds, and the sentence that says why or why not."""
        rows = [row for row in self.table(target.metric) if row.is_ours or not needs_ours]
        wanted = f"{target.metric} {target.relation} {target.value:g}"
        if not rows:
            return False, f"{wanted}: nothing was measured{' by us' if needs_ours else ''}"
        row = rows[-1]
        if row.is_void:
            flags = self.flags(row.iteration)
            doubt = next(flag for flag in flags if flag.startswith(EVALUATOR_CHANGED))
            return False, f"{wanted}: not decided, {doubt}"
        said = f"{wanted}: {self._told(target.metric, row)} in iteration {row.iteration}"
        return _holds(row.median, target), said

    def lines(self, metric: str, better: Better) -> tuple[str, ...]:
        """What the next iteration should know."""
        doubts = self._doubts(metric)
        course = self.course(metric, better)
        if course is None:
            return doubts
        best = course.best
        sure = "" if course.is_sure else f" (not sure: fewer than {MIN_REPEATS} repeats)"
        made = f", with {parameters}" if (parameters := self.parameters(best)) else ""
        told = f"best so far {self._told(metric, best)}, iteration {best.iteration}{sure}{made}"
        lines = [f"{metric} ({better} is better): {told}."]
        if course.since_best >= _PLATEAU:
            since = plural(course.since_best, "iteration")
            lines.append(f"Plateau: {since} without a better {metric}; try another idea.")
        for before, row in course.dead_ends[-_MAX_LINES:]:
            lines.append(
                f"Dead end: iteration {row.iteration} made {metric} worse, "
                f"{before.median:g} to {self._told(metric, row)}."
            )
        return (*lines, *doubts)

    def newest(self, metric: str) -> tuple[str, ...]:
        """The newest values of a metric, in one line; none when no value counts."""
        rows = self.counted(metric)[-1:]
        return tuple(f"{metric}: {self._told(metric, row)}, iteration {row.iteration}." for row in rows)

    def _doubts(self, metric: str) -> tuple[str, ...]:
        newest = max((row.iteration for row in self.table(metric)), default=0)
        return tuple(f"Doubtful: {flag}." for flag in self.flags(newest)[:_MAX_LINES])

    def _told(self, metric: str, row: Summary) -> str:
        unit = f" {self.unit(metric)}" if self.unit(metric) else ""
        spread = f" ± {row.sd:.3g}" if row.repeats > 1 else ""
        return f"{row.median:g}{spread}{unit} ({plural(row.repeats, 'repeat')})"


def asked_for(goal: GoalSet) -> frozenset[str]:
    """The metrics that the goal itself names."""
    return frozenset({goal.evaluation.metric, *(target.metric for target in goal.checks.targets)} - {""})


def compare(old: Summary, new: Summary, better: Better) -> MetricVerdict:
    """Whether the new one is better than the noise can explain."""
    difference = new.median - old.median
    if min(old.repeats, new.repeats) < MIN_REPEATS:
        return MetricVerdict("too few", difference)
    error = math.hypot(*(_spread(row) * _MEDIAN_ERROR / math.sqrt(row.repeats) for row in (old, new)))
    # A MAD knows less than its count of values says.
    noise = _student(round((old.repeats + new.repeats - 2) * 0.75)) * error
    rounding = 1e-12 * max(abs(old.median), abs(new.median))
    if abs(difference) <= max(noise, rounding):
        return MetricVerdict("same", difference, noise)
    return MetricVerdict("better" if is_ahead(difference, better) else "worse", difference, noise)


def _is_new_best(verdict: MetricVerdict, better: Better) -> bool:
    """Surely better, or ahead with too few values to be sure."""
    is_guess = verdict.outcome == "too few" and is_ahead(verdict.difference, better)
    return verdict.outcome == "better" or is_guess


def is_ahead(difference: float, better: Better) -> bool:
    return difference < 0 if better == "lower" else difference > 0


def _spread(row: Summary) -> float:
    """The standard deviation without its outliers; where most values are the same, with them."""
    count = row.repeats
    return row.mad * _TO_SD * _FEW.get(count, count / (count - 0.8)) or row.sd


def _student(degrees: int) -> float:
    return next((value for upto, value in _T.items() if degrees <= upto), _T_MANY)


def _holds(value: float, target: Target) -> bool:
    if target.relation == "==":
        return math.isclose(value, target.value, rel_tol=1e-9, abs_tol=1e-12)
    return _RELATIONS[target.relation](value, target.value)
