"""What a report says: frozen facts, each with the number of the event that it was recorded in.

What is too much to show is cut, and a count beside it (`…_left_out`) says how much that was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar

import msgspec

from mainspring.catalog import Spent
from mainspring.documents.previews import Preview
from mainspring.events import (
    ArtifactChange,
    Claim,
    Evaluation,
    Event,
    GoalChecks,
    GoalRules,
    Grade,
    ProcessStarted,
    Recorded,
)
from mainspring.evidence.artifacts import Artifact
from mainspring.evidence.metrics import Outcome
from mainspring.report.result_facts import BestResult, FailedEvaluation, FileDiff, LeftProcess

Handlers = dict[type[Event], Callable[[Any, Recorded], object]]
"""What a fold does with each kind of event that it needs: with the event, and with where it was recorded."""


class ReportFold:
    """Takes in the events that it has a handler for."""

    handlers: Handlers

    def apply(self, recorded: Recorded) -> None:
        self.handlers[type(recorded.event)](recorded.event, recorded)


Standing = Literal["verified", "checked", "claimed", "refuted", "not done", "so far"]
"""Whether the goal is reached: shown by what the agent could not have changed, by what it wrote or changed
itself, only said by it, said and shown to be false, given up, or not decided yet."""


class Fact(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of a report. What an event or a fold already says is taken from it: see `fact_of`, and the facts
    that extend another struct."""


class FactCounted(msgspec.Struct, kw_only=True):
    """A part of a report that is added up while the journal is read."""


FactKind = TypeVar("FactKind", bound=msgspec.Struct)


def fact_of(kind: type[FactKind], recorded: Recorded, **more: Any) -> FactKind:
    """An event as a fact: where it stands, its fields that the fact has as well, and what else is said."""
    found = {"seq": recorded.seq, "time_us": recorded.time_us}
    found |= {name: getattr(recorded.event, name) for name in recorded.event.__struct_fields__}
    return kind(**{name: value for name, value in found.items() if name in kind.__struct_fields__} | more)


class ReportText(Fact, frozen=True):
    """The goal as it was given, or as it was changed to. `changes` names what else is other than before."""

    seq: int
    time_us: int
    text: str
    by: str
    source: str = ""
    changes: tuple[str, ...] = ()


class Close(Fact, frozen=True):
    """The goal ended or was paused; a later one may follow, when it was resumed."""

    seq: int
    time_us: int
    ending: str
    reason: str = ""
    exit_code: int | None = None
    is_verified: bool = False
    grade: Grade = ""


class Spending(Spent, frozen=True, kw_only=True, omit_defaults=False):
    """What one source spent at one model."""

    source: str
    model: str


class Clock(FactCounted):
    """Where the time went. `away_s` is when no process of ours was there."""

    started_us: int = 0
    until_us: int = 0
    working_s: float = 0.0
    waiting_s: float = 0.0
    between_s: float = 0.0
    away_s: float = 0.0

    @property
    def wall_s(self) -> float:
        return max(self.until_us - self.started_us, 0) / 1e6


class CommandFacts(Fact, frozen=True):
    """A call and what came of it; `seq` is the event of its result."""

    seq: int
    call: str
    tool: str
    command: str
    outcome: str
    exit_code: int | None = None
    duration_s: float = 0.0
    sha256: str = ""


class IterationFacts(FactCounted):
    """One iteration. Without an outcome it is not over."""

    number: int
    seq: int
    started_us: int
    ended_seq: int = 0
    outcome: str = ""
    detail: str = ""
    said: str = ""
    said_seq: int = 0
    is_said_cut: bool = False
    changed: tuple[str, ...] = ()
    files: tuple[ArtifactChange, ...] = ()
    files_total: int = 0
    commands: tuple[CommandFacts, ...] = ()
    calls_total: int = 0
    calls_failed: int = 0
    turns: int = 0
    exit_code: int | None = None
    cost_usd: float = 0.0
    tokens: int = 0
    working_s: float = 0.0
    waiting_s: float = 0.0
    away_s: float = 0.0
    waits: int = 0
    failed_checks: tuple[str, ...] = ()


class CheckFacts(Fact, frozen=True):
    """One look at one condition of being done."""

    seq: int
    time_us: int
    iteration: int
    check: str
    kind: str
    passed: bool
    exit_code: int | None = None
    detail: str = ""
    sha256: str = ""
    output_blob: str = ""
    duration_s: float = 0.0
    output: str = ""
    is_output_cut: bool = False
    grade: Grade = ""
    written: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()


class Cited(Fact, frozen=True):
    """A claim of the agent and the recorded results that it cites; `doubt` says why they do not bear it
    out."""

    claim: str
    results: tuple[CommandFacts, ...] = ()
    doubt: str = ""


class Finish(Fact, frozen=True):
    """What the agent said when it called itself done."""

    seq: int
    iteration: int
    summary: str
    claims: tuple[Cited, ...] = ()


class MetricRow(Fact, frozen=True):
    """One metric in one iteration, against the best before it; `is_void` when a changed evaluator measured
    it: then it counts for nothing."""

    iteration: int
    repeats: int
    mean: float
    median: float
    spread: float
    is_ours: bool
    is_void: bool = False
    verdict: Outcome | Literal[""] = ""
    difference: float = 0.0
    noise: float = 0.0
    parameters: str = ""
    flags: tuple[str, ...] = ()


class Metric(Fact, frozen=True):
    name: str
    unit: str = ""
    better: str = ""
    best_iteration: int = 0
    is_best_sure: bool = False
    rows: tuple[MetricRow, ...] = ()
    rows_left_out: int = 0
    events: tuple[int, ...] = ()
    plot: str = ""


class ClaimFacts(Claim, frozen=True, kw_only=True, omit_defaults=False):
    """A claim of a derivation; `seq` is the event of the check that decided it, 0 when none did."""

    is_on_path: bool = False
    seq: int = 0
    exit_code: int | None = None
    detail: str = ""
    doubt: str = ""


class ArtifactFacts(Artifact, frozen=True, kw_only=True):
    preview: Preview | None = None


class Wait(Fact, frozen=True):
    """A wait; without a cause it goes on."""

    seq: int
    started_us: int
    what: str
    reason: str = ""
    iteration: int = 0
    duration_s: float = 0.0
    cause: str = ""
    summary: str = ""
    late_s: float = 0.0


class Outage(Fact, frozen=True):
    """Failures of one kind at a model: how often it was tried again, how often given up."""

    error: str
    retries: int
    given_up: int
    first_seq: int
    last_seq: int
    last_us: int
    message: str
    models: tuple[str, ...] = ()


class Approval(Fact, frozen=True):
    """A question to a person; without a decision it is open."""

    seq: int
    call: str
    tool: str
    arguments: str
    reason: str = ""
    decision: str = ""
    by: str = ""
    scope: str = ""
    pattern: str = ""
    expires_us: int | None = None
    answer_seq: int = 0


class Notice(Fact, frozen=True):
    """Something that happened around the work and that a person should know."""

    seq: int
    time_us: int
    what: str
    detail: str = ""


class ProcessFacts(ProcessStarted, frozen=True, kw_only=True):
    """A background command whose end is not on record."""

    seq: int


class Remaining(Fact, frozen=True):
    """Something that is not done, and what says so."""

    what: str
    detail: str = ""
    seq: int = 0


class Report(Fact, frozen=True):
    session: str
    clock: Clock
    workspace: str = ""
    version: str = ""
    last_seq: int = 0
    made_us: int = 0
    is_running: bool = False
    profile: str = ""
    engine: str = ""
    engine_program: str = ""
    engine_version: str = ""
    models: tuple[str, ...] = ()
    rules: GoalRules = GoalRules()
    checks_wanted: GoalChecks = GoalChecks()
    evaluation: Evaluation = Evaluation()
    texts: tuple[ReportText, ...] = ()
    texts_left_out: int = 0
    standing: Standing = "so far"
    grade: Grade = ""
    standing_why: str = ""
    standing_seqs: tuple[int, ...] = ()
    doubts: tuple[str, ...] = ()
    closes: tuple[Close, ...] = ()
    closes_left_out: int = 0
    spendings: tuple[Spending, ...] = ()
    cost_usd: float = 0.0
    tokens: int = 0
    iterations_total: int = 0
    iterations: tuple[IterationFacts, ...] = ()
    outcomes: tuple[tuple[str, int], ...] = ()
    checks: tuple[CheckFacts, ...] = ()
    checks_total: int = 0
    checks_left_out: int = 0
    refusals: tuple[CheckFacts, ...] = ()
    refusals_total: int = 0
    finishes: tuple[Finish, ...] = ()
    finishes_left_out: int = 0
    last_said: str = ""
    last_said_seq: int = 0
    is_last_said_cut: bool = False
    result: BestResult | None = None
    diffs: tuple[FileDiff, ...] = ()
    diffs_left_out: int = 0
    metrics: tuple[Metric, ...] = ()
    metrics_left_out: int = 0
    failed_evaluations: tuple[FailedEvaluation, ...] = ()
    claims: tuple[ClaimFacts, ...] = ()
    claims_left_out: int = 0
    claims_seq: int = 0
    claims_missing: tuple[str, ...] = ()
    claims_problems: tuple[str, ...] = ()
    artifacts: tuple[ArtifactFacts, ...] = ()
    artifacts_total: int = 0
    artifacts_bytes: int = 0
    artifacts_deleted: int = 0
    waits: tuple[Wait, ...] = ()
    waits_total: int = 0
    outages: tuple[Outage, ...] = ()
    approvals: tuple[Approval, ...] = ()
    approvals_total: int = 0
    mode: str = ""
    rungs: tuple[str, ...] = ()
    notices: tuple[Notice, ...] = ()
    notices_total: int = 0
    crashes: tuple[Notice, ...] = ()
    crashes_total: int = 0
    processes: tuple[ProcessFacts, ...] = ()
    left_running: tuple[LeftProcess, ...] = ()
    left: tuple[Remaining, ...] = ()
    left_out: int = 0
    next_commands: tuple[tuple[str, str], ...] = ()

    @property
    def show_command(self) -> str:
        """What shows every event."""
        return f"mainspring show {self.session}"
