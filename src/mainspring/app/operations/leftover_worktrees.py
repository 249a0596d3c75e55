"""Copies of workspaces that nobody needs any more: those of agents that have ended, and git worktrees of
fixes and farms whose sessions were deleted. What was changed in one and is kept nowhere else is told, and
stays until a person gives it up.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Collection
from pathlib import Path

from mainspring.app.agents_beside import worktrees_folder
from mainspring.app.operations.leftovers import Leftover
from mainspring.app.private import own_worktrees
from mainspring.app.records import workspace_of
from mainspring.app.stores import sessions_of
from mainspring.catalog import SessionRow, Sessions, reading, running
from mainspring.disk.usage import bytes_in, changed_s
from mainspring.events import ChildEnded
from mainspring.journal import events_in
from mainspring.settings import Config
from mainspring.workspace.linked_worktrees import drop_left, unsaved_in
from mainspring.workspace.worktrees import unsaved_in_copy

_DAY_S = 24 * 3600


async def find_worktrees(config: Config, rows: list[SessionRow]) -> AsyncGenerator[Leftover]:
    async for each in _of_agents(config, rows):
        yield each
    store = sessions_of(config)
    used = {Path(workspace_of(row, store, config)) for row in rows}
    for tree in await asyncio.to_thread(_unused, config, used):
        yield tree


def remove_worktree(config: Config, tree: Path) -> None:
    """Removes a git worktree of a fix or farm, and what it stands in if that is empty then."""
    drop_left(tree, config.environment)
    if not any(tree.parent.iterdir()):
        tree.parent.rmdir()


def is_of_agent(config: Config, path: Path) -> bool:
    return path.parent == worktrees_folder(config)


async def _of_agents(config: Config, rows: list[SessionRow]) -> AsyncGenerator[Leftover]:
    """Copies of workspaces that no child needs any more: it has ended, or it or its parent is gone."""
    store, known = sessions_of(config), {row.id: row for row in rows}
    for folder in sorted(worktrees_folder(config).glob("*")):
        row = known.get(folder.name)
        parent = row.parent if row and row.parent in known else ""
        if (row and await running(store, row.id)) or (parent and await running(store, parent)):
            continue
        has_ended = bool(parent) and await _has_ended(store, parent, folder.name)
        if not parent or has_ended:
            # What an agent that has ended changed was brought back, or stands in its parent's journal.
            unsaved = (
                "" if has_ended else await asyncio.to_thread(unsaved_in_copy, folder, config.environment)
            )
            why = "nobody works in it any more"
            yield Leftover(kind="worktree", path=folder, bytes=bytes_in(folder), why=why, unsaved=unsaved)


def _unused(config: Config, used: Collection[Path]) -> list[Leftover]:
    """Worktrees of fixes and farms that no session works in. One that was made a moment ago may get its."""
    found: list[Leftover] = []
    for tree in own_worktrees(config):
        is_used = any(place.is_relative_to(tree) for place in used)
        if not is_used and changed_s(tree) < time.time() - _DAY_S:
            unsaved = unsaved_in(tree, config.environment)
            why = "its session was deleted; its branch stays"
            found.append(Leftover(kind="worktree", path=tree, bytes=bytes_in(tree), why=why, unsaved=unsaved))
    return found


async def _has_ended(store: Sessions, parent: str, child: str) -> bool:
    async with reading(store, parent) as journal:
        ends = events_in(journal, kinds=("ChildEnded",))
        return any([isinstance(each.event, ChildEnded) and each.event.child == child async for each in ends])
