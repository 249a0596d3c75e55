"""Sensitive paths at the permit: where the settings say so, a write there is asked about in every mode."""

from __future__ import annotations

import msgspec
import pytest

from mainspring.app.policies import build_policy
from mainspring.approvals import ModePolicy, Proposed
from mainspring.checks.review_settings import ReviewSettings
from tests.agents.family import settings


@pytest.mark.parametrize("mode", ["auto", "edits", "yolo"])
@pytest.mark.parametrize(
    ("ask", "tool", "path", "answer"),
    [
        ("write", "write", "app/migrations/1.py", "ask"),
        ("write", "write", "app/models.py", "allow"),
        ("write", "read", "app/migrations/1.py", "allow"),
        ("land", "write", "app/migrations/1.py", "allow"),
    ],
)
def test_a_write_to_a_sensitive_path_is_asked_about(tmp_path, mode, ask, tool, path, answer):
    config = settings(tmp_path / "home")
    review = ReviewSettings(ask=ask)
    config = msgspec.structs.replace(config, settings=msgspec.structs.replace(config.settings, review=review))
    policy = build_policy(ModePolicy(mode, max_cost_usd=1.0), tmp_path, config)
    proposed = Proposed(
        tool=tool,
        effect="read" if tool == "read" else "write",
        paths=(path,),
        workspace=str(tmp_path),
        is_contained=True,
    )
    judged = policy.judge(proposed)
    assert judged.answer == answer, judged
    assert ("sensitive: migrations" in judged.reason) == (answer == "ask")
