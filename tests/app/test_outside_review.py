"""`[review] before_done` also looks at what an outside agent changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mainspring.checks.review_settings import ReviewSettings
from mainspring.events import REVIEW_SOURCE, NoteAdded, ReviewEnded, ReviewStarted, TurnEnded
from mainspring.models.scripted import Script, ScriptedReply
from mainspring.settings import Config
from mainspring.testing.server import HostedModelServer
from tests.checks.test_outside_regressions import taken, with_agent

BAD, GOOD = "def f(n):\n    return 1 / n\n", "def f(n):\n    return n\n"
FINDING = {
    "file": "a.py",
    "line": 2,
    "severity": "high",
    "title": "divides by zero",
    "why": "n may be 0",
    "quote": "return 1 / n",
}
REPAIRS = (
    f"if [ -e .once ]; then printf '%s' '{GOOD}' > a.py; else touch .once; printf '%s' '{BAD}' > a.py; fi"
)


def answer(*findings: dict[str, Any]) -> ScriptedReply:
    return ScriptedReply(text=json.dumps({"summary": "Looked.", "findings": findings}))


def reviewing(config: Config, model: str, **review: Any) -> Config:
    checks = msgspec.structs.replace(config.settings.checks, regressions="off")
    review_settings = ReviewSettings(before_done=True, model=model, **review)
    settings = msgspec.structs.replace(config.settings, review=review_settings, checks=checks)
    return msgspec.structs.replace(config, settings=settings)


@pytest.mark.parametrize(("script", "ending"), [(REPAIRS, "done"), (f"printf '%s' '{BAD}' > a.py", "failed")])
def test_what_a_review_finds_goes_back_to_the_outside_agent_a_few_times(
    tmp_path: Path, script: str, ending: str
) -> None:
    config, place = with_agent(tmp_path, script)
    replies = (answer(FINDING), answer() if ending == "done" else answer(FINDING))
    with HostedModelServer(Script(replies=replies)) as server:
        model = f"openai-compatible@{server.url}#test"
        events = taken(reviewing(config, model, rounds=1), place, "Write f.")
    notes = [each for each in events if isinstance(each, NoteAdded) and each.source == REVIEW_SOURCE]
    assert ["a.py:2 (high) divides by zero" in each.text for each in notes] == [True]
    reviews = [each for each in events if isinstance(each, ReviewEnded)]
    assert [len(each.findings) for each in reviews] == ([1, 0] if ending == "done" else [1])
    assert [each.ending for each in events if isinstance(each, TurnEnded)] == ["done", ending]


def test_without_a_model_to_review_with_the_turn_fails_and_says_so(tmp_path: Path) -> None:
    config, place = with_agent(tmp_path, f"printf '%s' '{BAD}' > a.py")
    events = taken(reviewing(config, ""), place, "Write f.")
    (ended,) = [each for each in events if isinstance(each, TurnEnded)]
    assert ended.ending == "failed"
    assert "no model is set to review it" in ended.detail


def test_a_turn_of_an_outside_agent_that_changes_nothing_is_not_reviewed(tmp_path: Path) -> None:
    config, place = with_agent(tmp_path, "rm -f said")
    events = taken(reviewing(config, ""), place, "Look.")
    assert not [each for each in events if isinstance(each, ReviewStarted)]
    assert [each.ending for each in events if isinstance(each, TurnEnded)] == ["done"]
