"""The score of a change, its reasons, and when a person is asked: tables."""

from __future__ import annotations

from typing import Any

import pytest

from mainspring.checks.review_settings import SENSITIVE, ReviewSettings
from mainspring.checks.risk import RiskFacts, facts_of_change, risk_lines, risk_of, sensitive_in, why_ask
from mainspring.workspace.parsed_diff import parse_diff

KNOWN: Any = {"untested": 0}


@pytest.mark.parametrize(
    ("facts", "score", "whats"),
    [
        (RiskFacts(files=1, added=10, **KNOWN), 0, []),
        (RiskFacts(files=1, added=30, removed=30, **KNOWN), 5, ["size"]),
        (RiskFacts(files=30, added=2000, **KNOWN), 40, ["size", "files"]),
        (RiskFacts(files=1, api=("f",), new_api=("g",), **KNOWN), 20, ["public API"]),
        (RiskFacts(files=1, new_api=("g",), **KNOWN), 5, ["public API"]),
        (RiskFacts(files=1, secrets=1, **KNOWN), 40, ["secrets"]),
        (RiskFacts(files=1, deleted=("a",), **KNOWN), 10, ["deletions"]),
        (RiskFacts(files=5, deleted=("a", "b", "c", "d", "e"), **KNOWN), 20, ["deletions"]),
        (RiskFacts(files=1, untested=3), 10, ["untested"]),
        (RiskFacts(files=1, untested=80), 20, ["untested"]),
        (
            RiskFacts(files=2, sensitive={"migrations": ("m.py",), "lock files": ("l",)}, **KNOWN),
            50,
            ["migrations", "lock files"],
        ),
        (
            RiskFacts(files=60, added=9000, secrets=2, api=("f",), deleted=("x",), untested=400),
            100,
            ["secrets", "size", "public API", "untested", "files", "deletions"],
        ),
    ],
)
def test_a_score_adds_up_its_reasons(facts, score, whats):
    risk = risk_of(facts)
    assert (risk.score, [each.what for each in risk.reasons]) == (score, whats)
    assert sum(each.points for each in risk.reasons) >= risk.score


def test_what_is_not_known_is_told_and_adds_nothing():
    risk = risk_of(RiskFacts(files=1, untested=None, not_known=("what it reaches",)))
    assert risk.score == 0
    assert risk_lines(risk)[1:] == ["  not known: what it reaches", "  not known: which lines tests reach"]


SCORED = {
    35: RiskFacts(files=21, untested=60, new_api=("x",)),
    40: RiskFacts(secrets=1, untested=0),
    45: RiskFacts(secrets=1, new_api=("x",), untested=0),
    50: RiskFacts(secrets=1, deleted=("x",), untested=0),
    60: RiskFacts(secrets=1, api=("f",), untested=0),
    80: RiskFacts(secrets=1, api=("f",), untested=99),
    100: RiskFacts(secrets=1, api=("f",), untested=99, deleted=tuple("abcde")),
}


@pytest.mark.parametrize(
    ("mode", "score", "limit", "is_asked"),
    [
        ("auto", 35, 0, False),
        ("auto", 40, 0, True),
        ("edits", 50, 0, False),
        ("edits", 60, 0, True),
        ("ask", 60, 0, False),
        ("ask", 80, 0, True),
        ("yolo", 100, 0, False),
        ("yolo", 50, 50, True),
        ("auto", 45, 50, False),
    ],
)
def test_the_mode_decides_from_which_score_a_person_is_asked(mode, score, limit, is_asked):
    risk = risk_of(SCORED[score])
    assert risk.score == score
    assert bool(why_ask(risk, mode, limit)) == is_asked


def test_sensitive_paths_are_asked_about_in_every_mode():
    risk = risk_of(RiskFacts(files=1, sensitive={"lock files": ("uv.lock",)}, untested=0))
    assert all("uv.lock" in why_ask(risk, mode) for mode in ("ask", "edits", "auto", "yolo"))


@pytest.mark.parametrize(
    ("path", "what"),
    [
        (".github/workflows/ci.yml", "CI configuration"),
        ("Jenkinsfile", "CI configuration"),
        ("src/app/auth/tokens.py", "authentication"),
        ("auth.py", "authentication"),
        ("api/oauth2.ts", "authentication"),
        ("app/migrations/0002_users.py", "migrations"),
        ("web/package-lock.json", "lock files"),
        ("uv.lock", "lock files"),
        ("src/author.py", ""),
        ("docs/ci.md", ""),
        ("src/locks.py", ""),
    ],
)
def test_sensitive_paths_are_known_by_their_names(path, what):
    assert list(sensitive_in([path], SENSITIVE)) == ([what] if what else [])


def test_own_sensitive_paths_take_the_place_of_the_built_in_ones():
    settings = ReviewSettings(sensitive={"billing": ("src/billing/**",)})
    assert list(sensitive_in(["src/billing/a.py", "uv.lock"], settings.sensitive_paths)) == ["billing"]


def test_facts_are_counted_from_a_diff():
    diff = "diff --git a/uv.lock b/uv.lock\ndeleted file mode 100644\n--- a/uv.lock\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n"
    facts = facts_of_change(parse_diff(diff), sensitive=SENSITIVE)
    assert (facts.files, facts.added, facts.removed, facts.deleted) == (1, 0, 2, ("uv.lock",))
    assert facts.not_known == ("what it reaches",)
