"""Tools inside a real session with a scripted model: what is recorded, and what the model is told."""

import asyncio
import re
from pathlib import Path

from mainspring.app import build as app
from mainspring.events import (
    ApprovalAsked,
    ApprovalGiven,
    CallEnded,
    CallStarted,
    Decision,
    Evidence,
    PlanItem,
    PlanSet,
    Remembered,
    TurnEnded,
    WorkFinished,
)
from mainspring.models.scripted import Script, ScriptedCall, ScriptedModel, ScriptedReply
from mainspring.sandbox import Sandbox
from mainspring.settings import load_config

QUESTION = ScriptedCall(name="ask", arguments={"question": "Which one?", "choices": ["red", "blue"]})


def call(name, **arguments):
    return ScriptedCall(name=name, arguments=arguments)


def take_turn(folder: Path, *steps, text="go", session="", approver=None, sandbox: Sandbox | str = "none"):
    """Every event of a turn in which the model makes these calls, step by step, and then says that it is done."""

    async def run():
        replies = tuple(ScriptedReply(calls=tuple(calls)) for calls in steps)
        model = ScriptedModel(Script(replies=(*replies, ScriptedReply(text="done"))))
        work = folder / "work"
        work.mkdir(exist_ok=True)
        config = load_config(
            {"MAINSPRING_HOME": str(folder / "home"), "HOME": str(folder), "PATH": "/usr/bin:/bin"}
        )
        opened = app.open(
            work, session=session, model=model, config=config, approver=approver, sandbox=sandbox, mode="auto"
        )
        async with opened as running:
            return running.id, [event async for event in running.run(text)]

    return asyncio.run(run())


def only(events, kind):
    return [event for event in events if isinstance(event, kind)]


def answering(text: str, decision: Decision = "allow"):
    async def approver(question):
        return ApprovalGiven(
            call=question.call, arguments_sha256=question.arguments_sha256, decision=decision, feedback=text
        )

    return approver


async def nobody(_):
    return None


def test_a_plan_and_a_note_are_on_record(tmp_path):
    items = [{"text": "look", "progress": "done"}, {"text": "act"}]
    _, events = take_turn(tmp_path, [call("plan", items=items), call("note", text="the port is 80")])
    assert only(events, PlanSet) == [
        PlanSet(items=(PlanItem(text="look", progress="done"), PlanItem(text="act")), call="c00001000")
    ]
    assert only(events, Remembered) == [Remembered(text="the port is 80", call="c00001001")]
    assert [ended.outcome for ended in only(events, CallEnded)] == ["ok", "ok"]


def test_a_question_is_answered_by_a_person(tmp_path):
    _, events = take_turn(tmp_path, [QUESTION], approver=answering("2"))
    (asked,) = only(events, ApprovalAsked)
    assert asked.tool == "ask"
    assert asked.reason == "Which one?\n  1. red\n  2. blue"
    assert only(events, CallEnded)[0].output == "The user answered: blue"
    _, events = take_turn(tmp_path, [QUESTION], approver=answering("neither, wait"))
    assert only(events, CallEnded)[0].output == "The user answered: neither, wait"


def test_a_person_may_decline_to_answer(tmp_path):
    _, events = take_turn(tmp_path, [QUESTION], approver=answering("", "reject"))
    assert only(events, CallEnded)[0].outcome == "refused"


def test_without_a_person_a_question_blocks_the_turn_and_is_answered_on_resume(tmp_path):
    session, events = take_turn(tmp_path, [QUESTION], approver=nobody)
    (ended,) = only(events, TurnEnded)
    assert ended.ending == "blocked"
    assert ended.detail.startswith("The agent asks: Which one?")
    assert not only(events, CallStarted)
    _, events = take_turn(tmp_path, [QUESTION], text="", session=session, approver=answering("1"))
    assert only(events, CallEnded)[0].output == "The user answered: red"
    assert only(events, TurnEnded)[0].ending == "done"
    assert not only(events, ApprovalAsked)


def test_work_is_finished_with_evidence_that_exists(tmp_path):
    (tmp_path / "work").mkdir()
    (tmp_path / "work/a.txt").write_text("a")
    claims = [{"claim": "the file is there", "calls": ["c00001000"]}]
    session, events = take_turn(
        tmp_path,
        [call("read", path="a.txt"), call("read", path="none.txt")],
        [call("finish", summary="Looked.", evidence=claims)],
        [call("finish", summary="Looked.", evidence=[{"claim": "x", "calls": ["c9"]}])],
        [call("finish", summary="Looked.", evidence=[{"claim": "x", "calls": ["c00001001"]}])],
    )
    first, second = only(events, WorkFinished)
    assert first.evidence == (Evidence(claim="the file is there", calls=("c00001000",)),)
    assert second.evidence[0].calls == ("c00001001",)
    finished, unknown, failed = only(events, CallEnded)[2:]
    assert finished.output == "Recorded, with 1 claim."
    assert unknown.outcome == "error"
    assert unknown.output.startswith("No call with a result has the id c9. The newest calls are:\n")
    assert "\nc00001000: ok," in unknown.output
    assert "these calls failed: c00001001" in failed.output
    assert session


def test_the_output_of_all_calls_of_a_step_together_is_bounded(tmp_path):
    (tmp_path / "work").mkdir()
    for number in range(10):
        (tmp_path / f"work/{number}.txt").write_text(f"{number} line\n" * 20_000)

    _, events = take_turn(tmp_path, [call("read", path=f"{number}.txt", limit=5000) for number in range(10)])
    shown = [len(ended.output) for ended in only(events, CallEnded)]
    assert sum(shown) <= 160_000
    assert max(shown) <= 16_000


def test_what_did_not_fit_is_read_by_its_handle(tmp_path):
    command = call("shell", command="seq 1 20000")
    session, events = take_turn(tmp_path, [command], approver=answering(""))
    (ended,) = only(events, CallEnded)
    assert len(ended.output) <= 24_000
    (handle,) = re.findall(r"blob:[0-9a-f]{64}", ended.output)
    read = call("read", path=handle, offset=10_001, limit=2)
    _, events = take_turn(tmp_path, [], [], [read], text="more", session=session)
    assert only(events, CallEnded)[0].output.splitlines()[:2] == [" 10001\t10000", " 10002\t10001"]
    missing = call("read", path="blob:" + "0" * 64)
    _, events = take_turn(tmp_path, [], [], [], [], [missing], text="more", session=session)
    assert only(events, CallEnded)[0].outcome == "error"


def test_a_network_tool_is_asked_in_auto_mode_whatever_the_sandbox(tmp_path):
    _, events = take_turn(
        tmp_path, [call("fetch", url="https://example.org/")], approver=answering("no", "reject")
    )
    assert only(events, ApprovalAsked)[0].tool == "fetch"
    assert only(events, CallEnded)[0].outcome == "refused"
