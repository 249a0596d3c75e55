"""Sessions that a program starts for another one share its caps: through `mainspring.open(parent=...)`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import mainspring
from mainspring.catalog.sqlite import SqliteSessions
from mainspring.errors import UsageError
from mainspring.events import Limits, SpendReserved, SpendSettled, TurnEnded, Usage
from mainspring.models import Price
from mainspring.models.scripted import Script, ScriptedCall, ScriptedModel, ScriptedReply
from mainspring.session.session import Session
from mainspring.settings import Config, load_config
from tests.stage import take

DEAR = Price(input=0.0, output=1000.0)


def settings(tmp_path: Path) -> Config:
    return load_config(
        {"MAINSPRING_HOME": str(tmp_path.with_name("home-of-" + tmp_path.name)), "PATH": "/usr/bin:/bin"}
    )


def model(*replies: ScriptedReply, **fields: Any) -> ScriptedModel:
    return ScriptedModel(Script(replies=replies, **fields), name="child")


def spent(text: str, tokens: int) -> ScriptedReply:
    return ScriptedReply(text=text, usage=Usage(input_tokens=1, output_tokens=tokens))


async def taken(tmp_path: Path, parent: Session, given: Any, **options: Any) -> tuple[str, TurnEnded]:
    opened = mainspring.open(tmp_path, model=given, parent=parent, config=settings(tmp_path), **options)
    async with opened as child:
        return child.id, await take(child, "work")


def test_children_at_work_together_never_spend_more_than_their_parent_may(tmp_path: Path) -> None:
    async def scene() -> tuple[float, list[tuple[str, TurnEnded]], str]:
        limits = Limits(max_cost_usd=0.85)
        asked = mainspring.open(
            tmp_path, model=model(price=DEAR), limits=limits, config=settings(tmp_path), mode="plan"
        )
        async with asked as parent:
            ended = await asyncio.gather(
                *(taken(tmp_path, parent, model(spent("x", 400), price=DEAR)) for _ in range(4))
            )
            return parent.state.ledger.spent_usd, ended, parent.id

    total, ended, parent = asyncio.run(scene())
    assert 0.4 <= total <= 0.85
    assert {end.ending for _, end in ended} == {"done", "budget"}
    refused = next(end for _, end in ended if end.ending == "budget")
    assert "--max-cost-usd" in refused.remedy
    file = SqliteSessions(tmp_path.with_name("home-of-" + tmp_path.name)).shelf.file(parent)
    events = [item.event for item in file.read(limit=1000)]
    file.close()
    shared = [event for event in events if isinstance(event, SpendReserved)]
    assert {event.child for event in shared} <= {child for child, _ in ended}
    assert len(shared) == len([event for event in events if isinstance(event, SpendSettled)])


def test_a_child_that_a_tool_starts_ends_with_the_money_of_the_turn_it_works_for(tmp_path: Path) -> None:
    async def scene() -> tuple[list[str], TurnEnded, float]:
        above: list[Session] = []
        endings: list[str] = []

        @mainspring.tool(effect="read")
        async def delegate() -> str:
            """Has somebody else do it."""
            _, ended = await taken(tmp_path, above[0], model(spent("x", 300), price=DEAR))
            endings.append(ended.ending)
            return ended.detail

        calls = ScriptedReply(
            calls=(ScriptedCall("delegate"),), usage=Usage(input_tokens=1, output_tokens=100)
        )
        own = model(*[calls] * 9, price=DEAR)
        asked = mainspring.open(
            tmp_path,
            model=own,
            tools=(delegate,),
            limits=Limits(max_cost_usd=0.85),
            config=settings(tmp_path),
        )
        async with asked as parent:
            above.append(parent)
            ended = await take(parent, "delegate it")
            return endings, ended, parent.state.ledger.spent_usd

    endings, ended, total = asyncio.run(scene())
    assert endings == ["done", "done"]
    assert ended.ending == "budget"
    assert total == pytest.approx(0.8)


def test_the_time_and_the_steps_of_a_parent_bind_its_children(tmp_path: Path) -> None:
    async def scene(limits: Limits) -> TurnEnded:
        asked = mainspring.open(tmp_path, model=model(), limits=limits, config=settings(tmp_path))
        async with asked as parent:
            replies = [ScriptedReply(calls=(ScriptedCall("find", {"pattern": "*"}),))] * 5
            _, ended = await taken(tmp_path, parent, model(*replies), limits=Limits(max_steps=9))
            return ended

    steps = asyncio.run(scene(Limits(max_steps=2)))
    assert (steps.ending, steps.steps) == ("limit", 2)
    timed = asyncio.run(scene(Limits(timeout_s=1e-6)))
    assert timed.ending == "limit"
    assert "time limit" in timed.detail


def test_a_price_that_a_parents_cap_needs_is_asked_for_before_its_child_starts(tmp_path: Path) -> None:
    unpriced = model()
    unpriced.price = None

    async def scene() -> None:
        asked = mainspring.open(
            tmp_path, model=model(), limits=Limits(max_cost_usd=1.0), config=settings(tmp_path)
        )
        async with asked as parent:
            await taken(tmp_path, parent, unpriced)

    with pytest.raises(UsageError, match="price of child is unknown"):
        asyncio.run(scene())
