"""Models that fail, models that are chosen meanwhile, and what a crash in between leaves."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mainspring.catalog.fold import SessionFold
from mainspring.catalog.fold import take as take_in
from mainspring.context.compaction import INSTRUCTIONS
from mainspring.errors import ModelError, NetworkFailed, NoCredit, Overloaded, RateLimited, UsageError
from mainspring.events import (
    Compacted,
    EffortChosen,
    Limits,
    ModelChosen,
    OnQuota,
    RequestFailed,
    TurnEnded,
    UserSaid,
    WaitEnded,
    WaitStarted,
)
from mainspring.models import Price, Request
from mainspring.models.scripted import Script, ScriptedModel
from mainspring.session.session import runtime_of
from mainspring.tools.schema import tool
from mainspring.turns.compactor import Compactor
from mainspring.waits.patience import Patience
from mainspring.waits.reach import Reach
from tests.stage import PausingModel, Stage, call, calls, says, take, texts, wait_for


class Line:
    """Models with names; each notes what it was asked, and fails as often as it was told to."""

    def __init__(self, stage: Stage, **errors: list[ModelError]) -> None:
        self.stage, self.errors = stage, errors
        self.asked: list[str] = []

    def model(self, name: str, kind: type[ScriptedModel] = ScriptedModel) -> ScriptedModel:
        def on_request(request: Request) -> ModelError | None:
            self.asked.append(name)
            self.stage.requests.append(request)
            left = self.errors.get(name, [])
            return left.pop(0) if left else None

        return kind(self.stage.script, name=name, on_request=on_request)

    def parts(self, *names: str) -> dict[str, Any]:
        first, *others = map(self.model, names)
        return {"model": first, "fallbacks": tuple(others), "connect": self.model}


@pytest.mark.parametrize("kind", [RateLimited, Overloaded, NetworkFailed, NoCredit])
def test_what_another_model_may_not_have_is_answered_by_another_model(
    tmp_path: Path, kind: type[ModelError]
) -> None:
    stage = Stage(tmp_path, says("Done."))
    line = Line(stage, a=[kind("It is down.")])
    assert stage.take("go", **line.parts("a", "b", "c")).ending == "done"
    assert line.asked == ["a", "b"]
    chosen = stage.events(ModelChosen)[-1]
    assert (chosen.model, chosen.fallbacks) == ("b", ("c", "a"))
    assert "It is down." in chosen.reason
    assert texts(stage.sent()) == ["user: go"]


def test_every_model_is_asked_once_and_the_ending_names_them_all(tmp_path: Path) -> None:
    stage = Stage(tmp_path, says("Done."))
    down: dict[str, list[ModelError]] = {name: [Overloaded(f"{name} is full.")] for name in "abc"}
    line = Line(stage, **down)
    ended = stage.take("go", **line.parts("a", "b", "c"))
    assert line.asked == ["a", "b", "c"]
    assert ended.ending == "failed"
    assert all(f"{name}: {name} is full." in ended.detail for name in "abc")
    assert stage.take(**line.parts("c", "a", "b")).ending == "done"
    assert line.asked[3:] == ["c"]


def test_when_all_fail_the_earliest_reset_is_what_is_waited_for(tmp_path: Path) -> None:
    stage = Stage(tmp_path, says("Done."))
    line = Line(
        stage,
        a=[RateLimited("a", retry_after_s=900)],
        b=[RateLimited("b", retry_after_s=300)],
        c=[NoCredit("c")],
    )
    ended = stage.take("go", **line.parts("a", "b", "c"), reach=Reach(patience=Patience(max_quota_wait_s=60)))
    assert ended.ending == "waiting"
    resets = [failed.resets_at_us for failed in stage.events(RequestFailed)]
    assert ended.resume_at_us == resets[1]


def reset_in(seconds: float) -> list[ModelError]:
    return [RateLimited("Too much.", retry_after_s=seconds)]


def test_a_reset_within_our_patience_is_waited_for_and_its_model_is_asked_first(tmp_path: Path) -> None:
    stage = Stage(tmp_path, says("Done."))
    line = Line(stage, a=reset_in(0.1), b=reset_in(900), c=[NoCredit("c")])
    assert stage.take("go", **line.parts("a", "b", "c")).ending == "done"
    assert line.asked == ["a", "b", "c", "a"]
    (started,) = stage.events(WaitStarted)
    resets = [failed.resets_at_us for failed in stage.events(RequestFailed)]
    assert resets[0] is not None
    assert started.conditions == (OnQuota(model="a", at_us=resets[0]),)
    assert [ended.cause for ended in stage.events(WaitEnded)] == ["met"]


def test_a_process_that_dies_anywhere_in_a_wait_for_a_provider_asks_nothing_too_early(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "whole", says("Done."))
    line = Line(stage, a=reset_in(0.3), b=reset_in(900))
    assert stage.take("go", **line.parts("a", "b")).ending == "done"
    failed, told = stage.seq(RequestFailed, 1), stage.seq(WaitEnded)
    for seq in range(failed, told + 1):
        again = stage.killed_after(tmp_path / str(seq), seq)
        resumed = Line(again)
        reset_us = again.events(RequestFailed)[0].resets_at_us
        chosen = again.events(ModelChosen)[-1]
        assert again.take(**resumed.parts(chosen.model, *chosen.fallbacks)).ending == "done"
        assert resumed.asked == ["a"], seq
        assert len(again.events(WaitEnded)) == 1, seq
        reserved = [item for item in again.journal() if item.kind == "SpendReserved"][-1]
        assert reset_us is not None
        assert reserved.time_us >= reset_us


@pytest.mark.parametrize("asked_s", [0.0, 0.01])
def test_waits_in_vain_grow_whatever_a_provider_says_and_end_with_our_patience(
    tmp_path: Path, asked_s: float
) -> None:
    stage = Stage(tmp_path, says("Done."))
    line = Line(stage, a=[error for _ in range(50) for error in reset_in(asked_s)])
    patience = Reach(patience=Patience(max_quota_wait_s=5))
    ended = stage.take("go", **line.parts("a"), reach=patience)
    assert ended.ending == "waiting"
    assert line.asked == ["a", "a"]
    asked, failed = stage.events(WaitStarted), stage.journal()[stage.seq(RequestFailed, 1) - 1]
    assert len(asked) == 1
    assert isinstance(failed.event, RequestFailed)
    assert ended.resume_at_us == failed.event.resets_at_us
    assert failed.event.resets_at_us is not None
    assert 9e6 < failed.event.resets_at_us - failed.time_us < 11e6


def test_a_wait_longer_than_the_turn_may_take_ends_it_as_waiting(tmp_path: Path) -> None:
    stage = Stage(tmp_path, says("Done."))
    line = Line(stage, a=reset_in(900))
    ended = stage.take("go", **line.parts("a"), limits=Limits(timeout_s=60))
    assert ended.ending == "waiting"
    assert stage.events(WaitStarted) == []


def test_what_is_said_during_a_wait_for_a_provider_is_tried_at_once(tmp_path: Path) -> None:
    stage = Stage(tmp_path, says("Done."))
    line = Line(stage, a=reset_in(900))

    async def said() -> None:
        async with stage.opened(**line.parts("a")) as session:
            await session.say("go")
            await wait_for(session, WaitStarted)
            await session.say("now!")
            assert (await wait_for(session, TurnEnded)).ending == "done"

    asyncio.run(said())
    assert line.asked == ["a", "a"]
    assert texts(stage.sent()) == ["user: go", "user: now!"]


def test_a_model_that_failed_before_a_reply_may_be_asked_again_after_it(tmp_path: Path) -> None:
    stage = Stage(tmp_path, calls(call("do", {"what": "x"})), says("Done."))
    line = Line(stage, a=[Overloaded("full")])

    def fail_b_later(request: Request) -> ModelError | None:
        line.asked.append("b")
        stage.requests.append(request)
        return Overloaded("full too") if len(request.messages) > 1 else None

    later = ScriptedModel(stage.script, name="b", on_request=fail_b_later)
    parts = {**line.parts("a"), "fallbacks": (later,)}
    assert stage.take("go", **parts).ending == "done"
    assert line.asked == ["a", "b", "b", "a"]
    assert stage.effects == ["x"]


def paid_models(stage: Stage) -> list[str]:
    """The models that cost something, in the order of their first requests."""
    paid = SessionFold()
    for item in stage.journal():
        take_in(paid, item)
    return [purpose.model for purpose in paid.spent()]


def test_the_money_is_counted_at_the_price_of_the_model_that_was_asked(tmp_path: Path) -> None:
    stage = Stage(tmp_path, says("Done."))
    line = Line(stage, a=[Overloaded("full")])
    dear = ScriptedModel(Script(replies=stage.script.replies, price=Price(input=1e6, output=1e6)), name="b")
    stage.take("go", model=line.model("a"), fallbacks=(dear,))
    assert paid_models(stage) == ["a", "b"]
    assert stage.events(TurnEnded)[-1].cost_usd > 1


def test_a_process_that_dies_anywhere_in_a_fail_over_is_resumed_to_the_same_end(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "whole", calls(call("do", {"what": "x"})), says("Done."))
    line = Line(stage, a=[Overloaded("full")])
    stage.take("go", **line.parts("a", "b"))
    whole = stage.journal()
    first = next(item.seq for item in whole if isinstance(item.event, UserSaid))
    for seq in range(first, len(whole)):
        again = stage.killed_after(tmp_path / f"killed-{seq}", seq)
        after = Line(again, a=[Overloaded("full")] * 9)
        known = [item.event for item in whole[:seq] if isinstance(item.event, ModelChosen)][-1]
        assert again.take(**after.parts(known.model, *known.fallbacks)).ending == "done", seq
        assert after.asked.count("a") <= 1, seq


def test_a_model_and_an_effort_chosen_in_a_step_hold_from_the_next_step_on(tmp_path: Path) -> None:
    stage = Stage(tmp_path, calls(call("do", {"what": "x"})), says("Done."))
    line = Line(stage)

    async def scene() -> None:
        pausing = line.model("a", PausingModel)
        assert isinstance(pausing, PausingModel)
        async with stage.opened(model=pausing, fallbacks=(line.model("c"),), connect=line.model) as session:
            taken = asyncio.ensure_future(take(session, "go"))
            await pausing.is_streaming.wait()
            await session.set_model("b")
            await session.set_effort("max")
            await session.note("something else")
            pausing.may_go_on.set()
            assert (await taken).ending == "done"
            assert runtime_of(session).models.current.name == "b"

    asyncio.run(scene())
    assert line.asked == ["a", "b"]
    assert paid_models(stage) == ["a", "b"]
    assert [request.effort for request in stage.requests] == [None, "max"]
    assert texts(stage.sent()) == [
        "user: go",
        "assistant: do",
        "results: did x",
        "user: [note from user] something else",
    ]
    assert stage.events(EffortChosen) == [EffortChosen(effort="max")]
    chosen = stage.events(ModelChosen)[-1]
    assert (chosen.model, chosen.fallbacks) == ("b", ("c",))


def test_a_model_chosen_between_turns_is_recorded_and_taken(tmp_path: Path) -> None:
    stage = Stage(tmp_path, says("One."), says("Two."))
    line = Line(stage)

    async def scene() -> None:
        async with stage.opened(**line.parts("a")) as session:
            await take(session, "one")
            await session.set_model("b")
            await take(session, "two")

    asyncio.run(scene())
    assert line.asked == ["a", "b"]


def test_a_model_that_nobody_can_connect_is_refused_and_not_recorded(tmp_path: Path) -> None:
    stage = Stage(tmp_path)

    async def scene() -> None:
        async with stage.opened() as session:
            with pytest.raises(UsageError, match="no model nobody"):
                await session.set_model("nobody")

    asyncio.run(scene())
    assert [chosen.model for chosen in stage.events(ModelChosen)] == ["scripted"]


def test_what_is_said_while_the_history_is_projected_anew_stands_in_it_once(tmp_path: Path) -> None:
    stage = Stage(tmp_path, says("One."), says("Two."))
    line = Line(stage)

    async def scene() -> None:
        async with stage.opened(**line.parts("a")) as session:
            await take(session, "one")
            await session.set_model("b")
            async with asyncio.TaskGroup() as group:
                group.create_task(runtime_of(session).take_model())
                for number in range(20):
                    group.create_task(session.note(f"{number}"))
            await take(session, "two")
            await wait_for(session, TurnEnded)

    asyncio.run(scene())
    said = texts(stage.sent())
    assert sorted(set(said)) == sorted(said)
    assert len(said) == 23


def test_a_step_that_failed_does_not_count_as_a_step(tmp_path: Path) -> None:
    stage = Stage(tmp_path, says("Done."))
    line = Line(stage, a=[Overloaded("It is full.")])
    ended = stage.take("go", limits=Limits(max_steps=1), **line.parts("a", "b"))
    assert (ended.ending, ended.steps) == ("done", 1)
    again = stage.take("more", limits=Limits(max_steps=0), **line.parts("b", "a"))
    assert again.ending == "limit"


def crowded(tmp_path: Path) -> Stage:
    """A session whose history does not fit its model."""
    pages = [calls(call("look", {"at": number}), text=f"Step {number}.") for number in range(8)]
    stage = Stage(tmp_path, *pages, says("Done."))

    async def look(at: int) -> str:
        """Shows a lot."""
        return f"page {at} " * 300

    stage.tools.append(tool(look, effect="read"))
    stage.script = msgspec.structs.replace(stage.script, context_tokens=4000)
    return stage


def test_a_model_that_is_down_when_room_is_made_is_replaced_and_the_next_one_makes_it(tmp_path: Path) -> None:
    stage = crowded(tmp_path)
    line = Line(stage)
    summaries: list[str] = []

    def failing(request: Request) -> ModelError | None:
        is_summary = request.system == INSTRUCTIONS
        summaries.extend(["a"] * is_summary)
        return Overloaded("It is full.") if is_summary else None

    first = ScriptedModel(stage.script, name="a", on_request=failing)
    parts = {"model": first, "fallbacks": (line.model("b"),), "connect": line.model}
    stage.take("Read all pages.", compactor=Compactor(), limits=Limits(max_steps=7), **parts)
    assert summaries == ["a"]
    assert [chosen.model for chosen in stage.events(ModelChosen)] == ["a", "b"]
    assert stage.events(Compacted)
    assert "b" in line.asked


def test_a_lonely_model_that_writes_no_summary_goes_on_without_one(tmp_path: Path) -> None:
    stage = crowded(tmp_path)
    asked: list[bool] = []

    def failing(request: Request) -> ModelError | None:
        asked.append(request.system == INSTRUCTIONS)
        return NetworkFailed("It is gone.") if asked[-1] else None

    ended = stage.take(
        "Read all pages.",
        compactor=Compactor(),
        model=ScriptedModel(stage.script, name="a", on_request=failing),
    )
    assert ended.ending == "done"
    assert asked.count(True) == len(stage.events(Compacted))
    assert not asked[-1]
