"""`review`: findings about a change, from a session that only reads."""

from __future__ import annotations

import asyncio
import json

import pytest

from mainspring.app.operations.review import ReviewResult, review
from mainspring.errors import UsageError
from mainspring.models.scripted import Script, ScriptedCall, ScriptedModel, ScriptedReply
from tests.agents.family import settings
from tests.workspace.test_worktrees import git

FINDING = {"file": "a.py", "line": 2, "severity": "high", "title": "divides by zero", "why": "n may be 0"}


@pytest.fixture
def project(tmp_path):
    place = tmp_path / "project"
    place.mkdir()
    (place / "a.py").write_text("def f(n):\n    return n\n")
    git(place, "init", "-q", "-b", "main")
    git(place, "add", "-A")
    git(place, "commit", "-qm", "first")
    return place


def reviewed(project, target: str = "", findings: tuple[dict, ...] = (FINDING,)) -> tuple[ReviewResult, str]:
    sent: list[str] = []
    answer = json.dumps({"summary": "One problem.", "findings": findings})
    look = ScriptedReply(calls=(ScriptedCall("read", {"path": "a.py"}),))
    model = ScriptedModel(
        Script(replies=(look, ScriptedReply(text=answer))),
        on_request=lambda request: sent.append(b"".join(request.messages).decode()),
    )
    result = asyncio.run(review(settings(project.parent / "home"), project, target, model=model))
    return result, sent[0]


def test_what_is_not_committed_is_reviewed_with_new_files(project):
    (project / "a.py").write_text("def f(n):\n    return 1 / n\n")
    (project / "new.py").write_text("fresh = True\n")
    result, sent = reviewed(project)
    assert [(each.file, each.line, each.severity) for each in result.findings] == [("a.py", 2, "high")]
    assert "+    return 1 / n" in sent
    assert "+fresh = True" in sent


def test_a_commit_or_a_file_can_be_named_and_no_finding_is_an_answer(project):
    first = git(project, "rev-parse", "HEAD")
    (project / "a.py").write_text("changed = 1\n")
    git(project, "commit", "-qam", "second")
    result, sent = reviewed(project, first, findings=())
    assert result.findings == ()
    assert "+changed = 1" in sent
    (project / "x.diff").write_text("--- a/a.py\n+++ b/a.py\n+from a file\n")
    assert "+from a file" in reviewed(project, "x.diff")[1]


@pytest.mark.parametrize("target", ["", "nothing-like-it"])
def test_nothing_to_review_is_told(project, target):
    with pytest.raises(UsageError):
        reviewed(project, target)
