"""What a report says of measurements, tokens and checks, exactly."""

from __future__ import annotations

import hashlib
from pathlib import Path

from mainspring.events import (
    Blob,
    Evaluation,
    GoalSet,
    Measurement,
    MeasurementsTaken,
    SpendReserved,
    SpendSettled,
    Usage,
)
from tests.cli.conftest import Machine, machine
from tests.goals.test_loop import DONE, engine, goal
from tests.report.telling import iteration, page, report_of, text

__all__ = ["machine"]

MEASURED = GoalSet(text="Make it", evaluation=Evaluation(command="./bench", metric="loss", better="lower"))


def test_the_number_of_runs_is_the_one_that_is_used_when_none_was_given(tmp_path: Path) -> None:
    value = Measurement(metric="loss", value=1.0)
    taken = MeasurementsTaken(iteration=1, is_ours=True, values=(value,) * 3, exit_codes=(0, 0, 0))
    shown = text(report_of(tmp_path, *iteration(1, taken), goal=MEASURED))
    assert "3 times in each iteration" in shown
    assert "0 times" not in shown


def test_an_evaluation_that_fails_each_time_is_told_with_its_output(tmp_path: Path) -> None:
    output = b"no such module: bench"
    blob = Blob(sha256=hashlib.sha256(output).hexdigest(), size=len(output), media_type="text/plain")
    flags = ("run 1 of 3 failed, exit code 1: no such module: bench",)
    taken = MeasurementsTaken(iteration=1, is_ours=True, flags=flags, exit_codes=(1, 1), output=blob)
    report = report_of(tmp_path, *iteration(1, taken), goal=MEASURED, kept={"text/plain": output})
    for shown in (text(report), page(report)):
        assert "The evaluation measured nothing in 1 iteration (1)." in shown
        assert "run 1 of 3 failed, exit code 1" in shown
        assert "no such module: bench" in shown


def test_every_table_has_the_same_tokens_and_money(tmp_path: Path) -> None:
    report = report_of(
        tmp_path,
        *iteration(
            1,
            SpendReserved(spend="a", source="step", model="m", tokens=100, usd=0.5),
            SpendSettled(spend="a", usage=Usage(input_tokens=10, output_tokens=5), usd=0.25),
            SpendReserved(spend="b", source="compaction", model="m", tokens=70, usd=0.5),
        ),
        *iteration(2, SpendReserved(spend="c", source="step", model="m", tokens=30, usd=0.1)),
    )
    table = sum(each.input_tokens + each.output_tokens + each.held_tokens for each in report.spendings)
    assert report.tokens == table == sum(each.tokens for each in report.iterations) == 115
    assert round(sum(each.cost_usd for each in report.iterations), 6) == round(report.cost_usd, 6)
    assert "not settled" in text(report)


def test_every_check_that_failed_is_named(machine: Machine) -> None:
    options = ("--check", "test -e one", "--check", "test -e two", "--max-iterations", "1")
    ran = goal(machine, engine(machine, other=f"touch x; echo {DONE!r}"), *options)
    assert "2 of 2 checks failed: test -e one; test -e two" in ran.stderr
