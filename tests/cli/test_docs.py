"""`docs` as a person runs it: what it prints, its exit codes, and a run that is killed."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import ROOT
from tests.cli.conftest import Machine, lines

PAGE = {"summary": "It keeps what a customer buys.", "directions": []}
GOOD = {"accurate": 5, "complete": 5, "clear": 5, "problem": ""}
NOTES = {"about": "It keeps things.", "items": []}
CASES = [
    {"contains": "Judge a page", "replies": [{"text": json.dumps(GOOD)}]},
    {"contains": "Describe these lines", "replies": [{"text": json.dumps(NOTES)}]},
    {"contains": "Describe the whole file", "replies": [{"text": json.dumps(PAGE)}]},
]


def written(machine: Machine) -> None:
    for name in ("one.go", "two.go"):
        (machine.workspace / name).write_text("package a\n\nfunc Open(path string) int { return 1 }\n")


def test_forge_status_reject_approve_and_diff(machine: Machine) -> None:
    written(machine)
    model = machine.serve(cases=CASES)
    ran = machine.run("docs", "forge", "--model", model)
    assert ran.returncode == 0, ran.stderr
    assert "wrote docs/api/one.go.md" in ran.stdout
    assert "2 approved, 0 rejected, 0 need a person" in ran.stdout
    assert "approved       one.go" in ran.stderr
    assert "\r" not in ran.stderr
    assert machine.only_session()["title"] == "pages for docs/api"
    rejected = machine.run("docs", "reject", "one.go", "--why", "It is dull.")
    assert rejected.stdout == "rejected one.go\nremoved docs/api/one.go.md\nwrote docs/api/index.md\n"
    status = machine.run("docs", "status").stdout
    assert "rejected (a person)  one.go: It is dull." in status
    assert "approved             two.go\n" in status
    machine.run("docs", "approve", "one.go")
    (row, _) = json.loads(machine.run("docs", "status", "--json").stdout)["pages"]
    assert (row["standing"], row["by"], row["page"]) == ("approved", "person", "current")
    assert machine.run("docs", "diff", "one.go").stdout == "The newest draft is the approved page.\n"
    missing = machine.run("docs", "approve", "none.go")
    assert missing.returncode == 2
    assert "There is no page about none.go" in missing.stderr


def test_a_terminal_sees_a_bar(machine: Machine) -> None:
    written(machine)
    model = machine.serve(cases=CASES)
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "mainspring", "docs", "forge", "--model", model],
        cwd=machine.workspace,
        env=machine.environment(TERM="xterm"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=theirs,
        timeout=300,
        check=False,
    )
    os.close(theirs)
    shown = os.read(ours, 65_536).decode()
    os.close(ours)
    assert done.returncode == 0, shown
    assert "] 2/2 " in shown
    assert shown.endswith("\r\x1b[K")


def killed(machine: Machine, commits: int, model: str) -> int:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.cli.killed_worker", str(commits), "docs", "forge", "--model", model,
         "--parallel", "2", "-C", str(machine.workspace)],
        cwd=ROOT, env=machine.environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip
    assert ran.returncode in (0, -signal.SIGKILL), ran.stderr
    return ran.returncode


def goes_on(machine: Machine, commits: int) -> None:
    written(machine)
    model = machine.serve(cases=CASES)
    assert killed(machine, commits, model) == -signal.SIGKILL
    ran = machine.run("docs", "forge", "--model", model, "--json")
    assert ran.returncode == 0, ran.stderr
    run = json.loads(ran.stdout)
    assert (run["approved"], run["undone"]) == (2, 0)
    events = machine.events(run["session"])
    for kind in ("PieceDrafted", "PageDrafted", "PageJudged"):
        about = [event["body"]["path"] for event in events if event["kind"] == kind]
        assert sorted(about) == ["one.go", "two.go"], f"{kind} more than once"
    pages = machine.workspace / "docs/api"
    assert sorted(path.name for path in pages.iterdir()) == ["index.md", "one.go.md", "two.go.md"]
    assert reserved(events) == settled(events) + lost(events)


def reserved(events: list[dict[str, Any]]) -> int:
    return sum(event["kind"] == "SpendReserved" for event in events)


def settled(events: list[dict[str, Any]]) -> int:
    return sum(event["kind"] == "SpendSettled" for event in events)


def lost(events: list[dict[str, Any]]) -> int:
    """Reservations that a killed process left: they count as spent."""
    names = {event["body"]["spend"] for event in events if event["kind"] == "SpendReserved"}
    return len(names - {event["body"]["spend"] for event in events if event["kind"] == "SpendSettled"})


COMMITS = 23
"""Those of an undisturbed run."""


@pytest.mark.parametrize("commits", [3, 11, 16])
def test_a_killed_run_goes_on_and_nothing_is_recorded_twice(machine: Machine, commits: int) -> None:
    goes_on(machine, commits)


@pytest.mark.proof
@pytest.mark.parametrize("commits", range(1, COMMITS + 1))
def test_a_run_killed_anywhere_goes_on_and_nothing_is_recorded_twice(machine: Machine, commits: int) -> None:
    goes_on(machine, commits)


def test_json_and_exit_codes_say_what_is_left(machine: Machine) -> None:
    written(machine)
    low = {"accurate": 3, "complete": 3, "clear": 3, "problem": "Dull."}
    judge = {"contains": "Judge a page", "replies": [{"text": json.dumps(low)}]}
    model = machine.serve(cases=[judge, *CASES[1:]])
    ran = machine.run("docs", "forge", "one.go", "--model", model, "--tries", "1", "--json")
    assert ran.returncode == 3
    (run,) = lines(ran.stdout)
    assert (run["person"], run["written"]) == (1, [])
    assert "needs a person one.go: Dull." in ran.stderr
    assert not (machine.workspace / Path("docs")).exists()
