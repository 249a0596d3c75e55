"""Calls that cost money: set aside before they run, within what the caps leave, and asked when they do not fit."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mainspring.approvals import ModePolicy, why_asked
from mainspring.events import (
    ApprovalAsked,
    ApprovalGiven,
    CallEnded,
    CallStarted,
    Cap,
    Limits,
    SpendReserved,
    SpendSettled,
)
from mainspring.models import Price
from mainspring.tools import Output
from mainspring.tools.schema import tool
from tests.stage import Stage, call, calls, limits, says

FREE = Price(input=0.0, output=0.0)


async def nobody(question: ApprovalAsked) -> None:
    return None


async def somebody(question: ApprovalAsked) -> ApprovalGiven:
    return ApprovalGiven(
        call=question.call, arguments_sha256=question.arguments_sha256, decision="allow", by="a person"
    )


def rent(*asked: Any, settled: float | None = None, **traits: Any) -> Any:
    """A stage whose model asks to rent machines, for so many USD each."""

    async def rent(usd: float | None) -> Output:
        """Rents a machine."""
        return Output(text=f"rented for {usd}", cost_usd=settled)

    async def daily() -> str:
        """Rents a machine every day."""
        return "rented"

    def staged(folder: Path) -> Stage:
        stage = Stage(folder, calls(*asked), says("Done."), price=FREE)
        priced = {"cost_usd": lambda usd: usd, **traits}
        stage.tools += [tool(rent, effect="write", **priced), tool(daily, effect="write", is_recurring=True)]
        return stage

    return staged


def money_of(question: ApprovalAsked) -> tuple[Any, ...]:
    """What a question says about money, in its fields."""
    return (
        question.blocked_by,
        question.estimate_usd,
        question.remaining_usd,
        question.cap_usd,
        question.cap_scope,
    )


def usd(amount: float | None) -> Any:
    return call("rent", {"usd": amount})


def budgeted(cap_usd: float) -> dict[str, Any]:
    return {"policy": ModePolicy("yolo", max_cost_usd=cap_usd), **limits(max_cost_usd=cap_usd)}


def test_calls_of_one_step_are_let_through_in_order_until_the_cap(tmp_path: Path) -> None:
    stage = rent(usd(2.0), usd(2.5), usd(1.0), usd(0.25))(tmp_path)
    ended = stage.take("go", approver=nobody, **budgeted(5.0))
    assert ended.ending == "blocked"
    (asked,) = stage.events(ApprovalAsked)
    assert money_of(asked) == ("over_cap", 1.0, 0.5, 5.0, "session")
    assert why_asked(asked).endswith("(it may cost 1.00 USD, 0.50 of 5.00 USD are left in this session)")
    assert "USD" not in asked.reason
    assert why_asked(asked) in ended.detail
    assert [reserved.usd for reserved in stage.events(SpendReserved) if reserved.source == "call"] == [
        2.0, 2.5, 0.25,
    ]  # fmt: skip
    assert len(stage.events(CallEnded)) == 3


def test_what_a_person_allows_beyond_the_cap_runs_and_counts(tmp_path: Path) -> None:
    stage = rent(usd(2.0))(tmp_path)
    ended = stage.take("go", approver=somebody, **budgeted(1.0))
    settled = [event for event in stage.events(SpendSettled) if event.spend.startswith("call:")]
    assert [event.usd for event in settled] == [2.0]
    assert ended.ending == "budget", "the cap holds for the next request of the model"


def test_the_price_is_on_record_before_the_call_and_settled_with_its_end(tmp_path: Path) -> None:
    stage = rent(usd(2.0), settled=1.5)(tmp_path)
    assert stage.take("go", **budgeted(5.0)).cost_usd == 1.5
    kinds = [
        type(item.event)
        for item in stage.journal()
        if isinstance(item.event, CallStarted | CallEnded)
        or getattr(item.event, "spend", "").startswith("call:")
    ]
    assert kinds == [SpendReserved, CallStarted, SpendSettled, CallEnded]


@pytest.mark.parametrize(
    ("asked", "money"),
    [
        (usd(None), ("unknown_price", None, 5.0, 5.0, "session")),
        (call("daily"), ("recurring", None, None, None, None)),
        (usd(-1.0), ("invalid_price", -1.0, 5.0, 5.0, "session")),
    ],
)
def test_what_has_no_price_or_recurs_needs_a_person(tmp_path: Path, asked: Any, money: Any) -> None:
    stage = rent(asked)(tmp_path)
    assert stage.take("go", approver=nobody, **budgeted(5.0)).ending == "blocked"
    assert [money_of(question) for question in stage.events(ApprovalAsked)] == [money]


def test_without_a_budget_a_price_is_asked_about(tmp_path: Path) -> None:
    stage = rent(usd(0.01))(tmp_path)
    stage.take("go", approver=nobody)
    (asked,) = stage.events(ApprovalAsked)
    assert money_of(asked) == ("no_cap", 0.01, None, None, None)


def test_a_price_can_be_the_same_for_every_call(tmp_path: Path) -> None:
    stage = rent(usd(0.0), cost_usd=3.0)(tmp_path)
    stage.take("go", **budgeted(5.0))
    assert [event.usd for event in stage.events(SpendSettled) if event.spend.startswith("call:")] == [3.0]


def test_a_price_that_cannot_be_told_is_an_answer_to_the_model(tmp_path: Path) -> None:
    stage = rent(usd(1.0), cost_usd=lambda usd: usd["x"])(tmp_path)
    stage.take("go", **budgeted(5.0))
    assert "could not tell its price" in stage.events(CallEnded)[0].output


def test_a_call_killed_before_it_started_keeps_the_money_it_had_set_aside(tmp_path: Path) -> None:
    stage = rent(usd(4.0))(tmp_path / "first")
    stage.take("go", **budgeted(5.0))
    again = stage.killed_after(tmp_path / "again", stage.seq(SpendReserved, 1))
    assert again.take(approver=nobody, **budgeted(5.0)).ending == "done"
    assert [event.spend.partition(":")[0] for event in again.events(SpendReserved)] == [
        "step",
        "call",
        "step",
    ]


def test_a_call_killed_while_it_ran_counts_as_paid(tmp_path: Path) -> None:
    stage = rent(usd(4.0))(tmp_path / "first")
    stage.take("go", **budgeted(5.0))
    again = stage.killed_after(tmp_path / "again", stage.seq(CallStarted))

    async def spent() -> float:
        async with again.opened(**budgeted(5.0)) as session:
            return session.state.ledger.spent_usd

    assert asyncio.run(spent()) == 4.0


def test_the_cap_of_the_day_holds_for_calls_too(tmp_path: Path) -> None:
    stage = rent(usd(2.0), usd(2.0))(tmp_path)
    day = Limits(max_cost_usd=100.0, day=Cap(usd=3.0))
    policy = ModePolicy("yolo", max_cost_usd=100.0)
    stage.take("go", approver=nobody, policy=policy, limits=day, day=stage.store.today())
    (asked,) = stage.events(ApprovalAsked)
    assert money_of(asked) == ("over_cap", 2.0, 1.0, 3.0, "day")
