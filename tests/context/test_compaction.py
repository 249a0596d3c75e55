"""What compaction keeps, where it cuts, and what it does when the model is no help. Pure parts, then a session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from mainspring.context.compaction import (
    INSTRUCTIONS,
    Outline,
    compose,
    cut,
    flaws,
    narrative_of,
    size_after,
    thin_out,
    transcript,
)
from mainspring.context.facts import FRESH, SessionFacts
from mainspring.context.history import History, recall
from mainspring.context.stubs import handle_of, seq_of, stub, text_of
from mainspring.errors import (
    AuthFailed,
    BadRequest,
    ContextOverflow,
    JournalDamaged,
    ModelUnknown,
    NetworkFailed,
    Overloaded,
    UsageError,
)
from mainspring.events import (
    ApprovalAsked,
    ApprovalGiven,
    AssistantSaid,
    CallAsked,
    CallEnded,
    Compacted,
    Limits,
    ModelChosen,
    NoteAdded,
    OnProcess,
    OnQuota,
    OnSlurm,
    ProcessEnded,
    ProcessStarted,
    Recorded,
    Remembered,
    RequestFailed,
    SessionResumed,
    SpendReserved,
    SpendSettled,
    UserSaid,
    WaitEnded,
    WaitStarted,
)
from mainspring.models import Price, Request, StreamItem
from mainspring.models.scripted import Script, ScriptedModel, ScriptedReply
from mainspring.session.session import runtime_of
from mainspring.turns.compactor import Compactor
from tests.context.telling import Tale, plan_set
from tests.stage import Stage, call, calls, says, take, texts

GOAL = "Make the parser of invoices faster. Never change its public interface."


def told(*folds: Any, steps: int = 6, size: int = 1000) -> Tale:
    tale = Tale(*folds)
    tale.user(GOAL)
    for number in range(steps):
        tale.step(("read", {"path": f"f{number}.py"}, f"{number} " * (size // 2)), text=f"Step {number}.")
    return tale


def test_facts_are_what_must_not_be_forgotten():
    facts = SessionFacts()
    tale = Tale(facts)
    tale.user(GOAL)
    tale.add(plan_set(("profile it", "done"), ("cache it", "open")))
    tale.step(("read", {"path": "a.py"}, "code"), ("edit", {"path": "a.py"}, "Changed a.py"))
    tale.step(("shell", {"command": "pytest -q"}, "exit code 1\n2 failed"))
    tale.step(
        ("shell", {"command": "make"}, "exit code 2\nno rule"), ("edit", {"path": "b.py"}, "!not found")
    )
    tale.step(("shell", {"command": "make"}, "exit code 0"))
    tale.add(
        UserSaid(text="Also keep Python 3.9 working."), NoteAdded(text="the disk is slow", source="user")
    )
    tale.add(ApprovalAsked(call="c9", tool="shell", arguments="{}", arguments_sha256="x"))
    assert facts.goal == GOAL
    assert list(facts.rules) == ["Never change its public interface.", "Also keep Python 3.9 working."]
    assert facts.plan == ["[done] profile it", "[open] cache it"]
    assert facts.files == {"a.py": {"read": 1, "edit": 1}}
    assert facts.commands == {"pytest -q": 1, "make": 0}
    assert set(facts.open) == {"c9"}
    assert [about for _, about in facts.errors] == ["pytest -q", "b.py"]
    assert facts.notes == ["user: the disk is slow"]
    tale.add(ApprovalGiven(call="c9", arguments_sha256="x", decision="reject"))
    assert "c9" not in facts.open


def test_processes_are_open_until_they_have_ended():
    facts = SessionFacts()
    tale = Tale(facts)
    asked = CallAsked(call="c2", name="shell", arguments='{"command": "make"}')
    tale.add(AssistantSaid(step=1, parts=(asked,), stop="calls"))
    tale.add(ProcessStarted(handle="p1", call="c1", command="train.py", folder="/f/p1"))
    tale.add(CallEnded(call="c2", outcome="ok", left_running=(4242,)))
    assert set(facts.open) == {"p1", "4242"}
    assert "train.py" in facts.open["p1"]
    tale.add(SessionResumed(version="1", host="h", pid=1))
    assert set(facts.open) == {"p1"}
    tale.add(ProcessEnded(handle="p1", exit_code=0))
    assert facts.open == {}


def test_open_waits_are_kept_in_words_and_those_of_calls_that_are_over_are_not():
    facts = SessionFacts()
    tale = Tale(facts)
    tale.add(WaitStarted(wait="w-c1", conditions=(OnProcess(handle="p1"), OnSlurm(job="7")), call="c1"))
    tale.add(WaitStarted(wait="quota-4", conditions=(OnQuota(model="m", at_us=0),), reason="Too much."))
    assert facts.open == {
        "w-c1": "wait for process p1 to end or Slurm job 7 to end",
        "quota-4": "wait for m to answer again at 1970-01-01T00:00:00Z (Too much.)",
    }
    tale.add(CallEnded(call="c1", outcome="unknown", output=""))
    assert set(facts.open) == {"quota-4"}
    tale.add(WaitEnded(wait="quota-4", cause="met"))
    assert facts.open == {}


def test_a_summary_names_all_of_it_and_stays_in_its_limit():
    facts = SessionFacts()
    told(facts, steps=200)
    facts.open["4242"] = "process 4242"
    for limit in (3_000, 8_000, 40_000):
        summary = compose(facts, "I decided to cache. " * 10, keep_from_seq=99, limit=limit)
        assert len(summary) <= limit
        for needed in (
            GOAL,
            "Never change its public interface.",
            "4242",
            "decided to cache",
            "f199.py: read",
        ):
            assert needed in summary
    assert narrative_of(summary) == ("I decided to cache. " * 10).strip()


def test_a_huge_goal_is_shortened_with_its_handle():
    facts = SessionFacts()
    Tale(facts).user("Sort this. " + "x" * 100_000 + " Never delete it.")
    summary = compose(facts, "", keep_from_seq=9, limit=4000)
    assert len(summary) < 5000
    assert "Sort this." in summary
    assert "Never delete it." in summary
    assert "handle event:1" in summary


def test_the_newest_steps_are_kept_whole_and_calls_never_lose_their_results():
    outline = Outline()
    tale = told(outline)
    for keep in (100, 1500, 2500, 4500, 100_000):
        kept = cut(outline, keep=keep)
        first = tale.events[kept.keep_from_seq - 1].event
        assert isinstance(first, AssistantSaid | UserSaid)
        asked = {
            c.call for item in tale.events[kept.keep_from_seq - 1 :] for c in getattr(item.event, "calls", ())
        }
        ended = {
            item.event.call
            for item in tale.events[kept.keep_from_seq - 1 :]
            if isinstance(item.event, CallEnded)
        }
        assert asked == ended != set()
    assert cut(outline, keep=100_000) == cut(outline, keep=50_000)
    assert cut(outline, keep=100_000).keep_from_seq == 1


def test_what_came_too_late_for_the_first_kept_reply_is_kept_with_it():
    outline = Outline()
    tale = told(outline)
    heard = len(tale.events)
    tale.add(UserSaid(text="wait"), AssistantSaid(step=9, heard_seq=heard))
    assert cut(outline, keep=50).keep_from_seq == heard + 1


def test_one_huge_output_in_the_last_step_becomes_a_stub():
    outline = Outline()
    tale = told(outline, steps=1, size=500_000)
    kept = cut(outline, keep=10_000)
    assert kept.stubbed == (len(tale.events),)
    assert size_after(outline, kept) < 2_000


def test_the_old_way_drops_the_oldest_outputs_first_and_then_the_oldest_steps():
    outline = Outline()
    tale = told(outline, steps=6, size=2000)
    outputs = [item.seq for item in tale.events if isinstance(item.event, CallEnded)]
    thinned = thin_out(outline, target=outline.size - 2000, keep=3000)
    assert thinned.keep_from_seq == 1
    assert thinned.stubbed == tuple(outputs[:2])
    dropped = thin_out(outline, target=1000, keep=3000)
    assert dropped.keep_from_seq > 1


def test_a_stub_says_size_and_handle_and_is_always_the_same():
    tale = told(steps=1, size=10_000)
    ended = tale.events[-1]
    short = stub(ended)
    assert isinstance(short.event, CallEnded)
    assert len(short.event.output) < 500
    assert f"{len(text_of(ended.event)):,} characters" in short.event.output
    assert handle_of(ended.seq) in short.event.output
    assert seq_of(handle_of(ended.seq)) == ended.seq
    assert stub(ended) == short
    assert [seq_of(text) for text in ("event:", "event:0", "e1", "event:1 2", "", "event:" + "9" * 40)] == [
        None
    ] * 6


def test_long_arguments_become_short_ones_that_are_still_an_object():
    tale = Tale()
    tale.step(("write", {"path": "a", "content": "x" * 9999}, "ok"), ("write", "{" + "y" * 9999, "!bad"))
    short = stub(tale.events[0]).event
    assert isinstance(short, AssistantSaid)
    first, second = (msgspec.json.decode(asked.arguments) for asked in short.calls)
    assert first == {"path": "a", "content": "[9,999 characters left out, handle event:1]"}
    assert list(second) == ["arguments"]


@pytest.mark.parametrize(
    ("narrative", "flaw"),
    [
        ("", "empty"),
        ("I had a nice day.", "does not restate the goal"),
        ("The parser of invoices is made faster.", "4242"),
        ("Process 4242 profiles the invoices parser, which gets faster." + "x" * 20_000, "characters"),
    ],
)
def test_a_model_that_leaves_out_what_it_must_not_is_found_out(narrative, flaw):
    facts = SessionFacts()
    told(facts)
    facts.open["4242"] = "process"
    assert any(flaw in found for found in flaws(narrative, facts))


GOOD = "The parser of invoices is to become faster, its public interface never to change. I read six files."


def test_a_good_narrative_has_no_flaws():
    facts = SessionFacts()
    told(facts)
    assert flaws(GOOD, facts) == []


def test_material_for_a_summary_stays_in_its_limit_and_ends_with_the_newest():
    tale = told(steps=50, size=4000)
    for limit in (2_000, 20_000, 60_000):
        text = transcript(tale.events, "earlier", limit=limit)
        assert len(text) < limit + 1000
        assert "f49.py" in text


def test_material_for_a_summary_has_no_control_characters_of_a_call():
    call = CallAsked(call="c1", name="\x1b[31mread\0", arguments="\x07{")
    said = AssistantSaid(step=1, parts=(call,), stop="calls", heard_seq=1)
    text = transcript([Recorded(seq=2, time_us=1, event=said)], "", limit=2_000)
    assert text.isprintable()
    assert "read" in text


class Writer(ScriptedModel):
    """Writes summaries: the same one at each request, unless it is told to fail."""

    def __init__(self, *said: str, error: Exception | None = None) -> None:
        self.asked: list[Request] = []

        def on_request(request: Request) -> Any:
            self.asked.append(request)
            self._script = Script(replies=(ScriptedReply(text=said[min(len(self.asked), len(said)) - 1]),))
            return error

        super().__init__(Script(replies=()), name="writer", on_request=on_request)


def staged(tmp_path: Any, *, steps: int = 8, window: int | None = 4000) -> Stage:
    """A session whose outputs fill the window of its model."""
    replies = [calls(call("look", {"at": number}), text=f"Step {number}.") for number in range(steps)]
    stage = Stage(tmp_path, *replies, says("Done."))
    stage.script = msgspec.structs.replace(stage.script, context_tokens=window)

    async def look(at: int) -> str:
        """Shows a lot."""
        return f"page {at} " * 300

    from mainspring.tools.schema import tool

    stage.tools.append(tool(look, effect="read"))
    return stage


def test_history_is_compacted_at_the_share_of_the_window_with_a_single_user_message(tmp_path):
    stage, writer = staged(tmp_path), Writer(GOOD)
    ended = stage.take(GOAL, compactor=Compactor(writer), limits=Limits(max_steps=30))
    compacted = stage.events(Compacted)
    assert compacted
    first = compacted[0]
    assert (first.model, first.reason) == ("writer", "window")
    assert first.tokens_before >= 0.8 * 4000
    assert first.tokens_after < first.tokens_before / 1.5
    assert GOAL in first.summary
    assert GOOD in first.summary
    assert "page 0" in str(writer.asked[0].messages[0])
    assert ended.ending in ("done", "limit")
    for request in stage.requests:
        size = len(request.system) + sum(map(len, request.messages))
        assert size / 4 < 4000
    sources = [spend.source for spend in stage.events(SpendReserved)]
    assert "compaction" in sources
    assert len(stage.events(SpendSettled)) == len(sources)


def test_a_bad_summary_is_asked_for_once_more_with_what_is_missing(tmp_path):
    stage, writer = staged(tmp_path), Writer("Nothing much.", GOOD)
    stage.take(GOAL, compactor=Compactor(writer), limits=Limits(max_steps=7))
    assert len(writer.asked) == 2
    assert "does not restate the goal" in str(writer.asked[1].messages[0])
    assert stage.events(Compacted)[0].model == "writer"


def test_without_a_good_summary_the_oldest_outputs_are_left_out(tmp_path):
    stage, writer = staged(tmp_path), Writer("Nothing much.")
    stage.take(GOAL, compactor=Compactor(writer), limits=Limits(max_steps=7))
    assert len(writer.asked) == 2
    compacted = stage.events(Compacted)[0]
    assert compacted.model == ""
    assert compacted.stubbed
    assert GOAL in str(stage.requests[-1].messages)


@pytest.mark.parametrize(
    "error",
    [Overloaded("no"), AuthFailed("no"), ModelUnknown("no"), NetworkFailed("no"), ContextOverflow("no")],
)
def test_a_failing_model_for_summaries_is_replaced_by_the_sessions_own(tmp_path, error):
    stage, writer = staged(tmp_path), Writer("", error=error)
    own, steps = Writer(GOOD), stage.model()

    class Own(ScriptedModel):
        async def stream(self, request: Request) -> AsyncGenerator[StreamItem]:
            model = own if request.system == INSTRUCTIONS else steps
            async for item in model.stream(request):
                yield item

    model = Own(stage.script, name="own")
    stage.take(GOAL, compactor=Compactor(writer), model=model, limits=Limits(max_steps=7))
    assert (len(writer.asked), len(own.asked)) == (1, 1)
    compacted = stage.events(Compacted)[0]
    assert compacted.model == "own"
    assert GOOD in compacted.summary
    (failed,) = stage.events(RequestFailed)
    assert (failed.error, failed.model, failed.step) == (type(error).__name__, "writer", 0)
    spends = [spend for spend in stage.events(SpendReserved) if spend.source == "compaction"]
    assert [spend.model or "own" for spend in spends] == ["writer", "own"]
    assert len(stage.events(SpendSettled)) == len(stage.events(SpendReserved))
    assert [chosen.model for chosen in stage.events(ModelChosen)] == ["own"]


@pytest.mark.parametrize("error", [Overloaded("no"), NetworkFailed("no"), AuthFailed("no"), BadRequest("no")])
@pytest.mark.parametrize("has_writer", [True, False])
def test_a_turn_goes_on_when_nobody_can_write_a_summary(tmp_path, error, has_writer):
    stage = staged(tmp_path)
    steps = stage.model()

    class Own(ScriptedModel):
        async def stream(self, request: Request) -> AsyncGenerator[StreamItem]:
            if request.system == INSTRUCTIONS:
                raise error
            async for item in steps.stream(request):
                yield item

    compactor = Compactor(Writer("", error=error)) if has_writer else Compactor()
    model = Own(stage.script, name="own")
    ended = stage.take(GOAL, compactor=compactor, model=model, limits=Limits(max_steps=7))
    assert ended.ending == "limit", "after all of its steps"
    compacted = stage.events(Compacted)[0]
    assert compacted.model == ""
    assert compacted.stubbed


def test_a_model_for_summaries_that_does_not_fit_the_budget_is_replaced_by_the_sessions_own(tmp_path):
    stage, writer = staged(tmp_path), Writer(GOOD)
    writer.price = Price(input=1000.0, output=1000.0)
    stage.take(GOAL, compactor=Compactor(writer), limits=Limits(max_steps=7, max_cost_usd=1))
    assert writer.asked == []
    models = {spend.model for spend in stage.events(SpendReserved) if spend.source == "compaction"}
    assert models == {""}  # the one that was chosen


def test_an_overflow_compacts_once_and_the_run_goes_on(tmp_path):
    stage, writer = staged(tmp_path, window=None), Writer(GOOD)
    stage.errors[5] = ContextOverflow("too large")
    ended = stage.take(GOAL, compactor=Compactor(writer), limits=Limits(max_steps=12))
    assert stage.events(Compacted)[0].reason == "overflow"
    assert [failed.error for failed in stage.events(RequestFailed)] == ["ContextOverflow"]
    assert ended.ending != "failed"


def test_a_model_that_always_overflows_gets_two_requests_and_one_clear_end(tmp_path):
    stage, writer = staged(tmp_path, window=None), Writer(GOOD)
    for number in range(4, 2000):
        stage.errors[number] = ContextOverflow("too large")
    ended = stage.take(GOAL, compactor=Compactor(writer))
    assert ended.ending == "failed"
    assert "cannot be made short enough" in ended.detail
    assert "tokens" in ended.detail
    assert len(stage.requests) == 5
    assert len(writer.asked) <= 1


def test_a_crash_right_after_an_overflow_compacts_before_it_asks_again(tmp_path):
    stage = staged(tmp_path / "one", window=None)
    stage.errors[5] = ContextOverflow("too large")
    stage.take(GOAL, compactor=Compactor(Writer(GOOD)), limits=Limits(max_steps=7))
    again = stage.killed_after(tmp_path / "two", stage.seq(RequestFailed))
    again.take(compactor=Compactor(Writer(GOOD)), limits=Limits(max_steps=7))
    steps = [item.seq for item in again.journal() if getattr(item.event, "source", "") == "step"]
    assert (
        again.seq(RequestFailed)
        < again.seq(Compacted)
        < min(s for s in steps if s > again.seq(RequestFailed))
    )
    assert len(again.events(RequestFailed)) == 1


def test_a_first_message_larger_than_the_window_is_replaced_by_a_stub(tmp_path):
    stage = staged(tmp_path, steps=0)
    ended = stage.take("Sort this: " + "x" * 100_000, compactor=Compactor())
    assert ended.ending == "done"
    [sent] = texts(stage.sent())[:1]
    assert "Sort this: " in sent
    assert "100,011 characters" in sent
    assert "pages through event:" in sent


def test_a_prompt_larger_than_the_window_ends_with_numbers_and_without_a_request(tmp_path):
    stage = staged(tmp_path, steps=0)
    ended = stage.take("go", compactor=Compactor(), system="y" * 50_000)
    assert ended.ending == "failed"
    assert "takes 4,000" in ended.detail
    assert stage.requests == []


def test_an_unaffordable_summary_is_done_without(tmp_path):
    stage, writer = staged(tmp_path), Writer(GOOD)
    writer.price = Price(input=1e6, output=1e6)
    stage.take(GOAL, compactor=Compactor(writer), limits=Limits(max_cost_usd=5, max_steps=8))
    assert writer.asked == []
    assert stage.events(Compacted)[0].stubbed


def test_compaction_by_command_and_back(tmp_path):
    stage = staged(tmp_path, window=None)

    async def compacted() -> None:
        async with stage.opened(compactor=Compactor(Writer(GOOD))) as session:
            await take(session, GOAL)
            before = await runtime_of(session).history.messages(runtime_of(session).recorder.get_blob)
            given = await session.compact()
            after = await runtime_of(session).history.messages(runtime_of(session).recorder.get_blob)
            assert len(after) < len(before)
            assert after[-1] == before[-1]
            assert given.reason == "asked"
            await session.expand()
            assert await runtime_of(session).history.messages(runtime_of(session).recorder.get_blob) == before

    asyncio.run(compacted())


def test_a_session_with_nothing_to_leave_out_says_so(tmp_path):
    stage = staged(tmp_path, steps=0)

    async def asked() -> None:
        async with stage.opened(compactor=Compactor(Writer(GOOD))) as session:
            await take(session, GOAL)
            await session.compact()

    with pytest.raises(UsageError, match="history is too short"):
        asyncio.run(asked())


def test_undoing_the_turn_undoes_its_compaction(tmp_path):
    stage = staged(tmp_path, window=None)

    async def undone() -> None:
        async with stage.opened(compactor=Compactor(Writer(GOOD))) as session:
            await take(session, "First.")
            before = await runtime_of(session).history.messages(runtime_of(session).recorder.get_blob)
            await session.say(GOAL)
            async for _ in session.run():
                pass
            await session.compact()
            await session.undo()
            assert await runtime_of(session).history.messages(runtime_of(session).recorder.get_blob) == before

    asyncio.run(undone())


def test_what_is_kept_has_the_same_bytes_as_before(tmp_path):
    stage, writer = staged(tmp_path), Writer(GOOD)
    stage.take(GOAL, compactor=Compactor(writer), limits=Limits(max_steps=7))
    compacted = stage.events(Compacted)[0]
    whole = History(ScriptedModel(stage.script).encode)
    for item in stage.journal():
        if item.seq >= compacted.keep_from_seq:
            whole.apply(item)
    kept = asyncio.run(whole.messages(_nothing))
    last = stage.requests[-1].messages
    assert list(last[1:]) == list(kept[: len(last) - 1])
    assert len({request.system for request in stage.requests}) == 1


def test_a_handle_is_read_back_in_full(tmp_path):
    stage = staged(tmp_path)

    async def recalled() -> None:
        async with stage.opened(compactor=Compactor(Writer(GOOD))) as session:
            await take(session, GOAL)
            seq = stage.seq(CallEnded)
            assert await recall(session.journal, handle_of(seq)) == b"page 0 " * 300
            for nothing in ("event:999999", "event:1", "nonsense"):
                with pytest.raises((UsageError, JournalDamaged)):
                    await recall(session.journal, nothing)

    asyncio.run(recalled())


async def _nothing(_: Any) -> bytes:
    return b""


def test_a_compaction_in_the_third_iteration_knows_nothing_of_the_first_two(tmp_path):
    """A fresh history per iteration: prompts, results and notes of earlier ones do not come back, neither in
    the summary, nor in what its writer reads, nor when the compaction is taken back."""
    stage, writer = staged(tmp_path, steps=24, window=None), Writer(GOOD)
    prompts = [f"{GOAL} Iteration {number}, word {word}." for number, word in enumerate("abc", 1)]

    async def iterate() -> None:
        async with stage.opened(compactor=Compactor(writer), limits=Limits(max_steps=8)) as session:
            for prompt in prompts:
                keep_from = await session.journal.last_seq() + 1
                fresh = Compacted(summary="", keep_from_seq=keep_from, reason=FRESH)
                await session.say(prompt, after=[fresh])
                await session.note(f"A note on {prompt}")
                await take(session)
            before = await runtime_of(session).history.messages(runtime_of(session).recorder.get_blob)
            given = await session.compact()
            assert given.summary
            after = await runtime_of(session).history.messages(runtime_of(session).recorder.get_blob)
            assert after[-1] == before[-1]
            await session.expand()
            assert await runtime_of(session).history.messages(runtime_of(session).recorder.get_blob) == before
            told = [given.summary, str(writer.asked[0].messages), str(before), str(after)]
            for text in told:
                assert prompts[2] in text
                assert prompts[0] not in text
                assert prompts[1] not in text

    asyncio.run(iterate())


def test_requests_of_an_iteration_begin_with_the_bytes_of_the_one_before(tmp_path):
    stage = staged(tmp_path, steps=12, window=None)

    async def iterate() -> None:
        async with stage.opened(limits=Limits(max_steps=3)) as session:
            for number in range(3):
                keep_from = await session.journal.last_seq() + 1
                await session.say(
                    f"Iteration {number}.",
                    after=[Compacted(summary="", keep_from_seq=keep_from, reason=FRESH)],
                )
                await take(session)

    asyncio.run(iterate())
    assert [len(request.messages) for request in stage.requests] == [1, 3, 5] * 3
    for first, second in pairwise(stage.requests):
        if len(second.messages) > 1:
            assert list(second.messages[: len(first.messages)]) == list(first.messages)


def test_the_plan_and_the_notes_are_told_after_a_compaction(tmp_path):
    stage = staged(tmp_path, window=None)

    async def compacted() -> None:
        async with stage.opened(compactor=Compactor(Writer(GOOD))) as session:
            await runtime_of(session).record(plan_set(("measure it", "done"), ("make it faster", "open")))
            await runtime_of(session).record(Remembered(text="the disk is slow"))
            await session.say(GOAL)
            await session.note("Do it today.")
            await take(session)
            await session.compact()
            first = (await runtime_of(session).history.messages(runtime_of(session).recorder.get_blob))[
                0
            ].decode()
            for needed in ("[open] make it faster", "the disk is slow", "Do it today."):
                assert needed in first

    asyncio.run(compacted())
