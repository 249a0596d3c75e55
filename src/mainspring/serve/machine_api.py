"""What a machine has beside its sessions: models, agents, standing approvals, schedules, the daemon."""

from __future__ import annotations

import asyncio

from mainspring.agents.files import Agent
from mainspring.app.operations.agents import list_agents
from mainspring.app.operations.approvals import list_grants, revoke_grant
from mainspring.app.operations.daemon import DaemonStatus, daemon_status
from mainspring.app.operations.engines import EngineStatus, list_engines
from mainspring.app.operations.impact import look_at_impact
from mainspring.app.operations.models import selectable_models
from mainspring.app.operations.schedules import ScheduleRow, fire_schedule, forget_schedule, list_schedules
from mainspring.approvals.grants import Grant
from mainspring.goals.schedules import Schedule
from mainspring.serve.hub import absolute
from mainspring.serve.routes import ApiCall, Route, get_route, post_route
from mainspring.serve.values import FolderAsked, Nothing, Started, Taken
from mainspring.workspace.impact import Impact


class GrantNamed(Taken, frozen=True, kw_only=True):
    id: str


class ScheduleNamed(Taken, frozen=True, kw_only=True):
    id: str


class ImpactAsked(Taken, frozen=True, kw_only=True):
    """Of what changed in a repository since a commit, by default the last."""

    folder: str
    since: str = ""


async def _models(asked: ApiCall) -> list[str]:
    return await asyncio.to_thread(selectable_models, asked.config)


async def _engines(asked: ApiCall) -> list[EngineStatus]:
    folder = absolute(asked.taken.folder) if asked.taken.folder else asked.config.home
    return await list_engines(asked.config, folder)


async def _agents(asked: ApiCall) -> tuple[Agent, ...]:
    folder = absolute(asked.taken.folder) if asked.taken.folder else asked.config.home
    found, _ = await asyncio.to_thread(list_agents, asked.config, folder)
    return tuple(found.values())


async def _impact(asked: ApiCall) -> Impact:
    folder = absolute(asked.taken.folder)
    return await look_at_impact(asked.config, folder, (), asked.taken.since)


async def _grants(asked: ApiCall) -> tuple[Grant, ...]:
    return list_grants(asked.config)


async def _revoke_grant(asked: ApiCall) -> Nothing:
    revoke_grant(asked.config, asked.taken.id)
    return Nothing()


async def _schedules(asked: ApiCall) -> list[ScheduleRow]:
    return await list_schedules(asked.config)


async def _forget_schedule(asked: ApiCall) -> Schedule:
    return forget_schedule(asked.config, asked.taken.id)


async def _begin_schedule(asked: ApiCall) -> Started:
    return Started(session=await fire_schedule(asked.config, asked.taken.id))


async def _daemon(asked: ApiCall) -> DaemonStatus:
    return await daemon_status(asked.config)


ROUTES: tuple[Route, ...] = (
    get_route("/models", "Models to choose from.", _models, list[str]),
    get_route("/engines", "Who can take turns here.", _engines, list[EngineStatus], FolderAsked),
    get_route("/agents", "Agents that others can ask.", _agents, tuple[Agent, ...], FolderAsked),
    get_route(
        "/impact", "What changes of a repository reach.", _impact, Impact, ImpactAsked, "repository impact"
    ),
    get_route("/approvals", "What is allowed from now on.", _grants, tuple[Grant, ...]),
    get_route("/schedules", "Goals that begin by themselves.", _schedules, list[ScheduleRow]),
    get_route("/daemon", "What works in the background.", _daemon, DaemonStatus),
    post_route("/approvals/revoke", "approvals revoke", "Ask again.", _revoke_grant, Nothing, GrantNamed),
    post_route("/schedules/begin", "goal fire", "Begin one now.", _begin_schedule, Started, ScheduleNamed),
    post_route(
        "/schedules/forget", "goal unschedule", "No more of it.", _forget_schedule, Schedule, ScheduleNamed
    ),
)
