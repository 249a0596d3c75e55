"""The report leads with the result: the number that matters, what gave it, what changed; and gives it back."""

from __future__ import annotations

import json
import re
from pathlib import Path

from mainspring.documents.blocks import Table, row
from mainspring.documents.html import as_html
from mainspring.evidence.metrics import Summary
from mainspring.evidence.plots import line_plot
from mainspring.report.describe import figure
from tests.cli.conftest import Machine, machine
from tests.goals.test_loop import engine, events, goal

__all__ = ["machine"]

TURNS = {
    "t1": "echo 4 > value; echo mine >> projects/memory.md; echo METRIC other=1",
    "t2": "echo 1.23456 > value; echo 'return 2' > model.py; echo smaller",
    "t3": "echo 3 > value; echo 'return 3' > model.py; echo more >> projects/memory.md; echo worse",
}
MEASURE = ("--evaluate", "echo PARAM lr=$(cat value); echo METRIC loss=$(cat value) s", "--minimize", "loss")


def run(machine: Machine) -> Path:
    (machine.workspace / "value").write_text("5\n")
    ran = goal(machine, engine(machine, **TURNS), *MEASURE, "--max-iterations", "3")
    assert ran.returncode == 1, ran.stderr
    return machine.workspace


def test_the_report_begins_with_the_result_and_has_evidence_before_cost(machine: Machine) -> None:
    run(machine)
    report = machine.run("goal", "report").stdout
    places = [report.index(f"\n## {name}\n") for name in ("Result", "Evidence", "Metrics", "Figures")]
    assert places == sorted(places)
    first = report[: places[1]]
    assert "loss: from 4 s (iteration 1) to ✓ 1.23 s (iteration 2, 3 repeats; lower is better)" in first
    assert "Parameters: `lr=1.23456`" in first
    assert "-5\n+1.23456\n" in first, "the state of the best iteration, not of the last"
    assert "+return 2\n" in first
    assert "memory.md" not in first.partition("## Goal")[0]
    facts = json.loads(machine.run("goal", "report", "--json").stdout)["result"]
    ended = [event["seq"] for event in machine.events(machine.only_session()["id"])]
    assert (facts["best"]["iteration"], facts["best"]["median"]) == (2, 1.23456)
    assert facts["state_seq"] in ended


def test_the_best_state_is_put_back_without_the_memory_file_and_that_can_be_undone(machine: Machine) -> None:
    folder = run(machine)
    memory = (folder / "projects/memory.md").read_text()
    shown = machine.run("goal", "best")
    assert "loss: 4 ± 0 s in iteration 1, 1.23 ± 0 s in iteration 2 (lower is better)" in shown.stdout
    assert (folder / "value").read_text() == "3\n", "showing it changes nothing"
    restored = machine.run("goal", "best", "--restore")
    assert restored.returncode == 0, restored.stderr
    assert ((folder / "value").read_text(), (folder / "model.py").read_text()) == ("1.23456\n", "return 2\n")
    assert (folder / "projects/memory.md").read_text() == memory
    (back,) = re.findall(r"To take this back: mainspring (.*)", restored.stderr)
    undone = machine.run(*back.split())
    assert undone.returncode == 0, undone.stderr
    assert ((folder / "value").read_text(), (folder / "model.py").read_text()) == ("3\n", "return 3\n")
    assert (folder / "projects/memory.md").read_text() == memory


def test_a_goal_without_a_direction_has_no_best(machine: Machine) -> None:
    goal(machine, engine(machine, other="echo METRIC loss=1"), "--max-iterations", "1")
    ran = machine.run("goal", "best", "--restore")
    assert ran.returncode == 2
    assert "--minimize" in ran.stderr


def test_what_came_of_an_iteration_is_a_sentence_and_no_metric_line(machine: Machine) -> None:
    run(machine)
    details = [item["detail"] for item in events(machine, "IterationEnded")]
    assert details == ["The agent reported that other is 1.", "smaller", "worse"]


def test_figures_have_three_significant_digits() -> None:
    told = [figure(value) for value in (0.123456, 98.76, 12345.6, 1e-7, 0, -1234.5)]
    assert told == ["0.123", "98.8", "12,300", "1e-07", "0", "-1,230"]


def test_error_bars_have_ends() -> None:
    rows = [Summary(iteration=1, values=(1.0, 2.0, 3.0)), Summary(iteration=2, values=(2.0,))]
    (bar,) = re.findall(r'<path class="s" d="([^"]*)"', line_plot("t", "s", rows))
    assert re.fullmatch(r"M[\d.]+ [\d.]+V[\d.]+m-5 0h10M[\d.]+ [\d.]+m-5 0h10", bar) is not None


def test_wide_tables_are_stacked_on_a_phone_and_narrow_ones_are_not_stretched() -> None:
    wide = Table(("a", "b", "c", "d"), (row("1", "2", "3", "4"),))
    page = "".join(as_html("t", [Table(("a", "b"), (row("1", "2"),)), wide]))
    narrow, stacked = re.findall(r'<div class="wide[^>]*><table>.*?</table>', page, re.DOTALL)
    assert "data-h" not in narrow
    assert '<td data-h="d">4</td>' in stacked
    style = page.partition("</style>")[0]
    assert "min-width:100%" not in style
    assert ".rows td[data-h]::before{content:attr(data-h)" in style
