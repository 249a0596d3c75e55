"""One task attempted in parallel worktrees: real git, real checks, real processes that are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import ROOT
from tests.cli.conftest import Machine

CHECK = "grep -q right answer.txt"


def git(machine: Machine, *arguments: str) -> str:
    identity = {
        "GIT_AUTHOR_NAME": "p",
        "GIT_AUTHOR_EMAIL": "p@x",
        "GIT_COMMITTER_NAME": "p",
        "GIT_COMMITTER_EMAIL": "p@x",
    }
    ran = subprocess.run(
        ["git", *arguments], cwd=machine.workspace, env={**os.environ, **identity}, check=True,
        capture_output=True, text=True,
    )  # fmt: skip
    return ran.stdout.strip()


@pytest.fixture
def repository(machine: Machine) -> Machine:
    git(machine, "init", "-q", "-b", "main")
    (machine.workspace / "answer.txt").write_text("wrong\n")
    (machine.workspace / "mine.txt").write_text("mine\n")
    git(machine, "add", "-A")
    git(machine, "commit", "-qm", "begin")
    return machine


def writes(text: str) -> tuple[dict[str, Any], ...]:
    read = {"name": "read", "arguments": {"path": "answer.txt"}}
    write = {"name": "write", "arguments": {"path": "answer.txt", "content": text}}
    return {"calls": [read]}, {"calls": [write]}, {"text": "Written."}


def farm(machine: Machine, *arguments: str) -> tuple[int, dict[str, Any]]:
    ran = machine.run("farm", *arguments, "--json", XDG_CACHE_HOME=str(machine.home.parent / "cache"))
    assert ran.stdout, ran.stderr
    return ran.returncode, json.loads(ran.stdout)


FREE = ("--mode", "yolo", "--max-cost-usd", "1", "--allow-unpriced")


def test_the_best_attempt_of_several_models_is_landed_and_nothing_is_left(repository: Machine) -> None:
    models = [repository.serve(*writes(text)) for text in ("wrong still\n", "right\n" * 9, "right\n")]
    named = [each for model in models for each in ("--model", model)]
    code, found = farm(repository, "answer it", *named, "--check", CHECK, "--land", *FREE)
    assert code == 0
    assert found["best"] == 3
    assert [len(each["ended"].get("passed", [])) for each in found["attempts"]] == [0, 1, 1]
    assert (repository.workspace / "answer.txt").read_text() == "right\n"
    assert git(repository, "status", "--porcelain") == ""
    assert git(repository, "rev-list", "--count", "main") == "2"
    assert git(repository, "worktree", "list").count("\n") == 0
    kept = git(repository, "for-each-ref", "--format=%(refname:short)", "refs/heads/mainspring/").splitlines()
    assert kept == [found["attempts"][at]["started"]["branch"] for at in (0, 1)]
    assert git(repository, "show", f"{kept[1]}:answer.txt") == ("right\n" * 9).strip()
    assert not list((repository.home.parent / "cache").glob("mainspring/farms/*/*"))


def test_nothing_lands_unasked_and_a_farm_is_landed_later(repository: Machine) -> None:
    model = repository.serve(*writes("right\n"))
    code, found = farm(repository, "answer it", "-n", "1", "--model", model, "--check", CHECK, *FREE)
    assert (code, (repository.workspace / "answer.txt").read_text()) == (0, "wrong\n")
    (repository.workspace / "mine.txt").write_text("moved on\n")
    git(repository, "commit", "-qam", "move on")
    ran = repository.run("farm", "--resume", found["session"], "--land", "--drop")
    assert ran.returncode == 0, ran.stderr
    assert "It has landed." in ran.stdout
    assert (repository.workspace / "answer.txt").read_text() == "right\n"
    assert (repository.workspace / "mine.txt").read_text() == "moved on\n"
    assert git(repository, "for-each-ref", "refs/heads/mainspring/") == ""


def test_a_conflict_is_named_and_nothing_is_changed(repository: Machine) -> None:
    model = repository.serve(*writes("right\n"))
    _, found = farm(repository, "answer it", "-n", "1", "--model", model, "--check", CHECK, *FREE)
    (repository.workspace / "answer.txt").write_text("another\n")
    git(repository, "commit", "-qam", "mine")
    ran = repository.run("farm", "--resume", found["session"], "--land")
    assert ran.returncode != 0
    assert "answer.txt" in ran.stderr
    assert (repository.workspace / "answer.txt").read_text() == "another\n"
    assert git(repository, "status", "--porcelain") == ""


def test_a_judge_decides_only_between_equals(repository: Machine) -> None:
    models = [repository.serve(*writes(text)) for text in ("right\n", "right, and longer\n" * 3, "wrong!\n")]
    named = [each for model in models for each in ("--model", model)]
    judge = repository.serve({"text": '{"best": 2, "why": "It says more."}'})
    _, found = farm(repository, "answer it", *named, "--check", CHECK, "--judge", judge, *FREE)
    assert found["best"] == 2
    assert "It says more." in found["reason"]
    asked = repository.servers[-1].seen[0].body.decode()
    assert "Attempt 1" in asked
    assert "Attempt 3" not in asked


def test_one_model_that_cannot_be_asked_costs_only_its_attempt(repository: Machine) -> None:
    good = repository.serve(*writes("right\n"))
    code, found = farm(
        repository, "answer it", "--model", good, "--model", "nobody/nothing", "--check", CHECK, *FREE
    )
    assert (code, found["best"]) == (0, 1)
    assert found["attempts"][1]["ended"]["ending"] == "failed"


def test_all_attempts_together_keep_within_the_budget(repository: Machine) -> None:
    endless = [{"calls": [{"name": "shell", "arguments": {"command": f"echo {n}"}}]} for n in range(30)]
    models = [each for _ in range(3) for each in ("--model", repository.serve(*endless))]
    _, found = farm(
        repository,
        "go on",
        *models,
        "--max-tokens",
        "30000",
        "--mode",
        "yolo",
        "--max-cost-usd",
        "1",
        "--allow-unpriced",
    )
    assert {each["ended"]["ending"] for each in found["attempts"]} <= {"budget", "limit"}
    assert sum(each["ended"].get("used", {}).get("tokens", 0) for each in found["attempts"]) <= 30_000


def test_changes_that_are_not_committed_are_named_and_a_farm_that_cannot_land_is_told_whole(
    repository: Machine,
) -> None:
    (repository.workspace / "answer.txt").write_text("mine, and not committed\n")
    model = repository.serve(*writes("right\n"))
    ran = repository.run("farm", "x", "-n", "1", "--model", model, "--check", CHECK, "--land", *FREE)
    assert ran.returncode == 2
    assert "! not committed, so not in the attempts: answer.txt" in ran.stderr
    assert "Land it: mainspring farm --resume" in ran.stdout
    assert "Commit or stash" in ran.stderr
    assert (repository.workspace / "answer.txt").read_text() == "mine, and not committed\n"


def test_landing_on_a_detached_head_is_refused_before_anything_is_spent(repository: Machine) -> None:
    git(repository, "checkout", "-q", "--detach")
    model = repository.serve(*writes("right\n"))
    asked = ("farm", "x", "-n", "1", "--model", model, "--check", CHECK, *FREE)
    refused = repository.run(*asked, "--land")
    assert (refused.returncode, repository.seen) == (2, [])
    assert "detached" in refused.stderr
    ran = repository.run(*asked)
    assert ran.returncode == 0, ran.stderr
    assert (
        git(
            repository,
            "show",
            f"{git(repository, 'for-each-ref', '--format=%(refname)', 'refs/heads/mainspring/')}:answer.txt",
        )
        == "right"
    )


def test_no_git_is_said(machine: Machine) -> None:
    ran = machine.run("farm", "x", "-n", "1", "--model", machine.serve({"text": "x"}), *FREE)
    assert ran.returncode != 0
    assert "no git repository" in ran.stderr


def test_a_killed_farm_goes_on_and_makes_nothing_twice(repository: Machine) -> None:
    """Killed while one attempt is over and another one works."""
    marker = repository.home.parent / "go"
    waits = {
        "calls": [
            {
                "name": "shell",
                "arguments": {"command": f"touch begun; until test -e {marker}; do sleep 0.05; done"},
            }
        ]
    }
    fast, slow = repository.serve(*writes("right\n")), repository.serve(waits, *writes("right too\n"))
    cache = str(repository.home.parent / "cache")
    process = subprocess.Popen(
        [sys.executable, "-m", "mainspring", "farm", "answer it", "--model", fast, "--model", slow, "--check", CHECK, "--sandbox", "none", *FREE],
        cwd=repository.workspace, env=repository.environment(XDG_CACHE_HOME=cache), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("✓ attempt 1"):
                break
        while not list(Path(cache).glob("mainspring/farms/*/2/begun")):
            assert process.poll() is None
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    (row,) = [
        r
        for r in map(json.loads, repository.run("sessions", "--json").stdout.splitlines())
        if not r.get("agent")
    ]
    marker.touch()
    asked = [len(server.seen) for server in repository.servers]
    code, found = farm(repository, "--resume", row["id"], "--sandbox", "none")
    assert code == 0
    assert len(repository.servers[0].seen) == asked[0], "an attempt that was over was made again"
    assert [each["ended"].get("passed", []) for each in found["attempts"]] == [[CHECK], [CHECK]]
    assert len({each["started"]["session"] for each in found["attempts"]}) == 2
    sessions = repository.run("sessions", "--json").stdout.splitlines()
    assert len(sessions) == 3
    again, same = farm(repository, "--resume", row["id"])
    assert (again, same["best"]) == (0, found["best"])


COMMITS = 40
A_FEW = (1, 9, 17)


@pytest.mark.parametrize(
    "commits",
    [
        pytest.param(number, marks=() if number in A_FEW else pytest.mark.slow)
        for number in range(1, COMMITS, 2)
    ],
)
def test_a_farm_that_is_killed_at_any_commit_is_whole_when_it_is_resumed(
    repository: Machine, commits: int
) -> None:
    effects = repository.home.parent / "effects"
    calls = [
        {
            "calls": [
                {
                    "name": "shell",
                    "arguments": {"command": f"echo {at} >> '{effects}'; echo right > answer.txt"},
                }
            ]
        }
        for at in (1, 2)
    ]
    models = [
        each
        for call in calls
        for each in ("--model", repository.serve(call, {"text": "Done."}, {"text": "Done."}))
    ]
    cache = str(repository.home.parent / "cache")
    ran = subprocess.run(
        [sys.executable, "-m", "tests.cli.killed_worker", str(commits), "farm", "answer it", *models, "--check", CHECK,
         "--sandbox", "none", "-C", str(repository.workspace), *FREE],
        cwd=ROOT, env=repository.environment(XDG_CACHE_HOME=cache), stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=60, check=False,
    )  # fmt: skip
    rows = [json.loads(line) for line in repository.run("sessions", "--json").stdout.splitlines()]
    farms = [row["id"] for row in rows if not row.get("agent")]
    assert ran.returncode == -signal.SIGKILL or commits > 20, ran.stderr
    assert farms, "what is recorded first is the farm"
    farm(repository, "--resume", farms[0], "--sandbox", "none")
    events = repository.events(farms[0])
    assert sorted(e["body"]["attempt"] for e in events if e["kind"] == "AttemptEnded") == [1, 2]
    assert sum(e["kind"] == "AttemptsEnded" for e in events) == 1
    assert len(repository.run("sessions", "--json").stdout.splitlines()) == 3
    happened = effects.read_text().split() if effects.exists() else []
    assert len(happened) == len(set(happened)), "a call was made twice"
    assert git(repository, "worktree", "list").count("\n") == 0


def test_a_farm_whose_best_touches_sensitive_files_lands_when_a_person_agrees(repository: Machine) -> None:
    write = {
        "name": "write",
        "arguments": {"path": "auth.py", "content": "def login(name):\n    return True\n"},
    }
    model = repository.serve({"calls": [write]}, {"text": "Written."})
    code, found = farm(repository, "x", "-n", "1", "--model", model, "--check", "test -e auth.py", *FREE)
    assert code == 0
    asked = ("farm", "--resume", found["session"], "--land")
    refused = repository.run(*asked)
    assert refused.returncode == 3
    assert "A person must agree before this lands" in refused.stderr
    assert "auth.py" in refused.stderr
    assert not (repository.workspace / "auth.py").exists()
    assert repository.run(*asked, "--yes").returncode == 0
    assert (repository.workspace / "auth.py").exists()
