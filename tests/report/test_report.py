"""What a report says of rare cases, from journals written by hand."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import get_args, get_type_hints

from mainspring.app.operations.goal_list import graded, list_goals, state_of
from mainspring.events import (
    ApprovalAsked,
    ApprovalGiven,
    ArtifactChange,
    ArtifactsChanged,
    AssistantSaid,
    Blob,
    BudgetWarned,
    CallAsked,
    CallEnded,
    CheckEnded,
    Claim,
    ClaimChecked,
    ClaimsRead,
    Crashed,
    EngineChosen,
    EngineEnded,
    Evaluation,
    Evidence,
    GoalChecks,
    GoalEnded,
    GoalPaused,
    GoalRules,
    GoalSet,
    GuardTripped,
    IterationEnded,
    IterationStarted,
    Measurement,
    MeasurementsTaken,
    ModelChosen,
    OnTime,
    ProcessEnded,
    ProcessStarted,
    RequestFailed,
    SandboxChosen,
    SessionResumed,
    SpendReserved,
    SpendSettled,
    Target,
    Text,
    Usage,
    WaitEnded,
    WaitStarted,
    WorkFinished,
)
from mainspring.goals.fold import Goal
from mainspring.report.around import EventsAround
from mainspring.report.evidence import Checks
from mainspring.report.iterations import Iterations
from mainspring.report.results import Results
from mainspring.settings import load_config
from tests.report.telling import iteration, page, report_of, text, timed, written

CHECKED = GoalSet(text="Make it", checks=GoalChecks(commands=("pytest -q",)))
DONE = GoalEnded(ending="done", reason="Every check passed (1).", is_verified=True)
PASSED = CheckEnded(iteration=1, check="pytest -q", kind="command", passed=True, exit_code=0)
FAILED = CheckEnded(
    iteration=1, check="pytest -q", kind="command", passed=False, exit_code=1, detail="exit code 1"
)


def said(step: int, *calls: CallAsked, text: str = "") -> AssistantSaid:
    return AssistantSaid(step=step, parts=(Text(text=text), *calls))


def test_the_word_of_the_record_is_not_enough_when_a_check_says_otherwise(tmp_path: Path) -> None:
    report = report_of(tmp_path, *iteration(1, FAILED, outcome="done"), DONE, goal=CHECKED)
    assert (report.standing, report.standing_seqs) == ("refuted", (4,))


def test_a_check_that_was_not_looked_at_leaves_the_goal_claimed(tmp_path: Path) -> None:
    checks = GoalChecks(commands=("pytest -q", "ruff check"))
    goal = GoalSet(text="Make it", checks=checks)
    report = report_of(tmp_path, *iteration(1, PASSED, outcome="done"), DONE, goal=goal)
    assert report.standing == "claimed"
    assert report.standing_why.endswith("Not looked at: ruff check.")


def test_checks_of_an_earlier_iteration_do_not_verify_the_end(tmp_path: Path) -> None:
    events = [*iteration(1, PASSED), *iteration(2, outcome="done")]
    report = report_of(tmp_path, *events, DONE, goal=CHECKED)
    assert report.standing == "claimed"


def test_a_changed_evaluator_takes_the_verification_away(tmp_path: Path) -> None:
    measured = MeasurementsTaken(
        iteration=1,
        is_ours=True,
        values=(Measurement(metric="time", value=1.0),),
        flags=("the evaluator was changed: bench.py",),
    )
    report = report_of(tmp_path, *iteration(1, measured, PASSED, outcome="done"), DONE, goal=CHECKED)
    assert report.standing == "claimed"
    assert "the evaluator was changed: bench.py" in report.standing_why
    assert "the evaluator was changed: bench.py" in text(report)


def test_a_target_reached_by_the_agents_own_figures_is_doubted(tmp_path: Path) -> None:
    target = Target(metric="loss", relation="<", value=0.5)
    reached = CheckEnded(iteration=1, check="loss < 0.5", kind="target", passed=True)
    told = MeasurementsTaken(iteration=1, values=(Measurement(metric="loss", value=0.1),))
    ours = MeasurementsTaken(iteration=1, values=(Measurement(metric="loss", value=0.1),), is_ours=True)
    alone = GoalSet(text="x", checks=GoalChecks(targets=(target,)))
    both = GoalSet(text="x", checks=GoalChecks(targets=(target,), commands=("pytest -q",)))

    report = report_of(tmp_path / "1", *iteration(1, told, reached, outcome="done"), DONE, goal=alone)
    assert (report.standing, len(report.doubts)) == ("claimed", 1)
    report = report_of(tmp_path / "2", *iteration(1, told, reached, PASSED, outcome="done"), DONE, goal=both)
    assert (report.standing, len(report.doubts)) == ("claimed", 1), "as strong as the weakest"
    assert "loss < 0.5 rests on what the agent reported" in text(report)
    report = report_of(tmp_path / "3", *iteration(1, ours, reached, outcome="done"), DONE, goal=alone)
    assert (report.standing, report.doubts) == ("verified", ())


def test_claims_without_good_evidence_are_named(tmp_path: Path) -> None:
    asked = [
        CallAsked(call=name, name="shell", arguments=f'{{"command": "make {name}"}}') for name in ("c1", "c2")
    ]
    finished = WorkFinished(
        summary="All is well.",
        evidence=(
            Evidence(claim="it builds", calls=("c1",)),
            Evidence(claim="it is tested", calls=("c2",)),
            Evidence(claim="it is fast", calls=("c9",)),
            Evidence(claim="it is pretty", calls=()),
        ),
    )
    events = iteration(
        1,
        said(1, *asked),
        CallEnded(call="c1", outcome="ok", exit_code=0),
        CallEnded(call="c2", outcome="ok", exit_code=2),
        finished,
    )
    (finish,) = report_of(tmp_path, *events).finishes
    assert [(each.claim, each.doubt) for each in finish.claims] == [
        ("it builds", ""),
        ("it is tested", "A result that it cites is a failure."),
        ("it is fast", "No result of c9 is on record."),
        ("it is pretty", "It cites no recorded result."),
    ]
    (result,) = finish.claims[0].results
    assert (result.command, result.exit_code, result.seq) == ("make c1", 0, 5)


def test_every_change_of_the_goal_is_told_with_who_made_it(tmp_path: Path) -> None:
    report = report_of(
        tmp_path,
        GoalPaused(reason="Paused by request."),
        GoalSet(text="Make it well", by="anna"),
        GoalSet(text="Make it well", by="anna", rules=GoalRules(max_iterations=9)),
        GoalSet(text="Make it well", by="anna", rules=GoalRules(max_iterations=9)),
    )
    assert [(each.seq, each.text, each.by, each.changes) for each in report.texts] == [
        (2, "Make it", "user", ()),
        (4, "Make it well", "anna", ()),
        (5, "", "anna", ("rules",)),
    ]
    assert "by anna, event 4" in text(report)


def test_a_derivation_shows_which_check_closed_each_claim_and_what_is_open(tmp_path: Path) -> None:
    claims = (
        Claim(name="base", statement="1 = 1", check="true"),
        Claim(name="step", statement="x = y", check="false", depends_on=("base",)),
        Claim(name="goal", statement="QED", check="true", depends_on=("step",), is_goal=True),
        Claim(name="aside", statement="nice", status="assumed"),
    )
    events = iteration(
        1,
        ClaimsRead(iteration=1, claims=claims, problems=("line 9 is not a claim",)),
        ClaimChecked(iteration=1, claim="base", status="proved", exit_code=0, statement_sha256="ab"),
        ClaimChecked(iteration=1, claim="step", status="refuted", exit_code=1, detail="REFUTED"),
    )
    report = report_of(tmp_path, *events)
    assert [(each.name, each.status, each.seq, each.is_on_path) for each in report.claims] == [
        ("base", "proved", 5, True),
        ("step", "refuted", 6, True),
        ("goal", "open", 0, True),
        ("aside", "assumed", 0, False),
    ]
    assert "step is refuted" in report.claims_missing
    assert [each.detail for each in report.left if each.what == "open claim"] == list(report.claims_missing)
    assert "line 9 is not a claim" in page(report)


def test_metrics_are_held_against_the_best_before_them(tmp_path: Path) -> None:
    values = {1: (3.0, 3.1, 3.2), 2: (1.0, 1.1, 1.2), 3: (1.1, 1.0, 1.2), 4: (5.0, 5.1, 5.2), 5: (0.5,)}
    events = [
        event
        for number, seen in values.items()
        for event in iteration(
            number,
            MeasurementsTaken(
                iteration=number,
                is_ours=True,
                values=tuple(Measurement(metric="time", value=value, unit="s") for value in seen),
            ),
        )
    ]
    goal = GoalSet(text="x", evaluation=Evaluation(command="bench", metric="time", better="lower"))
    (metric,) = report_of(tmp_path, *events, goal=goal).metrics
    assert [row.verdict for row in metric.rows] == ["", "better", "same", "worse", "too few"]
    assert (metric.best_iteration, metric.is_best_sure) == (5, False)
    assert metric.plot.startswith("<svg")


def test_questions_grants_warnings_and_processes_are_told(tmp_path: Path) -> None:
    sha = hashlib.sha256(b"{}").hexdigest()
    report = report_of(
        tmp_path,
        SandboxChosen(rung="bwrap"),
        ApprovalAsked(call="c1", tool="shell", arguments="{}", arguments_sha256=sha, reason="it pushes"),
        ApprovalGiven(
            call="c1", arguments_sha256=sha, decision="allow", by="anna", scope="project", pattern="git *"
        ),
        ApprovalAsked(call="c2", tool="fetch", arguments="{}", arguments_sha256=sha),
        GuardTripped(guard="cycle", message="the same again", is_final=True),
        BudgetWarned(scope="goal", unit="usd", percent=80, spent=0.8, cap=1.0),
        ProcessStarted(handle="p1", call="c1", command="train", folder="/p"),
        ProcessStarted(handle="p2", call="c1", command="serve", folder="/p"),
        ProcessEnded(handle="p1", exit_code=0),
        EngineChosen(engine="codex", program="/bin/codex", version="9.1"),
        EngineEnded(exit_code=0, left_running=(7, 8)),
        Crashed(traceback="Traceback\n  here\nValueError: x"),
        GoalEnded(ending="blocked", reason="A question is open.", exit_code=3),
    )
    first, second = report.approvals
    assert (first.decision, first.by, first.scope, first.pattern, first.answer_seq) == (
        "allow",
        "anna",
        "project",
        "git *",
        5,
    )
    assert (second.decision, second.seq) == ("", 6)
    assert [(each.what, each.detail) for each in report.notices] == [
        ("guard", "cycle: the same again (ends the turn)"),
        ("budget", "80 % of the goal's budget is spent: $0.8000 of $1.0000"),
        ("engine", "it had left 2 processes running (7, 8)"),
    ]
    assert [each.handle for each in report.processes] == ["p2"]
    assert {each.what for each in report.left} == {"open question", "process without a recorded end"}
    assert report.next_commands[0][0] == "mainspring approve s1"
    assert (report.engine, report.engine_version) == ("codex", "9.1")
    shown = text(report)
    for fact in ("it had left 2 processes running (7, 8)", "ValueError: x", "project as git \\*", "bwrap"):
        assert fact in shown


def test_time_is_split_into_work_waits_and_absence() -> None:
    wait = WaitStarted(wait="w", conditions=(OnTime(at_us=0),))
    iterations = timed(
        (0, GoalSet(text="x")),
        (1, IterationStarted(iteration=1)),
        (4, wait),
        (5, wait),
        (10, WaitEnded(wait="w", cause="met")),
        (12, SessionResumed(version="1", host="h", pid=1)),
        (15, IterationEnded(iteration=1, outcome="done")),
        (16, GoalEnded(ending="done")),
    )
    clock = iterations.clock(99_000_000)
    assert (clock.wall_s, clock.working_s, clock.waiting_s) == (16.0, 6.0, 6.0)
    assert (clock.away_s, clock.between_s) == (2.0, 2.0)
    (facts,) = iterations.facts()
    assert (facts.working_s, facts.waiting_s, facts.away_s, facts.waits) == (6.0, 6.0, 2.0, 1)


def test_a_clock_that_jumps_back_takes_no_time_away() -> None:
    iterations = timed(
        (0, GoalSet(text="x")),
        (10, IterationStarted(iteration=1)),
        (3, IterationEnded(iteration=1, outcome="done")),
        (12, GoalEnded(ending="done")),
    )
    clock = iterations.clock(99_000_000)
    assert (clock.wall_s, clock.working_s, clock.between_s) == (12.0, 0.0, 12.0)


def test_a_wait_that_woke_late_says_so(tmp_path: Path) -> None:
    report = report_of(
        tmp_path,
        *iteration(1, WaitStarted(wait="w", conditions=(OnTime(at_us=0),), reason="a pause was asked for")),
        WaitEnded(wait="w", cause="deadline", summary="p1 still runs", late_s=3600.0),
    )
    (wait,) = report.waits
    assert (wait.cause, wait.reason, wait.late_s, wait.iteration) == (
        "deadline",
        "a pause was asked for",
        3600.0,
        1,
    )
    assert "1 woke later than they could have" in text(report)


def test_a_wait_is_over_with_its_call(tmp_path: Path) -> None:
    wait = WaitStarted(wait="c1", call="c1", conditions=(OnTime(at_us=0),))
    ended = CallEnded(call="c1", outcome="cancelled")
    report = report_of(tmp_path, *iteration(1, wait, ended))
    assert [each.cause for each in report.waits] == ["cancelled"]
    assert report.left == ()
    iterations = timed((0, GoalSet(text="x")), (1, IterationStarted(iteration=1)), (2, wait), (5, ended))
    clock = iterations.clock(10_000_001)
    assert (clock.waiting_s, clock.working_s) == (3.0, 6.0)


def test_outages_are_counted_by_their_kind(tmp_path: Path) -> None:
    again = RequestFailed(step=1, attempt=1, error="Overloaded", message="busy", retry_in_s=2.0)
    up = RequestFailed(step=1, attempt=2, error="Overloaded", message="busy still", model="m1")
    (outage,) = report_of(tmp_path, *iteration(1, again, again, up)).outages
    assert (outage.retries, outage.given_up, outage.models) == (2, 1, ("m1",))
    assert (outage.first_seq, outage.last_seq, outage.message) == (4, 6, "busy still")


def test_money_that_was_reserved_and_never_settled_counts(tmp_path: Path) -> None:
    report = report_of(
        tmp_path,
        SpendReserved(spend="a", source="step", model="m", tokens=100, usd=0.5),
        SpendSettled(spend="a", usage=Usage(input_tokens=10, output_tokens=5), usd=0.25),
        SpendReserved(spend="b", source="compaction", model="m", tokens=100, usd=0.5),
    )
    assert (report.cost_usd, report.tokens) == (0.75, 115)
    assert {(each.source, each.usd, each.unsettled) for each in report.spendings} == {
        ("step", 0.25, 0),
        ("compaction", 0.5, 1),
    }
    assert "1 request never settled" in text(report)


def test_money_is_told_by_the_model_that_was_chosen_when_it_was_reserved(tmp_path: Path) -> None:
    report = report_of(
        tmp_path,
        ModelChosen(model="m1"),
        SpendReserved(spend="step:1", usd=0.5),
        ModelChosen(model="m2"),
        SpendSettled(spend="step:1", usd=0.25),
        SpendReserved(spend="step:2", usd=0.5),
    )
    assert {(each.source, each.model, each.usd) for each in report.spendings} == {
        ("step", "m1", 0.25),
        ("step", "m2", 0.5),
    }


def test_a_preview_that_is_not_what_its_name_says_is_not_shown(tmp_path: Path) -> None:
    data = b"<html>not a picture</html>"
    sha = hashlib.sha256(data).hexdigest()
    change = ArtifactChange(path="a.png", kind="new", sha256=sha, size=len(data))
    blob = Blob(sha256=sha, size=len(data), media_type="image/png")
    changed = ArtifactsChanged(iteration=1, new=1, changes=(change,), previews=(blob,))
    report = report_of(tmp_path, *iteration(1, changed), kept={"image/png": data})
    assert report.artifacts[0].preview is None


def test_output_that_is_lost_is_said_to_be_lost(tmp_path: Path) -> None:
    gone = CheckEnded(
        iteration=1, check="x", kind="command", passed=True, output=Blob(sha256="ab" * 32, size=3)
    )
    (check,) = report_of(tmp_path, *iteration(1, gone)).checks
    assert check.output.startswith("(not readable any more:")


def test_each_event_is_given_to_a_handler_for_its_kind() -> None:
    iterations = Iterations()
    folds = (iterations, Checks(iterations), Results(), EventsAround(Goal(), iterations))
    for fold in folds:
        for kind, handler in fold.handlers.items():
            hints = get_type_hints(handler)
            if hints:  # a lambda has none
                taken = next(iter(hints.values()))
                assert issubclass(kind, get_args(taken) or taken), f"{kind.__name__} given to {handler}"


def test_an_old_journal_is_graded_again_and_its_doubts_are_no_checks(tmp_path: Path) -> None:
    def files(iteration: int, kind: str, sha256: str) -> ArtifactsChanged:
        change = ArtifactChange(path="check.sh", kind=kind, sha256=sha256 * 64, size=1)  # pyright: ignore[reportArgumentType]
        return ArtifactsChanged(iteration=iteration, changes=(change,))

    goal = GoalSet(text="x", checks=GoalChecks(commands=("bash check.sh",)))
    passed = CheckEnded(iteration=1, check="bash check.sh", kind="command", passed=True, exit_code=0)
    said = "named in a check, and changed by the agent itself in iteration 1"
    doubt = CheckEnded(iteration=1, check="check.sh", kind="file", passed=True, detail=said)
    done = [*iteration(1, passed, doubt, outcome="done"), DONE]
    report = report_of(tmp_path / "1", *done, goal=goal)
    assert (report.standing, [check.check for check in report.checks]) == ("checked", ["bash check.sh"])
    assert report.checks[0].written == ("check.sh",)
    changed = [files(0, "new", "a"), *iteration(1, files(1, "modified", "b"), passed, outcome="done"), DONE]
    assert report_of(tmp_path / "2", *changed, goal=goal).standing == "checked"
    left = [files(0, "new", "a"), *iteration(1, passed, outcome="done"), DONE]
    assert report_of(tmp_path / "3", *left, goal=goal).standing == "verified"


def test_the_list_of_goals_grades_old_journals_again_too(tmp_path: Path) -> None:
    goal = GoalSet(text="x", checks=GoalChecks(commands=("bash check.sh",)))
    change = ArtifactChange(path="check.sh", kind="new", sha256="a" * 64, size=1)
    passed = CheckEnded(iteration=1, check="bash check.sh", kind="command", passed=True, exit_code=0)
    old = [ArtifactsChanged(iteration=1, changes=(change,)), passed]

    async def listed() -> list[tuple[str, bool, str]]:
        journal = await written(tmp_path, goal, *iteration(1, *old, outcome="done"), DONE)
        await journal.close()
        config = load_config({"MAINSPRING_HOME": str(tmp_path), "HOME": str(tmp_path)})
        return [
            (row.grade, row.is_verified, state_of(row))
            for row in await graded(await list_goals(config), config)
        ]

    assert DONE.is_verified
    assert not DONE.grade
    assert asyncio.run(listed()) == [("checked", False, "done, checked")]
