"""Goals: which there are, where they stand, and telling them to pause, stop or begin in the background.

`mainspring.app.goals` starts and resumes one in this process.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from mainspring.app.goals import GoalOptions, start_goal, tell_goal
from mainspring.app.operations.sessions import newest_in
from mainspring.app.stores import sessions_of
from mainspring.catalog import SessionRow
from mainspring.daemon.launch import ensure
from mainspring.errors import UsageError
from mainspring.events import GoalEnded, GoalPaused, GoalSet, IterationEnded
from mainspring.goals.control import GivenOrder, Order
from mainspring.goals.control import take_order as take_order_in
from mainspring.goals.fold import load_goal
from mainspring.goals.profiles import Profile, load_profile, profile_names
from mainspring.settings import Config


class GoalStanding(msgspec.Struct, frozen=True, kw_only=True):
    """A goal as it is now, its last iteration, and its end when it has one."""

    row: SessionRow
    goal: GoalSet
    last: IterationEnded | None
    ended: GoalEnded | None


class Ordered(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an order; `ending` is set when the goal had ended before."""

    session: str
    ending: str = ""
    done: str = ""


async def list_goals(config: Config) -> list[SessionRow]:
    """The sessions that have a goal, the most recent first."""
    return [row for row in await sessions_of(config).rows() if row.goal]


async def newest_goal(config: Config, folder: Path) -> str:
    """The session of the newest goal of a folder."""
    if found := await newest_in(folder, await list_goals(config), config):
        return found
    raise UsageError(
        "No goal has been started in this folder.", remedy="Name one; `mainspring goal list` shows them."
    )


def state_of(row: SessionRow) -> str:
    """How a goal stands, in two words at most."""
    if row.goal_state == "done":
        return "done, verified" if row.is_verified else "done, unverified"
    return "running, waiting" if row.goal_state == "running" and row.is_waiting else row.goal_state


async def goal_standing(config: Config, session: str) -> GoalStanding:
    store = sessions_of(config)
    name = await store.find(session)
    goal = await load_goal(store, name)
    row = next(row for row in await list_goals(config) if row.id == name)
    return GoalStanding(row=row, goal=goal.now, last=goal.last, ended=goal.ended)


async def order_goal(config: Config, session: str, order: Order) -> Ordered:
    """Pauses or stops a goal and whatever it runs; returns when that is on record."""
    store = sessions_of(config)
    name = await store.find(session)
    goal = await load_goal(store, name)
    if goal.ended is not None:
        return Ordered(session=name, ending=goal.ended.ending)
    event = (
        GoalPaused(reason="Paused by request.")
        if order == "pause"
        else GoalEnded(ending="stopped", reason="Stopped by request.", exit_code=130)
    )
    return Ordered(session=name, done=await tell_goal(name, order, event, config))


def take_order(config: Config, session: str) -> GivenOrder | None:
    """The order that another process left for this one, which works on the goal; once."""
    return take_order_in(sessions_of(config).directory(session))


async def begin_goal(config: Config, given: str, options: GoalOptions) -> str:
    """Puts a goal on record, for another process to work on; gives its session."""
    async with start_goal(given, options, config=config) as pursuit:
        return pursuit.session.id


async def begin_in_background(config: Config, given: str, options: GoalOptions) -> str:
    """Begins a goal and leaves it to the daemon, which is started if need be; gives its session."""
    session = await begin_goal(config, given, options)
    await asyncio.to_thread(ensure, config)
    return session


def list_profiles(config: Config) -> list[Profile]:
    """The kinds of loops."""
    folder = config.folder
    return [msgspec.structs.replace(load_profile(name, folder), name=name) for name in profile_names(folder)]
