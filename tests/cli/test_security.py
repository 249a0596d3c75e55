"""`doctor --security` on every sandbox that works here, and what it says when a promise is broken."""

from __future__ import annotations

import asyncio
import json
import os
from functools import cache
from pathlib import Path

import pytest

from mainspring.app.operations.security import SecurityCheck, Trial
from mainspring.sandbox.probe import probe
from tests.cli.conftest import Machine


@cache
def standing() -> frozenset[str]:
    report = asyncio.run(probe({"PATH": os.environ["PATH"], "HOME": str(Path.home())}))
    return frozenset(rung.name for rung in report.rungs if rung.is_available)


@pytest.mark.parametrize("rung", ["bwrap", "landlock", "container"])
def test_every_promise_holds_here(rung: str, machine: Machine) -> None:
    if rung not in standing():
        pytest.skip(f"{rung} does not work here")
    done = machine.run("doctor", "--security", "--sandbox", rung, "--json")
    check = json.loads(done.stdout)
    assert [trial for trial in check["trials"] if trial.get("found") and not trial.get("is_gap")] == []
    assert (done.returncode, check["ok"], check["rung"]) == (0, True, rung)
    assert len(check["trials"]) >= 30
    assert not list(machine.home.rglob("security-*"))


@pytest.mark.parametrize(
    ("rung", "found", "is_gap", "is_held"),
    [
        ("bwrap", "", False, True),
        ("bwrap", "out", True, True),
        ("bwrap", "out", False, False),
        ("", "", False, False),
    ],
)
def test_all_is_held_only_with_a_sandbox_and_no_failure_but_its_gaps(
    rung: str, found: str, is_gap: bool, is_held: bool
) -> None:
    trial = Trial(subject="writes", name="write-outside", found=found, is_gap=is_gap)
    assert SecurityCheck(rung=rung, trials=(trial,), duration_s=1.0).is_held is is_held


def test_a_sandbox_that_does_not_work_here_is_named_with_those_that_do(machine: Machine) -> None:
    done = machine.run("doctor", "--security", "--sandbox", "none")
    assert done.returncode == 2
    assert "'none' does not work here" in done.stderr


def test_a_data_folder_with_a_very_long_path_is_tried_as_well(machine: Machine) -> None:
    deep = machine.home / ("deep" * 20) / ("deeper" * 15)
    deep.mkdir(parents=True, mode=0o700)
    done = machine.run("doctor", "--security", "--json", MAINSPRING_HOME=str(deep))
    assert (done.returncode, json.loads(done.stdout)["ok"]) == (0, True), done.stderr
