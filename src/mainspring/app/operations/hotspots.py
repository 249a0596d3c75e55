"""Where the sessions of a project worked again and again, read from their journals."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from mainspring.app.records import vault_of, workspace_of
from mainspring.app.stores import sessions_of
from mainspring.catalog import reading
from mainspring.errors import JournalError
from mainspring.index.hotspots import KINDS, Hotspot, HotspotFold
from mainspring.journal import events_in
from mainspring.secrets.redaction import expanded
from mainspring.settings import Config
from mainspring.workspace.instructions import repository_root

_MAX_SESSIONS = 200


async def hotspots_of(config: Config, folder: Path, paths: list[str]) -> list[Hotspot]:
    """Of the project that a folder belongs to, whose files `paths` are; the newest 200 sessions tell."""
    store = sessions_of(config)
    rows = sorted((row for row in await store.rows() if not row.parent), key=lambda row: -row.updated_us)
    places = {row.id: workspace_of(row, store, config) for row in rows}
    prefixes = await asyncio.to_thread(_prefixes, places, folder)
    fold = HotspotFold()
    for session in list(prefixes)[:_MAX_SESSIONS]:
        vault = vault_of(store, session, config)
        try:
            async with reading(store, session) as journal:
                events = [expanded(each.event, vault) async for each in events_in(journal, kinds=KINDS)]
        except JournalError:
            continue  # `sessions` tells of a damaged one
        fold.add_session(events, prefixes[session])
    return await asyncio.to_thread(fold.hotspots, paths)


def _prefixes(places: dict[str, str], folder: Path) -> dict[str, str]:
    """The sessions of a project, each with the way from its repository to its workspace."""
    root = repository_root(folder.resolve())
    found: dict[str, str] = {}
    for session, place in places.items():
        if place and repository_root(Path(place)) == root:
            below = os.path.relpath(place, root)
            found[session] = "" if below == "." else f"{below}/"
    return found
