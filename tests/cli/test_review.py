"""`review` and `reviews` on the command line: what is printed, and which exit code says it."""

from __future__ import annotations

import json

import pytest

from tests.documents.test_sarif import checked
from tests.workspace.test_worktrees import git

FINDING = {
    "file": "a.py",
    "line": 2,
    "severity": "medium",
    "title": "divides by zero",
    "why": "n may be 0",
    "quote": "return 1 / n",
    "reproduction": "f(0)",
    "confidence": 90,
}


@pytest.fixture
def project(machine):
    place = machine.workspace
    (place / "a.py").write_text("def f(n):\n    return n\n")
    git(place, "init", "-q", "-b", "main")
    git(place, "add", "-A")
    git(place, "commit", "-qm", "first")
    (place / "a.py").write_text("def f(n):\n    return 1 / n\n")
    return machine


def answers(machine, *findings: dict) -> str:
    text = json.dumps({"summary": "Looked.", "findings": findings, "confidence": 60, "reasons": ["read it"]})
    return machine.serve({"text": text}, {"text": text})


def test_findings_are_printed_and_the_exit_code_tells_that_there_are_some(project):
    done = project.run("review", "--model", answers(project, FINDING))
    assert done.returncode == 1, done.stderr
    assert "a.py:2: medium: [1] divides by zero" in done.stdout
    assert "To see it: f(0)" in done.stdout
    assert "which is no evidence: 60 of 100: read it" in done.stdout
    quiet = project.run("review", "--fail-on", "high", "--model", answers(project, FINDING))
    assert quiet.returncode == 0, quiet.stderr


def test_no_finding_is_an_answer_and_an_invented_one_is_told_apart(project):
    assert "No findings. Looked." in project.run("review", "--model", answers(project)).stdout
    done = project.run("review", "--model", answers(project, {**FINDING, "quote": "return 2 / n"}))
    assert done.returncode == 0, done.stderr
    assert "Not verified, so perhaps not there (1):" in done.stdout
    assert "the code that it quotes is not there" in done.stdout


def test_sarif_is_what_the_standard_demands_and_what_was_left_out_is_an_exit_code(project):
    done = project.run("review", "--format", "sarif", "--model", answers(project, FINDING))
    (result,) = checked(json.loads(done.stdout))
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == 2
    (project.workspace / "long.txt").write_text(("x" * 79 + "\n") * 6_000)
    done = project.run("review", "--json", "--model", answers(project))
    assert done.returncode == 3, done.stderr
    assert "long.txt" in json.loads(done.stdout)["not_reviewed"][0]


def test_reviews_are_listed_settled_and_compared_with_their_confidence(project):
    project.run("review", "--model", answers(project, FINDING))
    listed = json.loads(project.run("reviews", "--json").stdout)
    assert listed["states"] == ["open"]
    settled = project.run("reviews", "dismiss", listed["review"], "1", "--why", "n is positive")
    assert "[1] dismissed: a.py:2" in settled.stdout, settled.stderr
    assert "80-100 0 of 1 (0 %)" in project.run("reviews", "calibration").stdout
    (project.home / "sessions" / listed["session"] / "journal.sqlite").write_bytes(b"no journal" * 1000)
    damaged = project.run("reviews")
    assert damaged.returncode == 0, damaged.stderr


def test_a_diff_of_files_that_are_not_utf8_is_taken_and_one_that_fits_nothing_here_says_so(project):
    fits = b"--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n def f(n):\n-    return n\n+    return 1 / n\n"
    place = project.workspace
    (place / "done.diff").write_bytes(fits)
    (place / "latin.diff").write_bytes(fits.replace(b"def f", "def é".encode("latin-1")))
    (place / "none.diff").write_bytes(b"\xff\x00 no diff")
    done = project.run("review", "done.diff", "--json", "--model", answers(project, FINDING))
    assert json.loads(done.stdout)["findings"], done.stderr
    assert not json.loads(done.stdout).get("not_reviewed")
    other = project.run("review", "latin.diff", "--json", "--model", answers(project))
    assert other.returncode == 3, other.stderr
    assert "it applies to none of their contents" in json.loads(other.stdout)["not_reviewed"][0]
    none = project.run("review", "none.diff", "--risk")
    assert (none.returncode, "none.diff holds no diff" in none.stderr) == (2, True)


def test_what_nobody_could_look_at_is_told_and_before_the_first_commit_all_is_new(machine):
    place = machine.workspace
    nowhere = machine.run("review", "--model", answers(machine), GIT_CEILING_DIRECTORIES=str(place.parent))
    assert (nowhere.returncode, "is not in a git repository" in nowhere.stderr) == (2, True)
    git(place, "init", "-q", "-b", "main")
    (place / "a.py").write_text("def f(n):\n    return 1 / n\n")
    found = machine.run("review", "--model", answers(machine, {**FINDING, "file": "b/a.py"}))
    assert "a.py:2: medium: [1] divides by zero" in found.stdout.splitlines(), found.stderr
    (place / "logo.png").write_bytes(b"\x89PNG\0\0")
    partly = machine.run("review", "--model", answers(machine))
    assert (partly.returncode, "not reviewed: logo.png: it is binary" in partly.stderr) == (3, True)
