"""`delegate`: a child is a session with a parent, on record before it starts, with one end."""

from __future__ import annotations

from mainspring.events import CallEnded, ChildEnded, ChildStarted, SessionStarted
from mainspring.models.scripted import ScriptedCall, ScriptedReply
from tests.agents.family import PARENT, Family, asks, script_of


def says(text: str, **fields) -> ScriptedReply:
    return ScriptedReply(text=text, **fields)


def test_a_task_is_given_away_and_its_answer_comes_back(tmp_path):
    script = script_of(
        (asks("SEARCH for the answer", agent="explore"), says("It is 42.")),
        SEARCH=(ScriptedReply(calls=(ScriptedCall("find", {"glob": "*"}),)), says("42, see answer.py:1.")),
    )
    stage = Family(tmp_path, script)
    assert stage.run(PARENT).text == "It is 42."
    (started,), (ended,) = stage.events(ChildStarted), stage.events(ChildEnded)
    assert (started.agent, started.isolation, started.task) == (
        "explore",
        "read-only",
        "SEARCH for the answer",
    )
    assert (ended.child, ended.state, ended.text) == (started.child, "done", "42, see answer.py:1.")
    assert (ended.steps, ended.calls) == (2, 1)
    child = stage.of(started.child)
    first = child[0].event
    assert isinstance(first, SessionStarted)
    assert (first.parent, first.agent) == (stage.session, "explore")
    began = next(item for item in stage.journal() if isinstance(item.event, ChildStarted))
    assert began.time_us <= child[0].time_us, "a child began before it was on record"
    (call,) = stage.events(CallEnded)
    assert call.outcome == "ok"
    assert "42, see answer.py:1." in call.output
