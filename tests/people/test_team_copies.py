"""Work in copies of a project is work of that project: to its rules, its caps, and whoever may see it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

import mainspring
from mainspring.app.operations.sessions import find_session, list_sessions
from mainspring.app.operations.usage import UsageFilter, usage
from mainspring.app.records import fork_session
from mainspring.errors import AccessRefused, UnknownSession
from mainspring.models import Price
from mainspring.models.scripted import Script, ScriptedModel
from mainspring.session.child import ChildSession
from mainspring.settings import Config
from tests.people.teams import PEOPLE, Team
from tests.stage import says

PRICED = Price(input=1.0, output=1000.0)


SECRET = "Payroll7-X9v2Qr8Lm4Zt6Wp"


@pytest.fixture
def team(tmp_path: Path) -> Team:
    (tmp_path / SECRET).mkdir()
    made = Team(tmp_path / SECRET)
    made.signs(
        f"""{PEOPLE}
[[project]]
name = "payroll"
paths = ["{made.workspace}"]
closed = true
roles.developer = ["local:ada"]
[[rule]]
name = "careful"
projects = ["payroll"]
modes = ["plan", "ask"]
project_day_usd = 0.5
"""
    )
    return made


def scripted(*, tokens: int = 0) -> ScriptedModel:
    usage = mainspring.Usage(input_tokens=0, output_tokens=tokens)
    return ScriptedModel(Script((says("done", usage=usage),), price=PRICED))


async def with_child(team: Team, copy: Path, *, tokens: int = 0) -> tuple[str, str]:
    """A session and one that works for it in a copy of its workspace, as agents do."""
    copy.mkdir(exist_ok=True)
    ada = team.config("ada")
    async with mainspring.open(team.workspace, model=scripted(), config=ada) as parent:
        await parent.ask("have it done")
        place = ChildSession(parent, f"{parent.id}-child", "helper")
        async with mainspring.open(copy, model=scripted(tokens=tokens), config=ada, parent=place) as child:
            await child.ask("do it")
            return parent.id, child.id


def rows(config: Config) -> set[str]:
    return {row.id for row in asyncio.run(list_sessions(config))}


def test_an_agent_in_a_copy_works_under_the_rules_of_the_project_and_is_hidden_with_it(
    team: Team, tmp_path: Path
) -> None:
    parent, child = asyncio.run(with_child(team, tmp_path / "copy"))
    assert rows(team.config("ada")) == {parent, child}
    assert rows(team.config("developer")) == set()
    with pytest.raises(UnknownSession):
        asyncio.run(find_session(team.config("developer"), child))

    async def goes_on() -> None:
        opened = mainspring.open(session=child, model=scripted(), config=team.config("ada"), mode="auto")
        async with opened as session:
            await session.ask("more")

    with pytest.raises(AccessRefused, match="mode auto may not be used"):
        asyncio.run(goes_on())
    found = asyncio.run(usage(team.config("ada"), ("project",), UsageFilter()))
    assert [each.keys["project"] for each in found.rows] == [str(team.workspace)]


def test_what_agents_spend_in_copies_counts_for_the_cap_of_the_project(team: Team, tmp_path: Path) -> None:
    asyncio.run(with_child(team, tmp_path / "copy", tokens=500))

    async def more() -> str:
        async with mainspring.open(
            team.workspace, model=scripted(tokens=500), config=team.config("ada")
        ) as session:
            return (await session.ask("more")).ending

    assert asyncio.run(more()) == "budget"


def test_a_session_in_a_worktree_is_one_of_the_project_until_it_is_forked_elsewhere(
    team: Team, tmp_path: Path
) -> None:
    copy, other = tmp_path / "tree", tmp_path / "other"
    copy.mkdir()
    other.mkdir()
    config = msgspec.structs.replace(team.config("ada"), copied=team.workspace)

    async def begin() -> str:
        async with mainspring.open(copy, model=scripted(), config=config) as session:
            await session.ask("fix it")
            return session.id

    fixed = asyncio.run(begin())
    assert rows(team.config("developer")) == set()
    fork, _ = asyncio.run(fork_session(fixed, team.config("ada")))
    assert fork not in rows(team.config("developer"))
    elsewhere, _ = asyncio.run(fork_session(fixed, team.config("admin"), workspace=str(other)))
    assert rows(team.config("developer")) == {elsewhere}


def test_a_secret_in_the_name_of_a_folder_takes_no_session_out_of_its_project(team: Team) -> None:
    """Where a session works is recorded without secrets, and a person can call anything a secret."""
    ada = team.config("ada")
    hiding = msgspec.structs.replace(ada, environment={**ada.environment, "SOME_API_KEY": SECRET})

    async def ask(config: Config) -> str:
        async with mainspring.open(team.workspace, model=scripted(tokens=500), config=config) as session:
            return (await session.ask("do it")).ending

    assert asyncio.run(ask(hiding)) == "done"
    (row,) = asyncio.run(list_sessions(ada))
    assert SECRET not in row.workspace
    assert asyncio.run(ask(ada)) == "budget"
