"""Children at work: stopped with their parent, told later, asked for, held to their share, found when lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from mainspring.app.operations.cleaning import find_leftovers, remove_leftovers
from mainspring.app.operations.deletion import plan_deletion
from mainspring.app.operations.sessions import SessionRow, list_sessions, newest_session, with_children
from mainspring.catalog.sqlite import SqliteSessions
from mainspring.events import (
    ApprovalAsked,
    ApprovalGiven,
    CallEnded,
    ChildEnded,
    ChildStarted,
    Limits,
    NoteAdded,
    TurnEnded,
    Usage,
    WaitStarted,
)
from mainspring.models import Price, Request, StreamItem
from mainspring.models.scripted import ScriptedCall, ScriptedModel, ScriptedReply
from tests.agents.family import PARENT, Family, asks, script_of, settings
from tests.stage import wait_for


def says(text: str, **fields) -> ScriptedReply:
    return ScriptedReply(text=text, **fields)


class SlowChildren(ScriptedModel):
    """Answers its parent at once, and a child after a second, or never."""

    delay_s: float | None = 1.0

    async def stream(self, request: Request) -> AsyncGenerator[StreamItem]:
        if not any(PARENT.encode() in message for message in request.messages):
            await (asyncio.sleep(self.delay_s) if self.delay_s else asyncio.Event().wait())
        async for item in super().stream(request):
            yield item


class EndlessChildren(SlowChildren):
    delay_s = None


def test_eight_children_of_a_second_each_work_at_the_same_time(tmp_path):
    tasks = [f"TASK{number}" for number in range(8)]
    script = script_of(
        (asks(*tasks, agent="explore"), says("All.")), **{task: (says(f"did {task}"),) for task in tasks}
    )
    stage = Family(tmp_path, script, sessions=SqliteSessions(tmp_path / "home"))
    reply = stage.run(PARENT, model=stage.model(SlowChildren))
    ended = stage.events(ChildEnded)
    assert reply.text == "All."
    assert sorted(each.text for each in ended) == [f"did {task}" for task in tasks]
    took = [item.time_us for item in stage.journal() if isinstance(item.event, ChildStarted | ChildEnded)]
    took_s = (max(took) - min(took)) / 1e6
    assert took_s < 4.0, "they worked one after the other"
    print(f"eight children of 1 s: {took_s:.2f} s")


def test_a_ninth_child_is_refused(tmp_path):
    tasks = [f"TASK{number}" for number in range(9)]
    script = script_of(
        (asks(*tasks, agent="explore"), says("All.")), **{task: (says(f"did {task}"),) for task in tasks}
    )
    stage = Family(tmp_path, script)
    model = stage.model(SlowChildren)
    model.delay_s = 0.2
    stage.run(PARENT, model=model)
    assert len(stage.events(ChildStarted)) == 8
    assert [each.outcome for each in stage.events(CallEnded)].count("error") == 1


def test_stopping_the_parent_stops_its_children_on_record(tmp_path):
    script = script_of((asks("LONG", "LATER", agent="explore"),), LONG=(says("x"),), LATER=(says("x"),))
    stage = Family(tmp_path, script)

    async def scene() -> None:
        async with stage.open(model=stage.model(EndlessChildren)) as session:
            await session.say(PARENT)
            await wait_for(session, ChildStarted)
            started = await wait_for(session, ChildStarted)
            while not session.state.children.open or started.child not in session.state.ledger.shares.open:
                await asyncio.sleep(0)
            await session.stop()
            while session.state.children.open:
                await asyncio.wait({session.state.waits.stirring()}, timeout=1)

    asyncio.run(scene())
    assert {each.state for each in stage.events(ChildEnded)} == {"stopped"}
    assert len(stage.events(ChildEnded)) == len(stage.events(ChildStarted))
    assert [each.ending for each in stage.events(TurnEnded)] == ["interrupted"]


def test_a_child_in_the_background_is_told_in_a_note(tmp_path):
    script = script_of(
        (asks("ASIDE", agent="explore", background=True), says("Begun."), says("Heard it.")),
        ASIDE=(says("the answer from aside"),),
    )
    stage = Family(tmp_path, script)

    async def scene() -> None:
        async with stage.open() as session:
            await session.ask(PARENT)
            while session.state.children.open:
                await asyncio.wait({session.state.waits.stirring()}, timeout=1)
            assert "the answer from aside" in (await wait_for(session, NoteAdded)).text
            await session.ask("And?")

    asyncio.run(scene())
    assert stage.events(ChildEnded)[0].state == "done"
    assert any("the answer from aside" in str(message) for message in stage.sent())


def test_a_person_who_speaks_is_heard_and_the_child_goes_on(tmp_path):
    script = script_of(
        (asks("SLOW", agent="explore"), says("I heard you."), says("Told.")), SLOW=(says("the slow answer"),)
    )
    stage = Family(tmp_path, script)

    async def scene() -> None:
        async with stage.open(model=stage.model(SlowChildren)) as session:
            await session.say(PARENT)
            await wait_for(session, WaitStarted)
            await session.say("How far are you?")
            while session.state.children.open:
                await asyncio.wait({session.state.waits.stirring()}, timeout=1)

    asyncio.run(scene())
    assert "goes on in the background" in stage.events(CallEnded)[0].output
    assert [each.state for each in stage.events(ChildEnded)] == ["done"]
    assert any("the slow answer" in each.text for each in stage.events(NoteAdded))


def test_sessions_lists_children_below_their_parent_and_deletes_them_with_it(tmp_path):
    script = script_of((asks("ONE", "TWO", agent="explore"), says("ok")), ONE=(says("x"),), TWO=(says("y"),))
    store = SqliteSessions(tmp_path / "home")
    stage = Family(tmp_path, script, sessions=store)
    stage.run(PARENT)
    config = settings(tmp_path / "home")

    async def listed() -> list[SessionRow]:
        return with_children(await list_sessions(config))

    rows = asyncio.run(listed())
    children = [each.child for each in stage.events(ChildStarted)]
    assert rows[0].id == stage.session
    assert {row.id for row in rows[1:]} == set(children)
    assert [row.parent for row in rows] == ["", stage.session, stage.session]
    assert asyncio.run(newest_session(config, stage.workspace)) == stage.session
    plan = asyncio.run(plan_deletion(config, [stage.session]))
    assert {each.id for each in plan.sessions} == {row.id for row in rows}


def test_what_a_child_may_not_do_unasked_is_asked_of_the_parents_person(tmp_path):
    fetch = ScriptedReply(calls=(ScriptedCall("fetch", {"url": "http://127.0.0.1:9/x"}),))
    script = script_of((asks("LOOKUP", agent="explore"), says("ok")), LOOKUP=(fetch, says("could not")))
    stage = Family(tmp_path, script)
    asked: list[ApprovalAsked] = []

    async def refuse(question: ApprovalAsked) -> ApprovalGiven:
        asked.append(question)
        return ApprovalGiven(
            call=question.call, arguments_sha256=question.arguments_sha256, decision="reject", feedback="no"
        )

    stage.run(PARENT, approver=refuse, mode="ask")
    (question,), (started,) = asked, stage.events(ChildStarted)
    assert started.child in question.reason
    assert "explore" in question.reason
    assert stage.events(ApprovalAsked) == [question]
    child = [item.event for item in stage.of(started.child)]
    assert [each.outcome for each in child if isinstance(each, CallEnded)] == ["refused"]


def test_with_nobody_there_a_child_goes_on_without_an_answer(tmp_path):
    fetch = ScriptedReply(calls=(ScriptedCall("fetch", {"url": "http://127.0.0.1:9/x"}),))
    script = script_of((asks("LOOKUP", agent="explore"), says("ok")), LOOKUP=(fetch, says("could not")))
    stage = Family(tmp_path, script)

    async def nobody(_question: ApprovalAsked) -> None:
        return None

    assert stage.run(PARENT, approver=nobody, mode="ask").text == "ok"
    assert [each.state for each in stage.events(ChildEnded)] == ["done"]
    assert [each.decision for each in stage.events(ApprovalGiven)] == ["expire"]


def test_a_child_ends_with_its_share_and_the_parent_can_still_report(tmp_path):
    dear = Price(input=0.0, output=1000.0)
    spent = Usage(input_tokens=1, output_tokens=60)
    looks = tuple(
        ScriptedReply(calls=(ScriptedCall("find", {"glob": f"*{number}"}),), usage=spent)
        for number in range(50)
    )
    script = script_of(
        (asks("GREEDY", agent="explore"), says("Report.", usage=Usage(input_tokens=1, output_tokens=50))),
        dear,
        GREEDY=looks,
    )
    stage = Family(tmp_path, script)
    reply = stage.run(PARENT, limits=Limits(max_cost_usd=2.0))
    (started,), (ended,) = stage.events(ChildStarted), stage.events(ChildEnded)
    assert ended.state == "budget"
    assert started.limits.max_cost_usd is not None
    assert ended.cost_usd <= started.limits.max_cost_usd
    assert (reply.text, reply.ending) == ("Report.", "done")
    assert reply.cost_usd <= 2.0


def test_calls_of_children_count_for_their_parent(tmp_path):
    look = ScriptedReply(calls=(ScriptedCall("find", {"glob": "*"}),) * 2)
    script = script_of(
        (asks("MANY", agent="explore"), look, look, says("Done.")), MANY=(look, look, says("x"))
    )
    stage = Family(tmp_path, script)
    reply = stage.run(PARENT, limits=Limits(max_calls=8))
    ended = stage.events(ChildEnded)[0]
    assert (ended.state, ended.calls) == ("budget", 2)
    assert reply.ending == "limit" or 1 + ended.calls + 4 <= 8


def test_copies_that_nobody_needs_are_swept(tmp_path):
    config = settings(tmp_path / "home")
    left = tmp_path / "home-worktrees" / "gonechild0" / "work"
    left.mkdir(parents=True)

    async def swept() -> list[str]:
        found = await find_leftovers(config)
        return [each.path.name for each in await remove_leftovers(config, found)]

    assert asyncio.run(swept()) == ["gonechild0"]
    assert not left.exists()
