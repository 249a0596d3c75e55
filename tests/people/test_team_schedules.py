"""What a daemon begins and goes on with is held to what holds for whoever wanted it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

import mainspring
from mainspring.app.goals import GoalOptions
from mainspring.app.operations.schedules import fire_schedule, keep_schedule, plan_schedule
from mainspring.app.operations.sessions import journal_of
from mainspring.errors import AccessRefused
from mainspring.events import GoalSet, SessionStarted
from mainspring.folds.state import load_state
from mainspring.journal import last_event
from mainspring.models.scripted import Script, ScriptedModel
from mainspring.settings import Config
from tests.people.teams import PEOPLE, Team
from tests.stage import says

RULE = """
[[rule]]
name = "careful"
people = ["role:developer"]
modes = ["plan", "ask"]
"""


@pytest.fixture
def team(tmp_path: Path) -> Team:
    return Team(tmp_path)


def daemon(team: Team) -> Config:
    """The settings of a daemon that an admin runs."""
    config = team.config("admin")
    return msgspec.structs.replace(config, origin=msgspec.structs.replace(config.origin, face="daemon"))


async def scheduled(team: Team, mode: str) -> str:
    options = GoalOptions(folder=team.workspace, engine="exec:true", mode=mode)
    planned = await plan_schedule(
        team.config("developer"), "@daily", "tidy up", options, is_uncapped=True, by="x"
    )
    return keep_schedule(team.config("developer"), planned).schedule.id


def test_a_schedule_does_not_lend_its_person_the_role_of_the_daemon(team: Team) -> None:
    team.signs(PEOPLE + RULE)

    async def story() -> None:
        with pytest.raises(AccessRefused, match=r"mode auto may not be used.*rule careful"):
            await fire_schedule(daemon(team), await scheduled(team, "auto"))

    asyncio.run(story())


def test_whoever_scheduled_a_goal_is_whose_goal_it_is(team: Team) -> None:
    """Otherwise they could allow what it wants, and would not pay for it."""
    team.signs(PEOPLE)

    async def story() -> None:
        session = await fire_schedule(daemon(team), await scheduled(team, "ask"))
        async with journal_of(team.config("admin"), session) as reader:
            started, goal = await last_event(reader, SessionStarted), await last_event(reader, GoalSet)
            assert started is not None
            assert goal is not None
            found = [each and (each.user, each.face) for each in (started.origin, goal.origin)]
            assert found == [("developer", "schedule"), ("developer", "cli")]
            assert (await load_state(reader)).requests.everybody == ("local:developer",)

    asyncio.run(story())


def test_what_a_daemon_said_does_not_make_the_work_its_own(team: Team) -> None:
    team.signs(PEOPLE + RULE)

    async def turn(config: Config, session: str = "", mode: str = "ask") -> str:
        model = ScriptedModel(Script((says("done"),)))
        opened = mainspring.open(team.workspace, model=model, config=config, session=session, mode=mode)
        async with opened as made:
            await made.ask("go on")
            return made.id

    async def story() -> None:
        session = await turn(team.config("developer"))
        await turn(daemon(team), session)
        with pytest.raises(AccessRefused, match="mode auto may not be used"):
            await turn(daemon(team), session, "auto")

    asyncio.run(story())
