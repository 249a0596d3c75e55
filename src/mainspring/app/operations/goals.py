"""Goals: where they stand, and telling them to pause, stop or begin in the background.

`mainspring.app.goals` starts and resumes one in this process.
"""

from __future__ import annotations

import asyncio

import msgspec

from mainspring.app.goals import GoalOptions, end_processes_of, resume_goal, start_goal, tell_goal
from mainspring.app.operations.goal_list import graded, list_goals
from mainspring.app.operations.reports import goal_report
from mainspring.app.operations.timeline import BackAt, go_back_to
from mainspring.app.operations.workers import QueuePlace, enqueue, poke_workers
from mainspring.app.stores import sessions_of
from mainspring.catalog import SessionRow
from mainspring.daemon.launch import ensure
from mainspring.engines.builtin import NAME as BUILTIN
from mainspring.errors import UsageError
from mainspring.events import GoalEnded, GoalPaused, GoalSet, IterationEnded
from mainspring.goals.control import GivenOrder, Order
from mainspring.goals.control import take_order as take_order_in
from mainspring.goals.fold import load_goal
from mainspring.goals.instructions import FILE as INSTRUCTIONS
from mainspring.goals.profiles import Profile, load_profile, profile_names
from mainspring.report.result_facts import BestResult
from mainspring.settings import Config


class GoalStanding(msgspec.Struct, frozen=True, kw_only=True):
    """A goal as it is now, its last iteration, and its end when it has one. `instructions` is the file that
    an outside engine reads them in."""

    row: SessionRow
    goal: GoalSet
    last: IterationEnded | None
    ended: GoalEnded | None
    instructions: str = ""


class Ordered(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an order; `ending` is set when the goal had ended before, and `processes` is how many
    that it had left running were ended now."""

    session: str
    ending: str = ""
    done: str = ""
    processes: int = 0


async def goal_standing(config: Config, session: str) -> GoalStanding:
    store = sessions_of(config)
    name = await store.find(session)
    goal = await load_goal(store, name)
    (row,) = await graded([row for row in await list_goals(config) if row.id == name], config)
    return GoalStanding(
        row=row,
        goal=goal.now,
        last=goal.last,
        ended=goal.ended,
        instructions="" if goal.now.engine == BUILTIN else INSTRUCTIONS,
    )


async def order_goal(config: Config, session: str, order: Order) -> Ordered:
    """Pauses or stops a goal and whatever it runs; returns when that is on record."""
    store = sessions_of(config)
    name = await store.find(session)
    goal = await load_goal(store, name)
    if goal.ended is not None:
        processes = await end_processes_of(name, config) if order == "stop" else 0
        return Ordered(session=name, ending=goal.ended.ending, processes=processes)
    event = (
        GoalPaused(reason="Paused by request.")
        if order == "pause"
        else GoalEnded(ending="stopped", reason="Stopped by request.", exit_code=130)
    )
    done = await tell_goal(name, order, event, config)
    await poke_workers(config, name, order)
    return Ordered(session=name, done=done)


async def best_of(config: Config, session: str) -> BestResult:
    """The best result of a goal, and the event after which the files were those that gave it."""
    found = (await goal_report(config, session)).result
    if found is None or not found.state_seq:
        raise UsageError(
            "This goal has no best result: nothing was measured, or nobody said which way is better.",
            remedy="Name a metric with --minimize, --maximize or --target.",
        )
    return found


async def restore_best(config: Config, session: str) -> BackAt:
    """Puts back the files that gave the best result, except the memory file; on record, so undoable."""
    best = await best_of(config, session)
    memory = (await goal_standing(config, session)).goal.memory
    return await go_back_to(config, session, best.state_seq, "files", (memory,))


def take_order(config: Config, session: str) -> GivenOrder | None:
    """The order that another process left for this one, which works on the goal; once."""
    return take_order_in(sessions_of(config), session)


async def begin_goal(config: Config, given: str, options: GoalOptions) -> str:
    """Puts a goal on record, for another process to work on; gives its session."""
    async with start_goal(given, options, config=config) as pursuit:
        return pursuit.session.id


async def begin_in_background(config: Config, given: str, options: GoalOptions) -> str:
    """Begins a goal and leaves it to the daemon, which is started if need be; gives its session."""
    session = await begin_goal(config, given, options)
    await asyncio.to_thread(ensure, config)
    return session


async def begin_in_queue(config: Config, given: str, options: GoalOptions, place: QueuePlace) -> str:
    """Begins a goal and leaves it to a worker; gives its session."""
    async with start_goal(given, options, config=config) as pursuit:
        await enqueue(config, pursuit.session.id, place)
        return pursuit.session.id


async def resume_in_background(config: Config, session: str, options: GoalOptions) -> str:
    """Leaves a goal that is paused, was interrupted or has ended short of done to the daemon again, with
    other limits where they are given; gives its session."""
    async with resume_goal(session, options, config=config) as pursuit:
        name = pursuit.session.id
    await asyncio.to_thread(ensure, config)
    return name


def list_profiles(config: Config) -> list[Profile]:
    """The kinds of loops."""
    folder = config.folder
    return [msgspec.structs.replace(load_profile(name, folder), name=name) for name in profile_names(folder)]
