"""Generated sessions: whatever happened, any beginning of their journals loads, resumes and stays valid."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mainspring.approvals import ModePolicy
from mainspring.context.history import REBUILDING, History, is_undone, load_history, undone_ranges
from mainspring.errors import Overloaded, UsageError
from mainspring.events import (
    ApprovalAsked,
    ApprovalGiven,
    AssistantSaid,
    CallEnded,
    CallStarted,
    Compacted,
    Limits,
    Recorded,
    SpendReserved,
    SpendSettled,
    Stop,
    TurnEnded,
    Undone,
)
from mainspring.folds.state import State, load_state
from mainspring.models import Request
from mainspring.models.scripted import Script, ScriptedCall, ScriptedModel, ScriptedReply
from mainspring.sandbox.files import Files
from mainspring.sandbox.policy import policy as confined
from mainspring.secrets.recorder import Recorder
from mainspring.secrets.vault import Vault
from mainspring.session.session import Session, runtime_of
from mainspring.testing.memory import MemoryJournal
from mainspring.tools import CallContext
from mainspring.tools.schema import tool
from mainspring.tools.toolbox import Toolbox
from mainspring.turns.loop import run_turn
from tests.stage import PRICE, built, nowhere

generated = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], max_examples=60
)

CALLS = st.sampled_from(
    ["do", "do", "publish", "look", "fail", "say", "note", "stop", "unknown", "malformed"]
)
Planned = Literal["allow", "reject", "stop", "expire", "edit", "nobody"]
PLANNED: list[Planned] = ["allow", "allow", "reject", "stop", "expire", "edit", "nobody"]
DECISIONS = st.sampled_from(PLANNED)


@st.composite
def replies(draw: st.DrawFn) -> ScriptedReply:
    names = draw(st.lists(CALLS, max_size=3))
    same_id = draw(st.sampled_from([""] * 9 + ["same"]))
    asked = tuple(
        ScriptedCall(name="do", arguments="[]", id=same_id)
        if name == "malformed"
        else ScriptedCall(name=name, id=same_id)
        for name in names
    )
    stops: list[Stop | None] = [*[None] * 8, "length"]
    if not asked:
        stops.append("refused")
    stop = draw(st.sampled_from(stops))
    return ScriptedReply(text=draw(st.sampled_from(["", "Text."])), calls=asked, stop=stop)


_ROOT = Path("/")


CUTS = st.integers(0, 1000)


class Plan(msgspec.Struct):
    """What happens in a session, decided before it begins."""

    replies: list[ScriptedReply]
    decisions: list[Planned]
    failing: set[int]
    actions: list[str]


PLANS = st.builds(
    Plan,
    replies=st.lists(replies(), min_size=2, max_size=8),
    decisions=st.lists(DECISIONS, min_size=1, max_size=4),
    failing=st.sets(st.integers(1, 6), max_size=1),
    actions=st.lists(
        st.sampled_from(["say", "say", "go on", "undo", "compact", "note"]), min_size=1, max_size=6
    ),
)


async def halve(turn: Any, *, reason: str, until: int) -> Compacted:
    """Cuts anywhere, also between a call and its result."""
    return Compacted(summary="What was.", keep_from_seq=until // 2 + 1)


class Play:
    """Sessions on one journal in memory, each with tools that act on the session they run in."""

    def __init__(self, plan: Plan, journal: MemoryJournal) -> None:
        self.plan = plan
        self.journal = journal
        self.ran: list[str] = []
        self.asked = 0
        self.requests: list[Request] = []
        self.session: Session | None = None

    def open(self) -> Session:
        def on_request(request: Request) -> Overloaded | None:
            self.requests.append(request)
            return Overloaded("Too much.") if len(self.requests) in self.plan.failing else None

        self.session = built(
            Recorder(self.journal, Vault()),
            model=ScriptedModel(Script(replies=tuple(self.plan.replies), price=PRICE), on_request=on_request),
            toolbox=Toolbox(self._tools()),
            policy=ModePolicy("auto"),
            choose_sandbox=nowhere,
            files=Files(confined(_ROOT, home=_ROOT)),
            engine=run_turn,
            workspace="/",
            mode="auto",
            system="You are a test.",
            limits=Limits(max_steps=9, max_tokens=1_000_000),
            approver=self._approve,
            compactor=halve,
        )
        return self.session

    async def act(self, action: str) -> None:
        session = self.session
        assert session is not None
        try:
            match action:
                case "say":
                    await self._take("Do it.")
                case "go on":
                    await self._take("")
                case "undo":
                    await session.undo()
                case "compact":
                    await session.compact()
                case _:
                    await session.note("By the way.")
        except UsageError:
            pass

    async def _take(self, text: str) -> None:
        assert self.session is not None
        async for _ in self.session.run(text):
            pass
        await self.session.stop()

    async def _approve(self, question: ApprovalAsked) -> ApprovalGiven | None:
        decision = self.plan.decisions[self.asked % len(self.plan.decisions)]
        self.asked += 1
        if decision == "nobody":
            return None
        return ApprovalGiven(
            call=question.call,
            arguments_sha256=question.arguments_sha256,
            decision="allow" if decision == "edit" else decision,
            edited_arguments="{}" if decision == "edit" else None,
        )

    def _tools(self) -> list:
        async def do(place: CallContext) -> str:
            """Does something."""
            self.ran.append(place.call)
            await asyncio.sleep(0)
            return "done"

        async def publish(place: CallContext) -> str:
            """Does something that must be approved."""
            self.ran.append(place.call)
            return "published"

        async def look() -> str:
            """Only reads."""
            return "seen"

        async def fail(place: CallContext) -> str:
            """Does something, then raises."""
            self.ran.append(place.call)
            raise ValueError("as it was told")

        async def say(place: CallContext) -> str:
            """The user says something meanwhile."""
            assert self.session is not None
            await self.session.say("Wait.")
            return "said"

        async def note(place: CallContext) -> str:
            """Somebody notes something meanwhile."""
            assert self.session is not None
            await self.session.note("It rains.", source="clock")
            return "noted"

        async def stop(place: CallContext) -> str:
            """The user stops the turn meanwhile."""
            assert self.session is not None
            self.session.stop_soon()
            await asyncio.Event().wait()
            return "never"

        written = [tool(function, effect="write") for function in (do, fail, say, note, stop)]
        return [*written, tool(publish, effect="execute"), tool(look, effect="read")]


def played(plan: Plan, journal: MemoryJournal | None = None) -> Play:
    play = Play(plan, journal or MemoryJournal())

    async def run() -> None:
        for action in plan.actions:
            async with play.open():
                await play.act(action)

    asyncio.run(run())
    return play


def check_provider_would_accept(messages: list[dict], *, is_waiting: bool = False) -> None:
    """Each call has exactly one result directly after its message; only the last may still wait for them."""
    for message, following in pairwise([*messages, {}]):
        asked = [part["call"] for part in message.get("parts", ()) if part["part"] == "call"]
        answered = [result["call"] for result in following.get("results", ())]
        assert answered == asked or (is_waiting and following == {})
    assert all(messages), "a message is empty"


def decoded(messages: Any) -> list[dict]:
    return [msgspec.json.decode(message) for message in messages]


def facts(state: State) -> dict[str, Any]:
    hidden = {"_calls", "_last_us", "ledger", "processes"}
    seen = {name: value for name, value in vars(state).items() if name not in hidden}
    return seen | {
        "open_calls": state.open_calls,
        "processes": state.processes.all,
        "waits": state.waits.open,
        "usd": round(state.ledger.spent_usd, 12),
        "tokens": state.ledger.spent_tokens,
        "turn_cost_usd": round(state.turn_cost_usd, 12),
    }


def beginnings(recorded: list[Recorded]) -> Iterator[MemoryJournal]:
    """The journal as a process leaves it that dies after each of its events, and before the first."""
    for end in range(len(recorded) + 1):
        yield MemoryJournal(recorded[:end])


def resumed(plan: Plan, beginning: MemoryJournal, action: str = "go on") -> Play:
    """What a new process makes of a beginning."""
    play = Play(plan, MemoryJournal(beginning.recorded))

    async def run() -> None:
        async with play.open() as session:
            await play.act(action)
            assert not session.state.is_turn_open
            messages = decoded(await runtime_of(session).history.messages(_no_blob))
            check_provider_would_accept(messages, is_waiting=bool(session.state.open_calls))

    asyncio.run(run())
    return play


def killed_and_resumed(plan: Plan, cut: int) -> list[Recorded]:
    recorded = played(plan).journal.recorded
    return resumed(plan, MemoryJournal(recorded[: cut % (len(recorded) + 1)])).journal.recorded


@generated
@given(plan=PLANS, cut=CUTS)
def test_any_beginning_of_any_journal_loads_as_if_it_had_been_followed(plan, cut):
    followed = State()
    for beginning in beginnings(killed_and_resumed(plan, cut)):
        for item in beginning.recorded[-1:]:
            followed.apply(item)
        assert facts(asyncio.run(load_state(beginning))) == facts(followed)


@generated
@given(plan=PLANS, cut=CUTS)
def test_a_loaded_history_has_the_bytes_of_one_that_was_followed(plan, cut):
    encode = ScriptedModel(Script(replies=())).encode

    async def compared() -> None:
        followed = History(encode)
        for beginning in beginnings(recorded):
            newest = beginning.recorded[-1:]
            loaded = await load_history(beginning, encode)
            if newest and isinstance(newest[0].event, REBUILDING):
                followed = loaded
            elif newest:
                followed.apply(newest[0])
            assert await loaded.messages(_no_blob) == await followed.messages(_no_blob)
            assert loaded.is_answered == followed.is_answered
            check_provider_would_accept(decoded(await loaded.messages(_no_blob)), is_waiting=True)

    recorded = killed_and_resumed(plan, cut)
    asyncio.run(compared())


async def _no_blob(blob: Any) -> bytes:
    raise AssertionError("there are no blobs here")


@generated
@given(plan=PLANS, action=st.sampled_from(["say", "go on", "go on"]))
def test_any_beginning_of_any_journal_resumes_validly_and_repeats_nothing(plan, action):
    first = played(plan)
    assert max(Counter(first.ran).values(), default=0) <= 1
    for beginning in beginnings(first.journal.recorded):
        again = resumed(plan, beginning, action)
        started = {item.event.call for item in beginning.recorded if isinstance(item.event, CallStarted)}
        assert not started & set(again.ran), "a call that had started was run again"
        for request in again.requests:
            check_provider_would_accept(decoded(request.messages))
        check_each_call_ended_once(again.journal.recorded)


def check_each_call_ended_once(recorded: list[Recorded]) -> None:
    dead = undone_ranges(item for item in recorded if isinstance(item.event, Undone))
    live = [item.event for item in recorded if not is_undone(item.seq, dead)]
    ended = Counter(event.call for event in live if isinstance(event, CallEnded))
    assert max(ended.values(), default=0) <= 1, "a call has two results"
    blocked = [event.ending for event in live if isinstance(event, TurnEnded)][-1:] == ["blocked"]
    asked = [event for event in live if isinstance(event, AssistantSaid)]
    for said in asked[:-1] if blocked else asked:
        assert all(call.call in ended for call in said.calls), "a call has no result"


@generated
@given(plan=PLANS)
def test_money_adds_up_whatever_happened(plan):
    play = played(plan)
    reserved = {
        item.event.spend: item.event.usd
        for item in play.journal.recorded
        if isinstance(item.event, SpendReserved)
    }
    settled = {
        item.event.spend: item.event.usd
        for item in play.journal.recorded
        if isinstance(item.event, SpendSettled)
    }
    assert settled.keys() == reserved.keys(), "a request that came to an end was not settled"
    state = asyncio.run(load_state(play.journal))
    assert abs(state.ledger.spent_usd - sum(settled.values())) < 1e-9


def test_a_history_says_what_it_holds():
    """The checks above can fail: a call without its result is not accepted."""
    history = History(ScriptedModel(Script(replies=())).encode)
    assert history.is_answered
    asked = {"parts": [{"part": "call", "call": "a"}]}
    for wrong in ([asked], [asked, {"role": "user"}], [{"role": "user"}, {"results": [{"call": "a"}]}]):
        try:
            check_provider_would_accept(wrong)
        except AssertionError:
            continue
        raise AssertionError("accepted what no provider would")
