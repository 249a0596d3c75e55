"""Which goals there are; apart from the operations on one, so that the list loads nothing that runs them."""

from __future__ import annotations

from pathlib import Path

import msgspec

from mainspring.app.operations.sessions import newest_in
from mainspring.app.stores import sessions_of
from mainspring.catalog import SessionRow
from mainspring.errors import MainspringError, UsageError
from mainspring.settings import Config


async def list_goals(config: Config) -> list[SessionRow]:
    """The sessions that have a goal, the most recent first."""
    return [row for row in await sessions_of(config).rows() if row.goal]


async def graded_goals(config: Config) -> list[SessionRow]:
    """The goals as `list_goals` has them, each with its grade."""
    return await graded(await list_goals(config), config)


async def graded(rows: list[SessionRow], config: Config) -> list[SessionRow]:
    """The rows with the grades of those goals that were done before there were grades, by their events."""
    return [await _graded(row, config) if row.goal_state == "done" and not row.grade else row for row in rows]


async def _graded(row: SessionRow, config: Config) -> SessionRow:
    from mainspring.app.operations.reports import goal_report  # noqa: PLC0415 - only for old journals

    try:
        standing = (await goal_report(config, row.id)).standing
    except MainspringError:
        standing = ""  # it is damaged, as the report and `verify` say; told by the old rule
    if standing not in ("verified", "checked", "claimed"):
        standing = "verified" if row.is_verified else "claimed"
    return msgspec.structs.replace(row, grade=standing, is_verified=standing == "verified")


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
        return f"done, {row.grade or ('verified' if row.is_verified else 'claimed')}"
    return "running, waiting" if row.goal_state == "running" and row.is_waiting else row.goal_state
