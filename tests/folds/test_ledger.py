"""Reservations never let a cap be passed: not side by side, not across a crash, not through a child."""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.catalog import Spent
from mainspring.events import (
    BudgetWarned,
    CallStarted,
    Cap,
    Event,
    Limits,
    Recorded,
    SessionResumed,
    SessionStarted,
    SpendReserved,
    SpendSettled,
    TurnStarted,
    Usage,
)
from mainspring.folds.ledger import Refusal
from mainspring.folds.state import State
from mainspring.models import Price
from mainspring.turns.runtime import Budget, Runtime
from mainspring.turns.spend import Reservation, reserve, settle

PRICE = Price(input=3.0, output=15.0, cache_write=3.75)
EPSILON = 1e-6


class Journaled:
    """A turn whose journal is a list: it survives `crash`, its memory does not."""

    def __init__(self, name: str = "one", limits: Limits | None = None, **more: Any) -> None:
        self.log: list[Event] = []
        self.state = State()
        priced = SimpleNamespace(
            name="priced", price=more.get("price", PRICE), context_tokens=more.get("window")
        )
        self.models = SimpleNamespace(current=priced)
        self.budget = Budget(parent=more.get("parent"), day=more.get("day"))
        self._add(
            SessionStarted(session=name, workspace="/", version="1"),
            TurnStarted(turn=1, limits=limits or Limits()),
        )

    @property
    def as_turn(self) -> Runtime:
        """The parts of a turn that spending touches are all here."""
        return cast("Runtime", self)

    @property
    def limits(self) -> Limits:
        return self.state.limits

    async def record(self, *events: Event) -> None:
        await asyncio.sleep(0)
        self._add(*events)

    def crash(self) -> None:
        self.state = State()
        for seq, event in enumerate(self.log, 1):
            self.state.apply(Recorded(seq, seq, event))
        self._add(SessionResumed(version="1", host="h", pid=1))

    def next_turn(self, limits: Limits) -> None:
        self._add(TurnStarted(turn=self.state.turn + 1, limits=limits))

    def events(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.log if isinstance(event, kind)]

    def _add(self, *events: Event) -> None:
        for event in events:
            self.log.append(event)
            self.state.apply(Recorded(len(self.log), len(self.log), event))


def spend(turn: Any, input_tokens: int = 1000, source: str = "step") -> Reservation | Refusal:
    return asyncio.run(reserve(turn, source=source, input_tokens=input_tokens))


def taken(turn: Any, input_tokens: int = 1000, source: str = "step") -> Reservation:
    made = spend(turn, input_tokens, source)
    assert isinstance(made, Reservation)
    return made


def paid(turn: Any, made: Reservation, *, input_tokens: int = 1000, output_tokens: int = 10) -> None:
    asyncio.run(settle(turn, made, Usage(input_tokens=input_tokens, output_tokens=output_tokens)))


REFUSALS = {
    "session tokens": (Limits(max_tokens=1000), "budget", "The token limit is reached", "--max-tokens"),
    "session money": (Limits(max_cost_usd=0.001), "budget", "The budget is used up", "--max-cost-usd"),
    "turn money": (
        Limits(turn=Cap(usd=0.001)),
        "budget",
        "The budget of this turn is used up",
        r"`usd` in \[caps.turn\]",
    ),
    "goal tokens": (
        Limits(goal=Cap(tokens=5)),
        "budget",
        "The token limit of this goal is reached",
        "--max-tokens",
    ),
    "turn steps": (Limits(max_steps=0), "limit", "The limit of 0 steps is reached.", "--max-steps"),
    "session steps": (
        Limits(session=Cap(steps=0)),
        "limit",
        "The limit of this session of 0 steps is reached.",
        r"\[caps.session\]",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_cap_refuses_with_the_numbers_and_what_to_raise(case: str) -> None:
    limits, ending, message, remedy = REFUSALS[case]
    turn = Journaled(limits=limits)
    refusal = spend(turn)
    assert isinstance(refusal, Refusal)
    assert refusal.ending == ending
    assert refusal.message.startswith(message)
    assert re.search(remedy, refusal.remedy)
    assert not turn.events(SpendReserved)


def test_what_a_running_request_may_cost_is_not_settled_yet() -> None:
    turn = Journaled(limits=Limits(max_cost_usd=1.0))
    request = taken(turn)
    used = turn.state.ledger.tally("session")
    assert used.settled_usd == 0 < used.usd
    paid(turn, request)
    used = turn.state.ledger.tally("session")
    assert 0 < used.settled_usd == used.usd


def test_what_is_not_a_step_does_not_count_as_one() -> None:
    turn = Journaled(limits=Limits(max_steps=1))
    taken(turn, source="title")
    taken(turn)
    assert isinstance(spend(turn), Refusal)
    taken(turn, source="compaction")
    assert [event.spend for event in turn.events(SpendReserved)] == ["title:1", "step:2", "compaction:3"]


def test_a_new_turn_counts_anew_and_its_session_does_not() -> None:
    limits = Limits(max_steps=1, session=Cap(steps=2))
    turn = Journaled(limits=limits)
    paid(turn, taken(turn))
    assert isinstance(spend(turn), Refusal)
    turn.next_turn(limits)
    paid(turn, taken(turn))
    turn.next_turn(limits)
    refusal = spend(turn)
    assert isinstance(refusal, Refusal)
    assert "of this session" in refusal.message


def test_a_late_settlement_of_an_earlier_turn_frees_nothing_in_this_one() -> None:
    turn = Journaled(limits=Limits(turn=Cap(tokens=10_000)))
    late = taken(turn, source="title")
    turn.next_turn(Limits(turn=Cap(tokens=10_000)))
    first = taken(turn, 9000)
    paid(turn, late)
    assert first.reserved.tokens == turn.state.ledger.tally("turn").tokens == 10_000


def test_time_counts_in_each_scope_and_only_while_a_turn_is_open() -> None:
    state, second = State(), 1_000_000
    limits = Limits(timeout_s=10, session=Cap(time_s=12))
    log: Sequence[tuple[int, Event]] = [
        (0, SessionStarted(session="a", workspace="/", version="1")),
        (5, TurnStarted(turn=1, limits=limits)),
        (9, CallStarted(call="a", tool="b")),
        (100, SessionResumed(version="1", host="h", pid=1)),
        (103, CallStarted(call="a", tool="b")),
        (104, TurnStarted(turn=2, limits=limits)),
        (105, CallStarted(call="c", tool="b")),
    ]
    for seq, (time_s, event) in enumerate(log, 1):
        state.apply(Recorded(seq, time_s * second, event))
    assert state.ledger.tally("turn").time_s == 1
    assert state.ledger.tally("session").time_s == 9
    left = state.ledger.time_left(limits)
    assert left is not None
    assert (left.time_s, left.refusal.message) == (3, "The time limit of this session of 12 s is reached.")


def test_more_calls_than_allowed_are_not_begun() -> None:
    turn = Journaled(limits=Limits(max_calls=2))
    turn._add(CallStarted(call="a", tool="b"))
    ledger, limits = turn.state.ledger, turn.state.limits
    assert ledger.refuse_calls(1, limits) is None
    refusal = ledger.refuse_calls(2, limits)
    assert refusal is not None
    assert refusal.message == "The limit of 2 calls is reached: 1 used, 2 more asked for."


def test_each_share_of_a_cap_is_told_once_and_again_for_a_higher_cap() -> None:
    limits = Limits(max_tokens=10_000)
    turn = Journaled(limits=limits)
    for tokens in (4000, 1500, 100, 3000, 100):
        paid(turn, taken(turn, 64), input_tokens=tokens, output_tokens=0)
        turn.crash()
    warned = turn.events(BudgetWarned)
    assert [(event.percent, event.spent) for event in warned] == [(50, 5500), (80, 8600)]
    turn.next_turn(Limits(max_tokens=17_000))
    paid(turn, taken(turn, 64), input_tokens=100, output_tokens=0)
    assert turn.events(BudgetWarned)[2:] == [
        BudgetWarned(scope="session", unit="tokens", percent=50, spent=8800, cap=17_000)
    ]


def test_a_settlement_says_what_the_session_has_spent_by_then() -> None:
    turn = Journaled(limits=Limits(max_cost_usd=1.0))
    first, second = taken(turn), taken(turn)
    paid(turn, first, output_tokens=0)
    paid(turn, second, output_tokens=0)
    assert turn.events(SpendSettled)[-1].total_usd == pytest.approx(0.006)


def test_a_reservation_covers_input_that_is_written_to_a_cache() -> None:
    turn = Journaled(limits=Limits(max_cost_usd=0.02))
    made = taken(turn, 4000)
    cost = PRICE.cost_usd(
        Usage(input_tokens=4000, cache_write_tokens=4000, output_tokens=made.max_output_tokens or 0)
    )
    assert cost <= 0.02 + EPSILON


def test_a_child_spends_from_its_parents_caps_and_both_journals_say_so() -> None:
    parent = Journaled("parent", Limits(max_tokens=10_000, max_steps=3))
    child = Journaled("child", parent=parent)
    made = taken(child)
    assert made.max_output_tokens == 8192
    (shared,) = parent.events(SpendReserved)
    assert (shared.spend, shared.child) == ("child/step:1", "child")
    assert parent.state.step == 0
    refusal = spend(parent)
    assert isinstance(refusal, Refusal)
    paid(child, made)
    assert parent.state.ledger.spent_tokens == child.state.ledger.spent_tokens == 1010
    assert taken(parent).reserved.tokens <= 10_000 - 1010


def test_a_refused_child_leaves_no_trace_in_any_journal() -> None:
    parent = Journaled("parent", Limits(max_tokens=500))
    child = Journaled("child", parent=parent)
    assert isinstance(spend(child), Refusal)
    assert not parent.events(SpendReserved)
    assert not child.events(SpendReserved)
    assert parent.state.ledger.spent_tokens == 0


class FixedDay:
    def __init__(self, spent: Spent) -> None:
        self.spent = spent
        self.is_held = False

    @asynccontextmanager
    async def held(self) -> AsyncIterator[Spent]:
        self.is_held = True
        yield self.spent
        self.is_held = False


def test_each_share_of_a_cap_for_the_day_is_told_once_a_day() -> None:
    day = FixedDay(Spent(input_tokens=4990))
    turn = Journaled(limits=Limits(day=Cap(tokens=10_000)), day=day)
    for tokens, spent in ((10, 4990), (10, 5000), (3000, 5100), (10, 8100)):
        day.spent = Spent(input_tokens=spent)
        paid(turn, taken(turn, 64), input_tokens=tokens, output_tokens=0)
        turn.crash()
    warned = turn.events(BudgetWarned)
    assert [(event.scope, event.percent, event.spent) for event in warned] == [
        ("day", 50, 5000),
        ("day", 80, 8100),
    ]
    assert warned[0].day == warned[1].day == datetime.now().astimezone().date().isoformat()


def test_a_failed_step_does_not_count_and_its_money_does() -> None:
    turn = Journaled(limits=Limits(max_steps=1))
    made = taken(turn)
    asyncio.run(settle(turn.as_turn, made, Usage(input_tokens=1000, output_tokens=10), is_failed=True))
    turn.crash()
    assert turn.state.ledger.tally("turn").steps == 0
    assert turn.state.ledger.spent_tokens == 1010
    taken(turn)
    assert isinstance(spend(turn), Refusal)


def test_a_cap_for_the_day_counts_what_other_sessions_spent() -> None:
    day = FixedDay(Spent(usd=4.999, requests=3))
    refusal = spend(Journaled(limits=Limits(day=Cap(usd=5.0)), day=day))
    assert isinstance(refusal, Refusal)
    assert refusal.message.startswith("The budget of this day is used up: 4.9990 of 5.0000 USD")
    assert "--max-cost-usd-today" in refusal.remedy
    assert taken(Journaled(day=day)).max_output_tokens is None


PRICES = st.just(0.0) | st.floats(0.001, 80)
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("reserve"), st.integers(0, 3), st.integers(1, 4000), st.booleans()),
        st.tuples(st.just("settle"), st.integers(0, 5), st.floats(0, 1), st.floats(0, 1)),
        st.tuples(st.just("crash"), st.integers(0, 3), st.booleans(), st.floats(0, 1)),
        st.tuples(st.just("both"), st.integers(0, 3), st.integers(0, 3), st.integers(1, 4000)),
        st.tuples(st.just("turn"), st.integers(0, 3), st.none(), st.none()),
    ),
    max_size=40,
)


class Bank:
    """What the provider billed in truth: up to what was reserved for a request, known or not."""

    def __init__(self, usd: float, tokens: int, price: Price) -> None:
        self.price = price
        root = Journaled("root", Limits(max_cost_usd=usd, max_tokens=tokens), price=price)
        child = Journaled("child", Limits(max_tokens=tokens // 2), price=price, parent=root)
        other = Journaled("other", price=price, parent=root)
        self.turns = [root, child, other, Journaled("grandchild", price=price, parent=child)]
        self.running: list[tuple[Journaled, Reservation]] = []
        self.billed_usd = 0.0
        self.billed_tokens = 0
        self.child_tokens = 0

    def bill(self, turn: Journaled, usage: Usage) -> None:
        self.billed_usd += self.price.cost_usd(usage)
        self.billed_tokens += usage.total_tokens
        if turn in (self.turns[1], self.turns[3]):
            self.child_tokens += usage.total_tokens

    async def begin(self, *wanted: tuple[Journaled, int]) -> None:
        made = await asyncio.gather(
            *(reserve(turn.as_turn, source="step", input_tokens=tokens) for turn, tokens in wanted)
        )
        for (turn, tokens), reservation in zip(wanted, made, strict=True):
            if isinstance(reservation, Reservation):
                self.running.append((turn, reservation))
                assert reservation.reserved.tokens >= tokens

    def used(self, reservation: Reservation, read: float, written: float) -> Usage:
        output = reservation.max_output_tokens or 0
        sent = reservation.reserved.tokens - output
        cached = int(sent * read)
        return Usage(input_tokens=sent, cache_write_tokens=cached, output_tokens=int(output * written))


@settings(max_examples=150, deadline=None)
@given(
    OPERATIONS,
    st.floats(0.001, 0.3),
    st.integers(100, 40_000),
    st.builds(Price, PRICES, PRICES, cache_write=PRICES),
)
def test_no_order_of_reserving_settling_and_crashing_passes_a_cap(
    operations: list[Any], usd: float, tokens: int, price: Price
) -> None:
    bank = Bank(usd, tokens, price)

    async def play(kind: str, first: Any, second: Any, third: Any) -> None:
        if kind == "reserve":
            await bank.begin((bank.turns[first], second))
        elif kind == "both":
            await bank.begin((bank.turns[first], third), (bank.turns[second], third))
        elif kind == "settle" and bank.running:
            turn, reservation = bank.running.pop(first % len(bank.running))
            usage = bank.used(reservation, second, third)
            bank.bill(turn, usage)
            await settle(turn.as_turn, reservation, usage)
        elif kind == "crash":
            lost = [(turn, made) for turn, made in bank.running if second or turn is bank.turns[first]]
            for turn, reservation in lost:
                bank.running.remove((turn, reservation))
                bank.bill(turn, bank.used(reservation, 1.0, third))
            for turn in bank.turns if second else (bank.turns[first],):
                turn.crash()
        elif kind == "turn":
            bank.turns[first].next_turn(bank.turns[first].state.limits)

    async def all_of_them() -> None:
        for operation in operations:
            await play(*operation)
            assert bank.billed_usd <= usd + EPSILON
            assert bank.billed_tokens <= tokens
            assert bank.child_tokens <= tokens // 2

    asyncio.run(all_of_them())
