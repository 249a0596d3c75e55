"""What a team lets its people spend: per person and per project, in a day and in a month."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import mainspring
from mainspring.errors import UsageError
from mainspring.models import Price
from mainspring.models.scripted import Script, ScriptedModel
from tests.people.teams import PEOPLE, Team
from tests.stage import says

PRICED = Price(input=1.0, output=1000.0)


def ask(team: Team, user: str, folder: Path, *, output_tokens: int = 500) -> tuple[str, str]:
    """How a turn of somebody ends, and why; a reply of 500 tokens costs half a dollar."""
    usage = mainspring.Usage(input_tokens=0, output_tokens=output_tokens)

    async def begin() -> tuple[str, str]:
        model = ScriptedModel(Script((says("done", usage=usage),), price=PRICED))
        async with mainspring.open(folder, model=model, config=team.config(user)) as session:
            reply = await session.ask("do it")
            return reply.ending, reply.detail

    return asyncio.run(begin())


@pytest.fixture
def team(tmp_path: Path) -> Team:
    return Team(tmp_path)


@pytest.mark.parametrize("per", ["day", "month"])
def test_each_person_has_a_cap_of_their_own(team: Team, per: str) -> None:
    people = PEOPLE.replace('["local:developer",', '["local:developer", "local:second",')
    team.signs(f'{people}\n[[rule]]\nname = "thrift"\nperson_{per}_usd = 0.5\n')
    assert ask(team, "developer", team.workspace)[0] == "done"
    ending, reason = ask(team, "developer", team.workspace)
    assert ending == "budget", reason
    assert f"0.5 USD per person and {per} for local:developer" in reason
    assert "rule thrift" in reason
    assert ask(team, "second", team.workspace)[0] == "done"


def test_all_people_together_have_the_cap_of_a_project(team: Team) -> None:
    other = team.workspace.parent / "other"
    other.mkdir()
    project = f'[[project]]\nname = "web"\npaths = ["{team.workspace}"]\n'
    rule = '[[rule]]\nname = "thrift"\nprojects = ["web"]\nproject_day_usd = 0.5\n'
    team.signs(PEOPLE + project + rule)
    assert ask(team, "developer", other)[0] == "done"
    assert ask(team, "developer", team.workspace)[0] == "done"
    ending, reason = ask(team, "admin", team.workspace)
    assert (ending, "for project web" in reason) == ("budget", True)
    assert ask(team, "admin", other)[0] == "done"


def test_a_model_without_a_price_does_not_work_under_a_cap(team: Team) -> None:
    team.signs(PEOPLE + '[[rule]]\nname = "thrift"\nperson_day_usd = 5\n')

    async def begin() -> None:
        model = ScriptedModel(Script((says("done"),)))
        model.price = None
        async with mainspring.open(team.workspace, model=model, config=team.config("developer")):
            pass

    with pytest.raises(UsageError, match="price of scripted is unknown"):
        asyncio.run(begin())
