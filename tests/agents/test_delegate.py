"""`delegate`: a child is a session with a parent, on record before it starts, with one end."""

from __future__ import annotations

import shutil

from mainspring.events import CallEnded, ChildEnded, ChildStarted, FilesChanged, SessionStarted
from mainspring.models import Request
from mainspring.models.scripted import ScriptedCall, ScriptedModel, ScriptedReply
from mainspring.workspace import worktrees
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


def writes(path: str, content: str) -> ScriptedReply:
    return ScriptedReply(calls=(ScriptedCall("write", {"path": path, "content": content}),))


def test_work_of_writers_is_taken_over_in_order_and_conflicts_come_back(tmp_path):
    script = script_of(
        (asks("FIRST task", "SECOND task", "THIRD task"), says("Done.")),
        FIRST=(writes("a.txt", "first\n"), says("wrote a")),
        SECOND=(writes("a.txt", "second\n"), says("wrote a too")),
        THIRD=(writes("b.txt", "third\n"), says("wrote b")),
    )
    stage = Family(tmp_path, script)
    (stage.workspace / "c.txt").write_text("c\n")
    assert stage.run(PARENT).text == "Done."
    started = {each.child: each.task.split()[0] for each in stage.events(ChildStarted)}
    ended = {started[each.child]: each for each in stage.events(ChildEnded)}
    assert {task: each.landing for task, each in ended.items()} == {
        "FIRST": "landed",
        "SECOND": "conflict",
        "THIRD": "landed",
    }
    assert (stage.workspace / "a.txt").read_text() == "first\n"
    assert (stage.workspace / "b.txt").read_text() == "third\n"
    assert ended["SECOND"].conflicts == ("a.txt",)
    told = next(
        each.output
        for each in stage.events(CallEnded)
        if "SECOND" in started.get(each.output.split()[1].rstrip(":"), "")
    )
    assert "Your task" in told
    changed = {change.path for each in stage.events(FilesChanged) for change in each.changes}
    assert {"a.txt", "b.txt"} <= changed, "undo must know what was taken over"
    assert not list((tmp_path / "home-worktrees").iterdir())


def test_work_that_cannot_be_taken_over_is_kept_and_its_place_told(tmp_path):
    script = script_of(
        (asks("TASK"), says("Done.")), TASK=(writes("a.txt", "hours of work\n"), says("wrote"))
    )
    stage = Family(tmp_path, script)

    def breaks(request: Request) -> None:
        if any(b"hours of work" in message for message in request.messages):
            for store in tmp_path.glob("home-worktrees/*/store"):
                shutil.rmtree(store)

    stage.run(PARENT, model=ScriptedModel(script, on_request=breaks))
    (ended,) = stage.events(ChildEnded)
    assert (ended.state, ended.text) == ("failed", "wrote")
    (copy,) = tmp_path.glob("home-worktrees/*/work")
    assert str(copy) in ended.detail
    assert (copy / "a.txt").read_text() == "hours of work\n"


def test_a_child_without_a_copy_says_why_it_failed(tmp_path, monkeypatch):
    monkeypatch.setattr(worktrees, "MAX_FILES", 1)
    stage = Family(tmp_path, script_of((asks("TASK"), says("Done.")), TASK=(says("did"),)))
    for name in ("a", "b"):
        (stage.workspace / name).touch()
    stage.run(PARENT)
    (ended,) = stage.events(ChildEnded)
    assert ended.state == "failed"
    assert "too large" in ended.detail
    assert not list(tmp_path.glob("home-worktrees/*"))
