"""What a session's work came to beyond its events: branches, checks, farms, goals that go on, what waits."""

from __future__ import annotations

import msgspec

from mainspring.app.goals import GoalOptions
from mainspring.app.operations.branches import HowToLand, Landed, branch_of, land
from mainspring.app.operations.checks import ChecksOverview, checks_of
from mainspring.app.operations.context import compact_session
from mainspring.app.operations.farm import Farm, land_farm
from mainspring.app.operations.farm_record import farm_of
from mainspring.app.operations.forks import SessionComparison, compare
from mainspring.app.operations.goals import best_of, restore_best, resume_in_background
from mainspring.app.operations.messages import UnsaidMessage, list_waiting, take_back
from mainspring.app.operations.timeline import BackAt
from mainspring.app.operations.transfer import Verification, verify_session
from mainspring.errors import UsageError
from mainspring.events import BranchMoved, Compacted
from mainspring.report.result_facts import BestResult
from mainspring.serve.routes import SESSION, ApiCall, Route, get_route, post_route
from mainspring.serve.values import Nothing, Started, Taken


class LandBranch(Taken, frozen=True, kw_only=True):
    """`discard` gives it up, and puts the files back."""

    how: HowToLand = "merge"


class LandFarm(Taken, frozen=True, kw_only=True):
    """With `drops` the branches of the other attempts are removed."""

    drops: bool = False


class ResumeGoal(Taken, frozen=True, kw_only=True):
    """What is not given stays as it was."""

    max_cost_usd: float | None = None
    max_iterations: int | None = None


class MessageNamed(Taken, frozen=True, kw_only=True):
    id: str


class OtherSession(Taken, frozen=True, kw_only=True):
    other: str


async def _branch(asked: ApiCall) -> BranchMoved | None:
    return await branch_of(asked.config, asked.session)


async def _land(asked: ApiCall) -> Landed:
    await asked.server.hub.release(asked.session)
    return await land(asked.config, asked.session, asked.taken.how)


async def _farm(asked: ApiCall) -> Farm | None:
    return await farm_of(asked.config, asked.session)


async def _land_farm(asked: ApiCall) -> BranchMoved:
    await asked.server.hub.release(asked.session)
    return await land_farm(asked.config, asked.session, drops=asked.taken.drops)


async def _checks(asked: ApiCall) -> ChecksOverview:
    return await checks_of(asked.config, asked.session)


async def _best(asked: ApiCall) -> BestResult:
    return await best_of(asked.config, asked.session)


async def _restore_best(asked: ApiCall) -> BackAt:
    await asked.server.hub.release(asked.session)
    return await restore_best(asked.config, asked.session)


async def _resume(asked: ApiCall) -> Started:
    await asked.server.hub.release(asked.session)
    given = msgspec.to_builtins(asked.taken)
    options = GoalOptions(rules={name: value for name, value in given.items() if value is not None})
    return Started(session=await resume_in_background(asked.config, asked.session, options))


async def _compact(asked: ApiCall) -> Compacted:
    await asked.server.hub.release(asked.session)
    return await compact_session(asked.config, asked.session)


async def _waiting(asked: ApiCall) -> tuple[UnsaidMessage, ...]:
    return list_waiting(asked.config, asked.session)


async def _take_back(asked: ApiCall) -> Nothing:
    if not take_back(asked.config, asked.session, asked.taken.id):
        raise UsageError("It was said already, or taken back.")
    return Nothing()


async def _compare(asked: ApiCall) -> SessionComparison:
    return await compare(asked.config, asked.session, asked.taken.other)


async def _verify(asked: ApiCall) -> Verification:
    return await verify_session(asked.config, asked.session)


_S = SESSION
ROUTES: tuple[Route, ...] = (
    get_route(f"{_S}/branch", "The git branch that it works on.", _branch, BranchMoved | None),
    get_route(f"{_S}/farm", "Its attempts, and which is the best.", _farm, Farm | None),
    get_route(f"{_S}/checks", "What checks say of the files it changed.", _checks, ChecksOverview),
    get_route(f"{_S}/best", "The best result of a goal.", _best, BestResult),
    get_route(f"{_S}/waiting", "What waits to be said.", _waiting, tuple[UnsaidMessage, ...]),
    get_route(f"{_S}/compare", "Two sessions compared.", _compare, SessionComparison, OtherSession),
    get_route(f"{_S}/verify", "Whether its journal is whole.", _verify, Verification),
    post_route(f"{_S}/land", "land", "Land its branch, or give it up.", _land, Landed, LandBranch),
    post_route(f"{_S}/farm/land", "land", "Land the best attempt.", _land_farm, BranchMoved, LandFarm),
    post_route(f"{_S}/best", "goal best", "Put the best result's files back.", _restore_best, BackAt),
    post_route(f"{_S}/resume", "goal resume", "Go on with a goal.", _resume, Started, ResumeGoal),
    post_route(f"{_S}/compact", "compact", "Shorten what the model is sent.", _compact, Compacted),
    post_route(f"{_S}/waiting/end", "say", "Take back what waits.", _take_back, Nothing, MessageNamed),
)
