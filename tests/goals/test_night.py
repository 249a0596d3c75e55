"""A night in miniature: an experiment in the background, an outage, a kill -9, a refused DONE, and a report."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.conftest import Machine, machine, until
from tests.goals.test_kill_matrix import at_work_in
from tests.goals.test_loop import DONE, events

__all__ = ["machine"]

EXPERIMENT_S = 20
PROFILE = """
prompt = "Run the experiment, then write what it says."
waits = "processes"
[rules]
max_iterations = 10
max_wait_s = 300.0
outage_wait_s = 0.5
"""
EXPERIMENT = f"""sleep {EXPERIMENT_S}
echo METRIC loss=0.25
echo step,loss > result.csv
echo 1,0.25 >> result.csv
"""
CHECK = "test -s summary.md || { echo summary.md is missing; exit 3; }"


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    return {"calls": [{"name": tool, "arguments": arguments}]}


def night(machine: Machine) -> tuple[str, ...]:
    """What the model says in each turn; the second begins with an outage that lasts longer than the retries."""
    outage = {"kind": "status", "status": 503, "times": 5}
    turns = [
        [call("shell", command="sh experiment.sh", background=True), {"text": "It runs."}],
        [{**call("shell", command="cat result.csv"), "faults": [outage]}, {"text": f"It is 0.25.\n\n{DONE}"}],
        [call("write", path="summary.md", content="The loss is 0.25.\n"), {"text": f"Written.\n\n{DONE}"}],
    ]
    cases = [{"contains": f"Turn {n} of", "replies": replies} for n, replies in enumerate(turns, 1)]
    model = machine.serve(cases=cases)
    (machine.home / "profiles").mkdir(parents=True)
    (machine.home / "profiles" / "night.toml").write_text(PROFILE)
    (machine.home / "config.toml").write_text("[retry]\nwaits_s = [0.01, 0.01]\n")
    (machine.workspace / "experiment.sh").write_text(EXPERIMENT)
    return (
        *("goal", "start", "find the loss", "--profile", "night", "--model", model, "--json"),
        *("--check", CHECK, "--file", "result.csv", "--target", "loss<=0.5"),
    )


@pytest.mark.slow
def test_a_night_ends_with_a_report_that_can_be_trusted(machine: Machine) -> None:
    words = night(machine)
    with machine.start(*words) as first:
        seen = until(first, "WaitStarted")
        first.kill()
    assert "ProcessStarted" in [event["kind"] for event in seen]
    name = machine.only_session()["id"]
    assert events(machine, "GoalEnded") == []
    again = machine.run(*words)
    assert again.returncode == 0, again.stderr
    check_the_journal(machine)
    report = json.loads(machine.run("goal", "report", name, "--json").stdout)
    check_the_report(report)
    told = machine.run("goal", "report", name).stdout
    assert [word in told for word in ("find the loss", "summary.md is missing", "result.csv")] == [True] * 3
    assert "<html" in machine.run("goal", "report", name, "--html", "-").stdout
    assert at_work_in(machine.workspace) == []
    assert (machine.workspace / "summary.md").read_text() == "The loss is 0.25.\n"


def check_the_journal(machine: Machine) -> None:
    ends = events(machine, "IterationEnded")
    assert [(item["iteration"], item["outcome"]) for item in ends] == [
        (1, "continued"),
        (2, "refused"),
        (3, "done"),
    ]
    (ended,) = events(machine, "GoalEnded")
    assert (ended["ending"], ended["grade"]) == ("done", "claimed"), "the agent itself reported the loss"
    started = [item["wait"] for item in events(machine, "WaitStarted")]
    assert sorted(started) == sorted(item["wait"] for item in events(machine, "WaitEnded"))
    assert len(set(started)) == len(started) == 2, "one for the experiment, one for the outage"
    assert len(events(machine, "ProcessStarted")) == 1, "the experiment ran once"
    verified = machine.run("verify", machine.only_session()["id"])
    assert verified.returncode == 0, verified.stderr


def check_the_report(report: dict[str, Any]) -> None:
    assert report["standing"] == "claimed"
    grades = {item["kind"]: item["grade"] for item in report["checks"]}
    assert grades == {"command": "verified", "file": "verified", "target": "claimed"}
    assert [item["outcome"] for item in report["iterations"]] == ["continued", "refused", "done"]
    (refused,) = report["refusals"]
    assert (refused["exit_code"], refused["iteration"]) == (3, 2)
    assert "summary.md is missing" in refused["output"]
    experiment, outage = report["waits"]
    assert experiment["duration_s"] >= EXPERIMENT_S / 2
    assert experiment["cause"] == outage["cause"] == "met"
    assert [item["error"] for item in report["outages"]] == ["Overloaded"]
    assert {item["path"] for item in report["artifacts"]} >= {"result.csv", "summary.md"}
    (loss,) = report["metrics"]
    assert (loss["name"], loss["rows"][-1]["median"]) == ("loss", 0.25)
