"""Whose money it is: that of the person who said last what it was spent for."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec

import mainspring
from mainspring.app.operations.answers import nobody
from mainspring.app.operations.approve import ApprovalReply, prepare_answers, record_answers
from mainspring.app.operations.usage import UsageFilter, usage
from mainspring.app.records import fork_session
from mainspring.models import Price
from mainspring.models.scripted import Script, ScriptedModel
from mainspring.settings import Config, load_config
from tests.stage import call, calls, says

HALF = mainspring.Usage(input_tokens=0, output_tokens=500)
WRITE = msgspec.structs.replace(
    calls(call("write", {"path": "made.txt", "content": "made"}, "w1")), usage=HALF
)
DONE = says("done", usage=HALF)


def config_of(folder: Path, user: str) -> Config:
    config = load_config({"MAINSPRING_HOME": str(folder / "home"), "HOME": str(folder)})
    return msgspec.structs.replace(config, origin=msgspec.structs.replace(config.origin, user=user))


async def turn(config: Config, text: str, *replies: Any, session: str = "") -> str:
    """A turn that costs something; without a text it goes on with what was said before."""
    model = ScriptedModel(Script(replies, price=Price(input=1.0, output=1000.0)))
    folder = config.home.parent / "work"
    folder.mkdir(exist_ok=True)
    async with mainspring.open(
        folder, model=model, config=config, mode="ask", session=session, approver=nobody
    ) as made:
        await made.ask(text)
        return made.id


async def spent(config: Config) -> dict[str, float]:
    found = await usage(config, ("person",), UsageFilter())
    return {each.keys["person"]: each.spent.usd for each in found.rows}


def test_who_answers_or_goes_on_does_not_pay_for_what_another_said(tmp_path: Path) -> None:
    """Otherwise whoever has spent what they may has others pay, by what must be asked about."""
    ada, bob, eve = (config_of(tmp_path, name) for name in ("ada", "bob", "eve"))

    async def story() -> None:
        session = await turn(ada, "make it", WRITE)
        fork, _ = await fork_session(session, eve)
        for each in (session, fork):
            prepared = await prepare_answers(bob, each, ApprovalReply())
            await record_answers(bob, each, prepared.answers)
        await turn(bob, "", DONE, session=session)
        assert (tmp_path / "work" / "made.txt").exists()
        by_ada = await spent(ada)
        assert by_ada.keys() == {"ada"}
        await turn(eve, "", DONE, session=fork)
        found = await spent(ada)
        assert (found.keys(), found["ada"]) == ({"ada", "eve"}, by_ada["ada"])
        await turn(bob, "and more", DONE, session=session)
        found = await spent(ada)
        assert (found.keys(), found["ada"]) == ({"ada", "bob", "eve"}, by_ada["ada"])

    asyncio.run(story())
