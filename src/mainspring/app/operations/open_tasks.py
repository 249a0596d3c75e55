"""What was planned in a project and never finished, over all its sessions: from the last plan of each."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from mainspring.app.records import workspace_of
from mainspring.app.stores import sessions_of
from mainspring.catalog import SessionRow, reading
from mainspring.errors import JournalError
from mainspring.events import PlanItem, PlanSet
from mainspring.journal import last_event
from mainspring.settings import Config
from mainspring.workspace.instructions import repository_root

_MAX_SESSIONS = 300


class OpenPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The items of a session's last plan that are not done. `state` is the session's."""

    session: str
    title: str
    workspace: str
    updated_us: int
    state: str
    items: tuple[PlanItem, ...]


async def open_tasks(config: Config, folder: Path, *, is_everywhere: bool = False) -> list[OpenPlan]:
    """Of the project that a folder belongs to, or of all, the newest session first. What a later plan has as
    done, or names again, is told once at most."""
    store = sessions_of(config)
    rows = [row for row in await store.rows() if not row.parent]
    places = {row.id: workspace_of(row, store, config) for row in rows}
    if not is_everywhere:
        same = await asyncio.to_thread(_of_project, places, folder)
        rows = [row for row in rows if row.id in same]
    plans: list[tuple[SessionRow, PlanSet]] = []
    for row in sorted(rows, key=lambda row: -row.updated_us)[:_MAX_SESSIONS]:
        try:
            async with reading(store, row.id) as journal:
                plan = await last_event(journal, PlanSet)
        except JournalError:
            continue  # `sessions` tells of a damaged one
        plans += [(row, plan)] if plan else []
    return list(_still_open(plans, places))


def _of_project(places: dict[str, str], folder: Path) -> set[str]:
    root = repository_root(folder.resolve())
    return {session for session, place in places.items() if place and repository_root(Path(place)) == root}


def _still_open(plans: Iterable[tuple[SessionRow, PlanSet]], places: dict[str, str]) -> Iterator[OpenPlan]:
    """`plans` from the newest to the oldest."""
    known: set[tuple[Path, str]] = set()
    for row, plan in plans:
        root = repository_root(Path(places[row.id]))
        keys = {(root, " ".join(item.text.lower().split())): item for item in plan.items}
        left = [item for key, item in keys.items() if item.progress != "done" and key not in known]
        known |= keys.keys()
        if left:
            yield OpenPlan(
                session=row.id,
                title=row.title,
                workspace=row.workspace,
                updated_us=row.updated_us,
                state=row.state,
                items=tuple(left),
            )
