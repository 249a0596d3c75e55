"""A session while others talk to it, and one that is taken up again: nothing said is lost, nothing runs for
ever, and what a person tells counts at once."""

import asyncio

import pytest

from mainspring.events import (
    AssistantSaid,
    CallEnded,
    Compacted,
    Limits,
    SessionResumed,
    TurnEnded,
    TurnStarted,
    UserSaid,
)
from mainspring.models import Request, UserMessage
from mainspring.models.protocol import ToolProtocol
from mainspring.models.retry import Retried
from mainspring.models.scripted import ScriptedModel
from mainspring.session.session import runtime_of
from mainspring.turns.endings import End, end_turn
from mainspring.turns.model_request import ask
from mainspring.turns.runtime import Runtime
from mainspring.turns.spend import Reservation, reserve
from tests.stage import Stage, call, calls, says, take

STEPS = tuple(calls(call("do", {"what": str(number)})) for number in range(6))


@pytest.mark.parametrize(("told", "ending", "effects"), [(2, "limit", 2), (4, "limit", 4), (50, "done", 6)])
def test_limits_told_on_resuming_count_at_once_for_a_turn_that_was_killed(tmp_path, told, ending, effects):
    stage = Stage(tmp_path / "one", *STEPS, says("Done."))
    assert stage.take("go", limits=Limits(max_steps=3)).ending == "limit"
    again = stage.killed_after(tmp_path / "two", stage.seq(AssistantSaid, 1))
    given = Limits(max_steps=told)
    assert again.take(limits=given, given_limits=given).ending == ending
    assert len(again.events(TurnStarted)) == 1
    assert len(again.events(CallEnded)) == effects


def test_limits_that_nobody_told_on_resuming_stay_as_they_were(tmp_path):
    stage = Stage(tmp_path / "one", *STEPS, says("Done."))
    stage.take("go", limits=Limits(max_steps=3, max_calls=2))
    again = stage.killed_after(tmp_path / "two", stage.seq(AssistantSaid, 1))
    ended = again.take(limits=Limits(max_steps=50), given_limits=Limits(max_steps=50))
    assert "limit of 2 calls" in ended.detail
    (resumed,) = again.events(SessionResumed)
    assert resumed.limits is not None
    assert resumed.limits.turn is not None
    assert (resumed.limits.turn.steps, resumed.limits.turn.calls) == (50, 2)


def test_limits_that_a_person_told_before_are_not_lowered_by_the_settings_on_resuming(tmp_path):
    stage = Stage(tmp_path / "one", *STEPS, says("Done."))
    stage.take("go", limits=Limits(max_steps=50))
    again = stage.killed_after(tmp_path / "two", stage.seq(AssistantSaid, 1))
    assert again.take(limits=Limits(max_steps=1)).ending == "done"
    assert [resumed.limits for resumed in again.events(SessionResumed)] == [None]


async def silent(turn: Runtime) -> None:
    """An engine that says nothing."""
    await end_turn(turn, End("done"))


def test_a_turn_that_is_done_without_a_word_is_not_taken_again(tmp_path):
    stage = Stage(tmp_path)
    assert stage.take("go", engine=silent).ending == "done"
    assert len(stage.events(TurnEnded)) == 1


def test_what_is_said_while_an_engine_works_gets_a_turn_of_its_own(tmp_path):
    stage = Stage(tmp_path)

    async def said() -> None:
        async def interrupted(turn: Runtime) -> None:
            if turn.state.turn == 1:
                await session.say("And this.")
            await silent(turn)

        async with stage.opened(engine=interrupted) as session:
            await take(session, "go")

    asyncio.run(said())
    assert len(stage.events(TurnEnded)) == 2


def test_what_is_said_while_history_is_made_short_is_answered_with_the_short_one(tmp_path):
    stage = Stage(tmp_path, says("One."), says("Two."))
    stage.take("an old question")

    async def compacted() -> None:
        begun, may_end = asyncio.Event(), asyncio.Event()

        async def compactor(turn: Runtime, *, reason: str, until: int) -> Compacted:
            begun.set()
            await may_end.wait()
            return Compacted(summary="What was.", keep_from_seq=until + 1)

        async with stage.opened(compactor=compactor) as session, asyncio.TaskGroup() as group:
            group.create_task(session.compact())
            await begun.wait()
            answered = group.create_task(take(session, "a new question"))
            for _ in range(6):  # each commit lets the turn, if there is one, get further
                await session.note("Meanwhile.")
            may_end.set()
            await answered

    asyncio.run(compacted())
    assert "an old question" not in str(stage.requests[-1].messages)
    assert "a new question" in str(stage.requests[-1].messages)


def test_half_characters_that_somebody_says_become_question_marks(tmp_path):
    stage = Stage(tmp_path, says("Fine."))

    async def said() -> None:
        async with stage.opened() as session:
            await session.note("half \udc80")
            await take(session, "half \ud800")

    asyncio.run(said())
    assert [event.text for event in stage.events(UserSaid)] == ["half ?"]


class Closing(ScriptedModel):
    """Knows whether its stream was closed."""

    is_closed = False

    async def stream(self, request):
        try:
            async for item in super().stream(request):
                yield item
        finally:
            self.is_closed = True


@pytest.mark.parametrize(
    "around", [lambda model: model, Retried, ToolProtocol, lambda model: ToolProtocol(Retried(model))]
)
def test_the_stream_of_a_model_is_closed_when_its_reply_is_there(tmp_path, around):
    stage = Stage(tmp_path, says("Done."))

    async def asked() -> bool:
        model = stage.model(Closing)
        async with stage.opened() as session:
            turn = runtime_of(session)
            reservation = await reserve(turn, source="step", input_tokens=1)
            assert isinstance(reservation, Reservation)
            request = Request("", (), [model.encode(UserMessage("go"))])
            await ask(turn, around(model), request, reservation, input_tokens=1)
            return model.is_closed

    assert asyncio.run(asked())
