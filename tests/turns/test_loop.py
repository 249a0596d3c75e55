"""What the loop promises, one table or one sentence at a time."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from mainspring.errors import AuthFailed, NetworkFailed, Overloaded
from mainspring.events import (
    AssistantSaid,
    CallAsked,
    CallEnded,
    CallStarted,
    Crashed,
    Limits,
    NoteAdded,
    RequestFailed,
    SessionResumed,
    SessionStarted,
    SpendReserved,
    SpendSettled,
    TurnEnded,
    TurnStarted,
    Usage,
    UserSaid,
)
from mainspring.folds.state import State, load_state
from mainspring.models import ReplyFinished, Retrying
from mainspring.testing.memory import MemoryJournal
from mainspring.tools import Output, ToolFailed
from mainspring.tools.schema import tool
from mainspring.tools.toolbox import Toolbox
from mainspring.turns.endings import End, end_turn
from tests.stage import (
    Nowhere,
    PausingModel,
    Stage,
    call,
    calls,
    limits,
    pass_time,
    results,
    says,
    stopped_clock,
    take,
    texts,
    wait_for,
)

MALFORMED = {
    "an array": ("[]", "must be a JSON object, not an array"),
    "null": ("null", "must be a JSON object, not null"),
    "an empty JSON string": ('""', "must be a JSON object, not a string"),
    "a number": ("3", "must be a JSON object, not a number"),
    "a boolean": ("true", "must be a JSON object, not a boolean"),
    "nothing, where a field is required": ("", "missing required field `what`"),
    "not JSON": ("{what: x", "not valid JSON"),
    "cut off": ('{"what": "x', "not valid JSON"),
    "a wrong type": ('{"what": 3}', "what: expected `str`, got `int`"),
    "an unknown field": ('{"what": "x", "why": "y"}', "unknown field `why`"),
    "a missing field": ("{}", "missing required field `what`"),
    "nested deeper than a parser goes": ("[" * 100_000, "nested more than 100 deep"),
    "half a character": ('{"what": "\\ud800"}', "not valid JSON"),
}


@pytest.mark.parametrize(("arguments", "sentence"), MALFORMED.values(), ids=MALFORMED)
def test_malformed_arguments_become_an_error_result_and_the_turn_goes_on(tmp_path, arguments, sentence):
    stage = Stage(tmp_path, calls(call("do", arguments), call("do", {"what": "good"})), says("Done."))
    assert stage.take("go").ending == "done"
    bad, good = results(stage.sent()[-1])
    assert sentence in bad[0]
    assert bad[1] is True
    assert good == ("did good", False)
    assert stage.effects == ["good"]


def test_no_arguments_at_all_are_an_empty_object(tmp_path):
    stage = Stage(tmp_path, calls(call("fine", "")), says("Done."))

    async def fine() -> str:
        """Needs nothing."""
        return "fine"

    stage.tools.append(tool(fine, effect="write"))
    stage.take("go")
    assert results(stage.sent()[-1]) == [("fine", False)]


def test_an_unknown_tool_becomes_an_error_result_that_names_the_tools(tmp_path):
    stage = Stage(tmp_path, calls(call("fly"), call("do", {"what": "good"})), says("Done."))
    assert stage.take("go").ending == "done"
    bad, good = results(stage.sent()[-1])
    assert bad == ("There is no tool named 'fly'. The tools are: do, fail, publish.", True)
    assert good == ("did good", False)


def test_of_calls_with_the_same_id_only_the_first_runs(tmp_path):
    asked = [call("do", {"what": what}, id_="same") for what in ("first", "second")]
    stage = Stage(tmp_path, calls(*asked, call("do", {"what": "third"}, id_="other")), says("Done."))
    assert stage.take("go").ending == "done"
    first, second, third = results(stage.sent()[-1])
    assert first == ("did first", False)
    assert "the same id" in second[0]
    assert second[1] is True
    assert third == ("did third", False)
    assert stage.effects == ["first", "third"]


def test_of_calls_with_the_same_id_the_second_does_not_run_after_a_crash_either(tmp_path):
    asked = [call("do", arguments, id_="same") for arguments in ("[]", {"what": "second"})]
    stage = Stage(tmp_path / "one", calls(*asked), says("Done."))
    stage.take("go")
    again = stage.killed_after(tmp_path / "two", stage.seq(CallEnded))
    again.take()
    assert [ended.output for ended in again.events(CallEnded)] == [
        ended.output for ended in stage.events(CallEnded)
    ]
    assert stage.effects == []


def test_calls_without_ids_are_all_different_calls(tmp_path):
    stage = Stage(tmp_path, calls(*(call("do", {"what": what}) for what in "abc")), says("Done."))
    stage.take("go")
    assert stage.effects == ["a", "b", "c"]


def _raises(error: BaseException):
    async def odd() -> str:
        """Does not return."""
        raise error

    return odd


async def _returns_nothing() -> str:
    """Returns something that no tool should."""
    return None  # type: ignore[return-value]


async def _returns_half_a_character() -> str:
    """Returns text that cannot be written."""
    return "left \ud800 right"


FAULTS = {
    "raises": (_raises(ValueError("boom")), "ValueError('boom')"),
    "says that it failed": (_raises(ToolFailed("no such file")), "no such file"),
    "raises a group": (_raises(ExceptionGroup("several", [ValueError("inner")])), "several"),
    "cancels itself": (_raises(asyncio.CancelledError()), "cancelled"),
    "exits": (_raises(SystemExit(3)), "SystemExit(3)"),
    "times out": (_raises(TimeoutError("slow")), "TimeoutError('slow')"),
    "returns nothing": (_returns_nothing, "NoneType"),
}


@pytest.mark.parametrize(("odd", "sentence"), FAULTS.values(), ids=FAULTS)
def test_a_tool_that_fails_becomes_an_error_result_and_its_siblings_keep_theirs(tmp_path, odd, sentence):
    odd.__name__ = "odd"
    asked = (call("do", {"what": "a"}), call("odd"), call("do", {"what": "b"}))
    stage = Stage(tmp_path, calls(*asked), says("Done."))
    stage.tools.append(tool(odd, effect="write"))
    assert stage.take("go").ending == "done"
    before, bad, after = results(stage.sent()[-1])
    assert (before, after) == (("did a", False), ("did b", False))
    assert sentence in bad[0]
    assert bad[1] is True
    assert stage.events(Crashed) == []


def test_text_that_cannot_be_written_is_written_as_far_as_it_can_be(tmp_path):
    stage = Stage(tmp_path, calls(call("_returns_half_a_character")), says("Done."))
    stage.tools.append(tool(_returns_half_a_character, effect="write"))
    assert stage.take("go").ending == "done"
    assert results(stage.sent()[-1]) == [("left ? right", False)]


def test_an_error_output_and_its_exit_code_are_recorded(tmp_path):
    async def odd() -> Output:
        """Fails in an orderly way."""
        return Output(text="out and err", is_error=True, exit_code=7)

    stage = Stage(tmp_path, calls(call("odd")), says("Done."))
    stage.tools.append(tool(odd, effect="write"))
    stage.take("go")
    (ended,) = stage.events(CallEnded)
    assert (ended.outcome, ended.exit_code, ended.output) == ("error", 7, "out and err")


def test_results_stand_in_the_order_asked_although_they_come_in_another(tmp_path):
    done = {name: asyncio.Event() for name in "abcd"}

    async def wait(for_: str, then: str) -> str:
        """Waits for another call."""
        if for_:
            await done[for_].wait()
        done[then].set()
        return then

    asked = [call("wait", {"for_": other, "then": name}) for other, name in ("ba", "cb", "dc", ("", "d"))]
    stage = Stage(tmp_path, calls(*asked), says("Done."))
    stage.tools.append(tool(wait, effect="write"))
    stage.take("go")
    assert [ended.output for ended in stage.events(CallEnded)] == ["d", "c", "b", "a"]
    assert [text for text, _ in results(stage.sent()[-1])] == ["a", "b", "c", "d"]


def test_what_is_said_and_noted_while_calls_run_comes_after_their_results(tmp_path):
    is_running, may_end = asyncio.Event(), asyncio.Event()

    async def wait() -> str:
        """Runs until it is let go."""
        is_running.set()
        await may_end.wait()
        return "waited"

    stage = Stage(tmp_path, calls(call("wait"), call("do", {"what": "x"})), says("Done."))
    stage.tools.append(tool(wait, effect="write"))

    async def steered() -> TurnEnded:
        async with stage.opened() as session:
            await session.say("go")
            await is_running.wait()
            await session.say("rather left")
            await session.note("it is raining")
            may_end.set()
            return await wait_for(session, TurnEnded)

    assert asyncio.run(steered()).ending == "done"
    assert texts(stage.sent()) == [
        "user: go",
        "assistant: wait, do",
        "results: waited, did x",
        "user: rather left",
        "user: [note from user] it is raining",
    ]
    assert len(stage.events(TurnStarted)) == 1


@pytest.mark.parametrize("first", [says("First."), calls(call("do", {"what": "x"}), text="First.")])
def test_what_is_said_while_the_model_speaks_comes_after_its_reply_and_is_answered(tmp_path, first):
    stage = Stage(tmp_path, first, says("Second."))

    async def steered() -> TurnEnded:
        model = stage.model(PausingModel)
        async with stage.opened(model=model) as session:
            await session.say("go")
            await model.is_streaming.wait()
            await session.say("rather left")
            model.may_go_on.set()
            return await wait_for(session, TurnEnded)

    ended = asyncio.run(steered())
    assert (ended.ending, ended.detail, ended.steps) == ("done", "Second.", 2)
    sent = texts(stage.sent())
    assert sent[0] == "user: go"
    assert sent[1].startswith("assistant: First.")
    assert sent[-1] == "user: rather left"


def test_a_note_while_the_model_speaks_waits_for_the_next_request(tmp_path):
    stage = Stage(tmp_path, says("First."), says("Second."))

    async def noted() -> None:
        model = stage.model(PausingModel)
        async with stage.opened(model=model) as session:
            await session.say("go")
            await model.is_streaming.wait()
            await session.note("it is raining")
            model.may_go_on.set()
            assert (await wait_for(session, TurnEnded)).detail == "First."
            await take(session, "more")

    asyncio.run(noted())
    assert texts(stage.sent()) == [
        "user: go",
        "assistant: First.",
        "user: [note from user] it is raining",
        "user: more",
    ]


def test_what_is_said_while_a_request_fails_is_in_the_next_one(tmp_path):
    stage = Stage(tmp_path, says("Only."))

    class Failing(PausingModel):
        async def stream(self, request):
            async for item in super().stream(request):
                if isinstance(item, ReplyFinished) and len(stage.requests) == 1:
                    raise NetworkFailed("The stream was dropped.")
                yield item

    async def steered() -> None:
        model = stage.model(Failing)
        async with stage.opened(model=model) as session:
            await session.say("go")
            await model.is_streaming.wait()
            await session.say("rather left")
            model.may_go_on.set()
            assert (await wait_for(session, TurnEnded)).ending == "failed"
            assert (await take(session)).ending == "done"

    asyncio.run(steered())
    assert texts(stage.sent()) == ["user: go", "user: rather left"]


async def _stubborn_tools(stage: Stage) -> tuple[asyncio.Event, asyncio.Event, asyncio.Event]:
    """Adds a tool that ignores being cancelled until the last event is set."""
    is_running, is_cancelled, may_end = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def ignore() -> str:
        """Ignores cancellation."""
        is_running.set()
        while not may_end.is_set():
            try:
                await may_end.wait()
            except asyncio.CancelledError:
                is_cancelled.set()
        return "late"

    stage.tools.append(tool(ignore, effect="write"))
    return is_running, is_cancelled, may_end


def test_stopping_closes_every_open_call_within_a_second_even_if_a_tool_ignores_it_for_ever(tmp_path):
    stage = Stage(tmp_path, calls(call("ignore"), call("publish", {"what": "x"})), says("Never."))

    async def stopped() -> None:
        is_running, is_cancelled, may_end = await _stubborn_tools(stage)
        async with stage.opened() as session:
            await session.say("go")
            await is_running.wait()
            async with stopped_clock():
                stopping = asyncio.ensure_future(session.stop())
                await is_cancelled.wait()
                pass_time(1.0)
                await stopping
            assert not session.is_running
            assert session.state.open_calls == ()
            may_end.set()

    asyncio.run(stopped())
    outcomes = {ended.call[-1]: (ended.outcome, ended.output) for ended in stage.events(CallEnded)}
    assert outcomes["0"] == ("cancelled", "Cancelled while it ran. What it had done by then is not undone.")
    assert outcomes["1"] == ("cancelled", "Not run: the turn was stopped first.")
    assert [ended.ending for ended in stage.events(TurnEnded)] == ["interrupted"]
    assert stage.effects == []


def test_a_tool_that_is_cancelled_from_within_has_failed_and_the_turn_goes_on(tmp_path):
    async def give_up() -> str:
        """Gives itself up."""
        raise asyncio.CancelledError

    stage = Stage(tmp_path, calls(call("give_up")), says("Then not."))
    stage.tools.append(tool(give_up, effect="read"))
    assert stage.take("go").ending == "done"
    (ended,) = stage.events(CallEnded)
    assert (ended.outcome, ended.output) == ("error", "The tool give_up failed: it was cancelled.")


def test_stopping_while_the_model_speaks_settles_what_was_received(tmp_path):
    stage = Stage(tmp_path, says("x" * 400))

    async def stopped() -> None:
        model = stage.model(PausingModel)
        async with stage.opened(model=model) as session:
            await session.say("go")
            await model.is_streaming.wait()
            await session.stop()
            assert session.state.ledger.spent_tokens == stage.events(SpendSettled)[0].usage.total_tokens

    asyncio.run(stopped())
    (settled,) = stage.events(SpendSettled)
    assert settled.usage.output_tokens == 100
    assert settled.usage.input_tokens > 0
    assert [ended.ending for ended in stage.events(TurnEnded)] == ["interrupted"]
    assert stage.events(AssistantSaid) == []


def test_a_stopped_turn_goes_on_when_it_is_resumed(tmp_path):
    stage = Stage(tmp_path, calls(call("publish", {"what": "x"})), says("Done."))

    async def stopped() -> None:
        async with stage.opened() as session:
            await session.say("go")
            await wait_for(session, SpendSettled)
            await session.stop()

    asyncio.run(stopped())
    assert stage.take().ending == "done"
    assert results(stage.sent()[-1])[0][1] is True


LIMITS = {
    "steps": (limits(max_steps=2), "limit", "The limit of 2 steps is reached.", "--max-steps"),
    "tokens": (limits(max_tokens=700), "budget", "The token limit is reached", "--max-tokens"),
    "cost": (limits(max_cost_usd=0.0004), "budget", "The budget is used up", "--max-cost-usd"),
}


@pytest.mark.parametrize(("low", "ending", "detail", "remedy"), LIMITS.values(), ids=LIMITS)
def test_a_limit_ends_the_turn_and_a_higher_one_lets_it_go_on(tmp_path, low, ending, detail, remedy):
    replies = [calls(call("do", {"what": str(number)})) for number in range(6)]
    stage = Stage(tmp_path, *replies, says("Done."))
    ended = stage.take("go", **low)
    assert (ended.ending, detail in ended.detail, remedy in ended.remedy) == (ending, True, True)
    made = len(stage.requests)
    assert 0 < made < 7
    assert stage.take(**limits(max_steps=20, max_tokens=100_000, max_cost_usd=1.0)).ending == "done"
    assert stage.effects == [str(number) for number in range(6)]


def test_a_cap_limits_the_output_that_is_asked_for_and_is_never_exceeded(tmp_path):
    replies = [calls(call("do", {"what": str(number)})) for number in range(50)]
    stage = Stage(tmp_path, *replies)
    ended = stage.take("go", **limits(max_tokens=4000))
    assert ended.ending == "budget"
    assert all(0 < (request.max_output_tokens or 0) < 4000 for request in stage.requests)
    assert all(reserved.tokens <= 4000 for reserved in stage.events(SpendReserved))
    assert sum(settled.usage.total_tokens for settled in stage.events(SpendSettled)) <= 4000


def test_without_a_cap_the_model_is_asked_for_as_much_as_it_gives(tmp_path):
    stage = Stage(tmp_path, says("Done."))
    stage.take("go")
    assert stage.requests[0].max_output_tokens is None


def test_wall_time_ends_the_turn_and_closes_its_calls(tmp_path):
    stage = Stage(tmp_path, calls(call("wait"), call("do", {"what": "x"})), says("Done."))

    async def wait() -> str:
        """Never ends by itself."""
        await asyncio.Event().wait()
        return ""

    stage.tools.append(tool(wait, effect="write"))

    async def late() -> TurnEnded:
        async with stage.opened(**limits(timeout_s=60)) as session:
            await session.say("go")
            await wait_for(session, CallEnded)
            pass_time(60)
            return await wait_for(session, TurnEnded)

    ended = asyncio.run(late())
    assert (ended.ending, ended.detail) == ("limit", "The time limit of 60 s is reached.")
    assert sorted(ended.outcome for ended in stage.events(CallEnded)) == ["cancelled", "ok"]
    assert stage.take(**limits(timeout_s=120)).ending == "done"


def test_wall_time_ends_a_turn_whose_model_is_silent(tmp_path):
    stage = Stage(tmp_path, says("Never finished."))

    async def silent() -> TurnEnded:
        model = stage.model(PausingModel)
        async with stage.opened(model=model, **limits(timeout_s=60)) as session:
            await session.say("go")
            await model.is_streaming.wait()
            pass_time(60)
            return await wait_for(session, TurnEnded)

    assert asyncio.run(silent()).ending == "limit"
    assert len(stage.events(SpendSettled)) == 1


def test_a_time_out_of_something_else_is_not_taken_for_the_time_limit(tmp_path):
    stage = Stage(tmp_path, calls(call("publish", {"what": "x"})), says("Done."))

    async def approver(question):
        raise TimeoutError("the approver's own time-out")

    with pytest.raises(TimeoutError, match="own time-out"):
        stage.take("go", approver=approver, **limits(timeout_s=60))
    assert len(stage.events(Crashed)) == 1
    assert [ended.ending for ended in stage.events(TurnEnded)] == ["failed"]


CUT = {"stop": "length"}


def test_a_reply_cut_off_is_asked_to_go_on(tmp_path):
    stage = Stage(tmp_path, says("One ", **CUT), says("two.", **CUT), says("Three."))
    ended = stage.take("go")
    assert (ended.ending, ended.detail, ended.steps) == ("done", "Three.", 3)
    assert [note.source for note in stage.events(NoteAdded)] == ["mainspring", "mainspring"]
    assert texts(stage.sent())[1] == "assistant: One "
    assert "cut off at the output limit" in texts(stage.sent())[2]


def test_a_reply_cut_off_right_before_a_crash_is_asked_to_go_on(tmp_path):
    stage = Stage(tmp_path / "one", says("One ", **CUT), says("two."))
    stage.take("go")
    again = stage.killed_after(tmp_path / "two", stage.seq(AssistantSaid))
    ended = again.take()
    assert (ended.ending, ended.detail) == ("done", "two.")
    assert len(again.events(NoteAdded)) == 1


def test_a_model_that_is_always_cut_off_fails_in_the_end(tmp_path):
    stage = Stage(tmp_path, *[says("on and on", **CUT)] * 10)
    ended = stage.take("go")
    assert (ended.ending, ended.steps) == ("failed", 4)
    assert "cut off at the output limit 4 times" in ended.detail


def test_calls_of_a_reply_cut_off_are_not_run(tmp_path):
    cut = calls(call("do", {"what": "x"}), call("do", '{"what": "y'))
    stage = Stage(tmp_path, says("", calls=cut.calls, stop="length"), says("Done."))
    assert stage.take("go").ending == "done"
    assert [is_error for _, is_error in results(stage.sent()[-1])] == [True, True]
    assert all("cut off at the output limit" in text for text, _ in results(stage.sent()[-1]))
    assert stage.effects == []


@pytest.mark.parametrize(
    ("text", "detail"), [("I will not.", "I will not."), ("", "The model declined to answer.")]
)
def test_a_model_that_declines_fails_the_turn(tmp_path, text, detail):
    stage = Stage(tmp_path, says(text, stop="refused"))
    ended = stage.take("go")
    assert (ended.ending, ended.detail) == ("failed", detail)
    assert ended.remedy


def test_empty_replies_are_asked_about_and_end_the_turn_when_that_does_not_help(tmp_path):
    stage = Stage(tmp_path, says(""))
    ended = stage.take("go")
    assert (ended.ending, ended.detail) == ("failed", "The model gave 3 empty replies in a row.")
    assert len(stage.requests) == 3
    assert "Your reply was empty" in texts(stage.sent())[-1]


ERRORS = [Overloaded("The provider is overloaded."), AuthFailed("The key is wrong.", remedy="Set another.")]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_model_error_ends_the_turn_with_its_sentence_and_costs_nothing(tmp_path, error):
    stage = Stage(tmp_path, calls(call("do", {"what": "x"})), says("Done."))
    stage.errors[2] = error
    ended = stage.take("go")
    assert (ended.ending, ended.detail, ended.remedy) == ("failed", error.message, error.remedy)
    (failed,) = stage.events(RequestFailed)
    assert (failed.error, failed.message, failed.retry_in_s) == (type(error).__name__, error.message, None)
    reserved, settled = stage.events(SpendReserved), stage.events(SpendSettled)
    assert [item.spend for item in settled] == [item.spend for item in reserved] == ["step:1", "step:2"]
    assert settled[1].usd == 0.0
    assert stage.take().ending == "done"
    assert stage.effects == ["x"]


def test_a_stream_that_breaks_off_is_paid_as_far_as_it_came(tmp_path):
    stage = Stage(tmp_path, says("x" * 400))

    class Broken(type(stage.model())):
        async def stream(self, request):
            async for item in super().stream(request):
                if isinstance(item, ReplyFinished):
                    return
                yield item

    ended = stage.take("go", model=stage.model(Broken))
    assert (ended.ending, "ended before it was complete" in ended.detail) == ("failed", True)
    (settled,) = stage.events(SpendSettled)
    assert settled.usage.output_tokens == 100
    assert settled.usd > 0


def test_an_attempt_that_is_retried_is_recorded_and_what_it_said_is_void(tmp_path):
    stage = Stage(tmp_path, says("Whole."))

    class Retried(type(stage.model())):
        async def stream(self, request):
            async for item in super().stream(request):
                yield item
                break
            yield Retrying(attempt=1, error="Overloaded", message="busy", retry_in_s=0.0)
            async for item in super().stream(request):
                yield item

    assert stage.take("go", model=stage.model(Retried)).detail == "Whole."
    assert [reply.text for reply in stage.events(AssistantSaid)] == ["Whole."]
    assert [(failed.attempt, failed.retry_in_s) for failed in stage.events(RequestFailed)] == [(1, 0.0)]


def test_the_end_of_a_turn_says_what_it_used(tmp_path):
    usage = Usage(input_tokens=1000, cached_tokens=400, output_tokens=50, reasoning_tokens=10)
    stage = Stage(
        tmp_path,
        says("", calls=(call("do", {"what": "x"}),), usage=usage),
        says("Done.", usage=usage),
        says("Again.", usage=usage),
    )
    ended = stage.take("go")
    assert (ended.steps, ended.usage.input_tokens, ended.usage.reasoning_tokens) == (2, 2000, 20)
    assert ended.cost_usd == pytest.approx(2 * (1000 * 1.0 + 50 * 2.0) / 1e6)
    assert stage.take("more").steps == 1


def test_a_call_that_had_started_before_a_crash_is_unknown_also_when_the_user_says_something_else(tmp_path):
    stage = Stage(tmp_path / "one", calls(call("do", {"what": "x"})), says("Done."))
    stage.take("go")
    again = stage.killed_after(tmp_path / "two", stage.seq(CallStarted))
    assert again.take("leave that").ending == "done"
    assert [ended.outcome for ended in again.events(CallEnded)] == ["unknown"]
    assert texts(again.sent())[2:] == [f"results: {again.events(CallEnded)[0].output}", "user: leave that"]


def test_a_call_that_had_started_before_a_crash_is_unknown_also_when_the_turn_is_stopped_at_once(tmp_path):
    stage = Stage(tmp_path / "one", calls(call("do", {"what": "x"})), says("Done."))
    stage.take("go")
    again = stage.killed_after(tmp_path / "two", stage.seq(CallStarted))
    again.take(engine=_stop_at_once)
    assert [ended.outcome for ended in again.events(CallEnded)] == ["unknown"]


async def _stop_at_once(turn) -> None:
    await end_turn(turn, End("interrupted", "Stopped."))


def test_wall_time_counts_across_resumes_without_the_time_the_process_was_down(tmp_path):
    """Seconds of work: 10 before the reply, 100 in its call, 10 more in each of two later processes."""
    journal = MemoryJournal()
    asked = AssistantSaid(step=1, parts=(CallAsked(call="c", name="do", arguments='{"what": "x"}'),))
    resumed = SessionResumed(version="", host="", pid=1)
    told = [
        (0, SessionStarted(session="memory", workspace="/", version="")),
        (0, UserSaid(text="go")),
        (0, TurnStarted(turn=1, limits=Limits(timeout_s=200))),
        (10, SpendReserved(spend="step:1", source="step", model="m")),
        (0, asked),
        (0, CallStarted(call="c", tool="do")),
        (100, CallEnded(call="c", outcome="ok")),
        (5000, resumed),
        (10, SpendReserved(spend="step:2", source="step", model="m")),
        (0, AssistantSaid(step=2, parts=asked.parts)),
        (7000, resumed),
        (10, CallStarted(call="c", tool="do")),
        (9000, resumed),
    ]

    async def written() -> State:
        for seconds, event in told:
            journal.now_us += seconds * 1_000_000
            await journal.append(event)
        return await load_state(journal)

    state = asyncio.run(written())
    assert state.ledger.tally("turn").time_s == pytest.approx(130, abs=0.1)


@pytest.mark.parametrize("is_cut_off", [False, True])
def test_a_sandbox_is_chosen_while_the_model_writes_its_first_command(tmp_path, is_cut_off: bool) -> None:
    """The stream goes on only when that has happened. One that no call needed is closed all the same."""
    stage = Stage(tmp_path, calls(call("shell", {"what": "x"})), says("Done."))
    closed: list[str] = []

    class Chosen(Nowhere):
        async def close(self) -> None:
            closed.append(self.name)

    class Broken(PausingModel):
        async def stream(self, request):
            async for item in super().stream(request):
                yield item
                if is_cut_off:
                    raise AuthFailed("The stream was refused.")

    async def shell(what: str) -> str:
        """Runs something."""
        return what

    async def story() -> str:
        model = stage.model(Broken)

        async def choose() -> Chosen:
            model.may_go_on.set()
            return Chosen()

        async with stage.opened(
            model=model, choose_sandbox=choose, toolbox=Toolbox([tool(shell, effect="write")])
        ) as session:
            return (await take(session, "go")).ending

    assert asyncio.run(asyncio.wait_for(story(), 60)) == ("failed" if is_cut_off else "done")
    assert closed == ["nowhere"]


@pytest.mark.parametrize("count", [200_000, 99_000_000])
def test_a_count_that_a_request_cannot_come_to_does_not_end_the_session(tmp_path: Path, count: int) -> None:
    stage = Stage(tmp_path, says("one", usage=Usage(input_tokens=count)), says("two"))
    stage.script = msgspec.structs.replace(stage.script, context_tokens=100_000)

    async def story() -> list[str]:
        async with stage.opened() as session:
            return [(await take(session, text)).detail for text in ("a", "b")]

    assert asyncio.run(story()) == ["one", "two"]
