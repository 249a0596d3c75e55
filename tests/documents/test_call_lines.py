"""Calls as people read them."""

from __future__ import annotations

import msgspec
import pytest

from mainspring.documents.call_lines import call_line
from mainspring.events import CallAsked


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("wait", {"seconds": 90}, "for 90 s"),
        ("wait", {"processes": ["p1", "p2"], "all": True}, "for process p1 to end and process p2 to end"),
        ("wait", {"file": "out.txt", "max_seconds": 60}, "for out.txt to exist, 60 s at most"),
        ("wait", {"file": "log", "pattern": "ok"}, "for a line in log that matches 'ok'"),
        (
            "wait",
            {"command": "test -f x", "session": "ab"},
            "for `test -f x` to succeed or session ab to end",
        ),
        ("functions.wait", {"until": "2030-01-01T00:00Z"}, "for 2030-01-01T00:00Z"),
        ("delegate", {"task": "look\nclosely", "agent": "explore"}, "to explore, look …"),
        ("delegate", {"task": "look", "background": True}, "in the background, look"),
        ("grep", {"pattern": "def .*", "path": "src", "glob": "*.py"}, "def .* in src *.py"),
        ("grep", {"pattern": "TODO", "path": "."}, "TODO"),
        ("find", {"glob": "*.md", "path": "docs"}, "*.md in docs"),
        ("process", {"action": "output", "handle": "p1"}, "output p1"),
        ("plan", {"items": [{"text": "a", "progress": "done"}, {"text": "b"}]}, "1 of 2 items done"),
        ("patch", {"patch": "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\n"}, "x.py"),
        ("fetch", {"url": "https://example.com"}, "https://example.com"),
        ("web_search", {"query": "why"}, "why"),
        ("ask", {"question": "Which?", "choices": ["a", "b"]}, "Which?"),
        ("finish", {"summary": "All is done.", "evidence": []}, "All is done."),
        ("shell", {"command": "ls"}, "ls"),
        ("read", {"path": "a.py"}, "a.py"),
    ],
)
def test_a_call_is_told_in_words(name: str, arguments: dict[str, object], said: str) -> None:
    asked = CallAsked(call="c", name=name, arguments=msgspec.json.encode(arguments).decode())
    assert call_line(asked) == f"→ {name} {said}"


@pytest.mark.parametrize("arguments", ["", "{", '{"task": 3}', '{"path": ["x"]}', "[1]", '{"seconds": null}'])
@pytest.mark.parametrize("name", ["wait", "delegate", "read", "plan", "grep", "fetch"])
def test_arguments_that_tell_nothing_stand_as_they_are(name: str, arguments: str) -> None:
    assert call_line(CallAsked(call="c", name=name, arguments=arguments)) == f"→ {name} {arguments}"
