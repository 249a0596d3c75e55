"""Findings are told as verified only when their file, line and code are there."""

from __future__ import annotations

from typing import Any

import pytest

from mainspring.checks.review_findings import FoundProblem, at_least, verify
from mainspring.checks.review_outcomes import calibration, past_reviews
from mainspring.events import (
    ChangesChecked,
    CheckedFile,
    CheckFinding,
    FileChange,
    FilesChanged,
    FindingSettled,
    Recorded,
    ReviewedFile,
    ReviewEnded,
    ReviewFinding,
    ReviewStarted,
    SuiteEnded,
)
from mainspring.workspace.parsed_diff import parse_diff

DIFF = """\
diff --git a/a.py b/a.py
index 1..2 100644
--- a/a.py
+++ b/a.py
@@ -1,3 +1,4 @@
 def f(n):
-    return n
+    n = n - 1
+    return 1 / n
 # end
diff --git a/gone.py b/gone.py
deleted file mode 100644
--- a/gone.py
+++ /dev/null
@@ -1,2 +0,0 @@
-def lock():
-    pass
diff --git a/logo.png b/logo.png
Binary files a/logo.png and b/logo.png differ
--- x/other.c\t2020-01-01
+++ y/other.c\t2020-01-02
@@ -7 +7 @@
--- old text
+++ new text
"""
NOW = {"a.py": "def f(n):\n    n = n - 1\n    return 1 / n\n", "caller.py": "import a\n\n\na.f(1)\n"}


def problem(file: str = "a.py", line: int = 3, quote: str = "return 1 / n", **fields) -> FoundProblem:
    return FoundProblem(
        **{"file": file, "line": line, "severity": "high", "title": "t", "why": "w", "quote": quote} | fields
    )


def test_a_diff_is_read_with_deleted_binary_and_headless_files():
    files = {each.path: each for each in parse_diff(DIFF)}
    assert list(files) == ["a.py", "gone.py", "logo.png", "y/other.c"]
    assert files["a.py"].added == {2: "    n = n - 1", 3: "    return 1 / n"}
    assert files["a.py"].removed == {2: "    return n"}
    assert files["gone.py"].is_deleted
    assert files["logo.png"].is_binary
    assert files["y/other.c"].added == {7: "++ new text"}
    quoted = 'diff --git "a/\\303\\244.py" "b/\\303\\244.py"\n--- /dev/null\n+++ "b/\\303\\244.py"\n@@ -0,0 +1 @@\n+x\n'
    (named,) = parse_diff(quoted)
    assert (named.path, named.is_new) == ("ä.py", True)


@pytest.mark.parametrize(
    ("found", "line"),
    [
        (problem(), 3),
        (problem(line=99), 3),  # the line of the code, not the one that was named
        (problem(quote="    n = n - 1\n    return 1 / n"), 2),
        (problem(file="caller.py", line=4, quote="a.f(1)"), 4),  # outside of the change
        (problem(file="gone.py", line=1, quote="def lock():"), 1),  # what went
    ],
)
def test_a_finding_whose_code_is_there_is_verified_at_its_line(found, line):
    result = verify([found], parse_diff(DIFF), NOW.get)
    assert [each.line for each in result.verified] == [line]
    assert not result.unverified


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (problem(file="invented.py"), "no such file"),
        (problem(quote="return 2 / n"), "not there"),
        (problem(quote="n = n - 1\nreturn 2 / n"), "not there"),
        (problem(quote=""), "quotes no code"),
        (problem(quote="``"), "quotes no code"),
    ],
)
def test_a_finding_whose_file_or_code_is_not_there_is_told_apart(found, why):
    result = verify([found], parse_diff(DIFF), NOW.get)
    assert not result.verified
    assert why in result.unverified[0].problem


def test_the_worst_comes_first_and_twins_count_once():
    found = [problem(severity="low"), problem(), problem(), problem(severity="medium")]
    result = verify(found, parse_diff(DIFF), NOW.get).verified
    assert [each.severity for each in result] == ["high", "medium", "low"]
    assert len(at_least(result, "medium")) == 2


FINDING = ReviewFinding(
    file="a.py", line=3, severity="high", title="t", why="w", quote="return 1 / n", confidence=90
)
STARTED = ReviewStarted(review="r1", subject="s", files=(ReviewedFile(path="a.py"),))
ENDED = ReviewEnded(review="r1", findings=(FINDING,), confidence=70)
ERROR = ChangesChecked(
    files=(CheckedFile(path="a.py", by=("ruff",), findings=(CheckFinding(by="ruff", message="m"),)),)
)
CHANGED = FilesChanged(changes=(FileChange(path="a.py", kind="modified"),))
PASSED, FAILED = (SuiteEnded(command="t", outcome=outcome) for outcome in ("passed", "failed"))


@pytest.mark.parametrize(
    ("later", "text", "finding", "review"),
    [
        ((), "return 1 / n", "open", "unknown"),
        ((), "return n", "changed", "unknown"),
        ((FindingSettled(review="r1", number=1, verdict="dismissed"),), "x", "dismissed", "unknown"),
        ((FindingSettled(review="r1", number=1, verdict="fixed"),), "return 1 / n", "fixed", "unknown"),
        ((PASSED,), "return 1 / n", "open", "held"),
        ((PASSED, FAILED), "return 1 / n", "open", "failed later"),
        ((ERROR,), "return 1 / n", "open", "failed later"),
        ((CHANGED, FAILED), "x", "changed", "unknown"),  # of another content
    ],
)
def test_what_became_of_a_review_is_a_fold_of_its_journal(later, text, finding, review):
    events = [Recorded(seq, 0, event) for seq, event in enumerate((STARTED, ENDED, *later), 1)]
    (found,) = past_reviews("s", events, {"a.py": text}.get)
    assert (found.states, found.state) == ((finding,), review)


def test_code_that_was_never_there_or_whose_folder_is_gone_says_nothing_of_a_finding():
    removed = problem(file="gone.py", line=1, quote="def lock():")
    (finding,) = verify([removed], parse_diff(DIFF), NOW.get).verified
    assert finding.is_gone
    ended = ReviewEnded(review="r", findings=(finding,))
    events = [Recorded(1, 0, ReviewStarted(review="r", subject="s")), Recorded(2, 0, ended)]
    assert past_reviews("s", events, NOW.get)[0].states == ("open",)
    (here,) = verify([problem()], parse_diff(DIFF), NOW.get).verified
    assert not here.is_gone
    events = [events[0], Recorded(2, 0, ReviewEnded(review="r", findings=(here,)))]
    assert past_reviews("s", events, {}.get)[0].states == ("changed",)
    assert past_reviews("s", events, None)[0].states == ("open",)


def test_own_confidence_is_compared_with_what_became_of_it():
    def one(review: str, confidence: int, verdict: Any) -> list:
        finding = ReviewFinding(
            file="a", line=1, severity="low", title="t", why="w", quote="q", confidence=confidence
        )
        settled = [FindingSettled(review=review, number=1, verdict=verdict)] if verdict else []
        return [
            ReviewStarted(review=review, subject="s"),
            ReviewEnded(review=review, findings=(finding,)),
            *settled,
        ]

    events = [
        *one("r1", 95, "fixed"),
        *one("r2", 85, "dismissed"),
        *one("r3", 10, "dismissed"),
        *one("r4", 90, ""),
    ]
    recorded = [Recorded(seq, 0, event) for seq, event in enumerate(events, 1)]
    found = calibration(past_reviews("s", recorded, {"a": "q"}.get))
    assert [(each.low, each.high, each.right, each.decided) for each in found.findings] == [
        (0, 19, 0, 1),
        (80, 100, 1, 2),
    ]
    assert found.open_findings == 1
