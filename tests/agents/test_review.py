"""`review`: findings about a change, from a session that only reads."""

from __future__ import annotations

import asyncio
import json

import pytest

from mainspring.app.operations.review import ReviewFailed, ReviewResult, review
from mainspring.app.operations.reviews import list_reviews, settle_finding
from mainspring.checks.reviewer import MAX_DIFF
from mainspring.errors import UsageError
from mainspring.models.scripted import Script, ScriptedCall, ScriptedModel, ScriptedReply
from tests.agents.family import settings
from tests.workspace.test_worktrees import git

FINDING = {
    "file": "a.py",
    "line": 2,
    "severity": "high",
    "title": "divides by zero",
    "why": "n may be 0",
    "quote": "return 1 / n",
    "reproduction": "f(0)",
    "confidence": 90,
}
INVENTED = {**FINDING, "quote": "return 2 / n", "title": "invented"}


@pytest.fixture
def project(tmp_path):
    place = tmp_path / "project"
    place.mkdir()
    (place / "a.py").write_text("def f(n):\n    return n\n")
    git(place, "init", "-q", "-b", "main")
    git(place, "add", "-A")
    git(place, "commit", "-qm", "first")
    return place


def answer(*findings: dict) -> ScriptedReply:
    text = {"summary": "Looked.", "findings": findings, "confidence": 60, "reasons": ["no tests were run"]}
    return ScriptedReply(text=json.dumps(text))


def reviewed(project, target: str = "", *answers: ScriptedReply) -> tuple[ReviewResult, list[str]]:
    sent: list[str] = []
    look = ScriptedReply(calls=(ScriptedCall("read", {"path": "a.py"}),))
    model = ScriptedModel(
        Script(replies=(look, *(answers or (answer(FINDING),)))),
        on_request=lambda request: sent.append(b"".join(request.messages).decode()),
    )
    result = asyncio.run(review(settings(project.parent / "home"), project, target, model=model))
    return result, sent


def test_what_is_not_committed_is_reviewed_with_new_files(project):
    (project / "a.py").write_text("def f(n):\n    return 1 / n\n")
    (project / "new.py").write_text("fresh = True\n")
    result, sent = reviewed(project)
    assert [(each.file, each.line, each.severity) for each in result.findings] == [("a.py", 2, "high")]
    assert (result.confidence, result.reasons) == (60, ("no tests were run",))
    assert "+    return 1 / n" in sent[0]
    assert "+fresh = True" in sent[0]


def test_a_commit_or_a_file_can_be_named_and_no_finding_is_an_answer(project):
    first = git(project, "rev-parse", "HEAD")
    (project / "a.py").write_text("changed = 1\n")
    git(project, "commit", "-qam", "second")
    result, sent = reviewed(project, first, answer())
    assert result.findings == ()
    assert "+changed = 1" in sent[0]
    (project / "x.diff").write_text("--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x\n+from a file\n")
    assert "+from a file" in reviewed(project, "x.diff", answer())[1][0]


def test_what_cannot_be_verified_is_asked_about_once_and_then_told_apart(project):
    (project / "a.py").write_text("def f(n):\n    return 1 / n\n")
    result, sent = reviewed(project, "", answer(FINDING, INVENTED), answer(FINDING, INVENTED))
    assert [each.title for each in result.findings] == ["divides by zero"]
    assert [(each.title, "not there" in each.problem) for each in result.unverified] == [("invented", True)]
    assert "could not be verified" in sent[-1]
    assert len(sent) == 3


def test_a_finding_that_a_second_look_takes_back_is_not_told(project):
    (project / "a.py").write_text("def f(n):\n    return 1 / n\n")
    result, _ = reviewed(project, "", answer(INVENTED), answer())
    assert (result.findings, result.unverified) == ((), ())


def test_what_was_left_out_of_a_long_change_is_named(project):
    (project / "a.py").write_text("def f(n):\n    return 1 / n\n")
    (project / "long.txt").write_text(("x" * 79 + "\n") * (MAX_DIFF // 79))
    result, sent = reviewed(project)
    assert any("long.txt" in each for each in result.not_reviewed)
    assert "return 1 / n" in sent[0]
    assert len(sent[0]) < MAX_DIFF + 20_000


def test_a_review_without_an_answer_is_a_failure_and_on_record(project):
    (project / "a.py").write_text("def f(n):\n    return 1 / n\n")
    with pytest.raises(ReviewFailed) as failed:
        reviewed(project, "", ScriptedReply(text="no JSON"), ScriptedReply(text="still none"))
    assert failed.value.exit_code == 3
    (past,) = asyncio.run(list_reviews(settings(project.parent / "home"), limit=10))
    assert past.ended
    assert past.ended.failure


@pytest.mark.parametrize("target", ["", "nothing-like-it", "--output=x"])
def test_nothing_to_review_is_told(project, target):
    with pytest.raises(UsageError):
        reviewed(project, target)


def test_reviews_are_listed_with_what_became_of_each_finding(project):
    config = settings(project.parent / "home")
    (project / "a.py").write_text("def f(n):\n    return 1 / n\n")
    first, _ = reviewed(project)
    (past,) = asyncio.run(list_reviews(config, limit=10))
    assert (past.review, past.states) == (first.session, ("open",))
    found = asyncio.run(settle_finding(config, first.session[:12], 1, "dismissed", "n is positive", limit=10))
    assert found.states == ("dismissed",)
    with pytest.raises(UsageError):
        asyncio.run(settle_finding(config, first.session, 2, "fixed", "", limit=10))
    (project / "a.py").write_text("def f(n):\n    return n\n\nx = 1\n")
    reviewed(project, "", answer())
    assert len(asyncio.run(list_reviews(config, limit=10))) == 2
