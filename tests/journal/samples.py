"""Journals for tests."""

import asyncio
from collections.abc import Iterable

from mainspring.catalog.sqlite import SqliteSessions
from mainspring.events import Event


def write(store: SqliteSessions, session: str, events: Iterable[Event], blobs: Iterable[bytes] = ()) -> None:
    """Appends the events to the session in one commit; makes the session when there is none."""

    async def appending() -> None:
        exists = (store.shelf.folder / session).is_dir()
        journal = await (store.open(session) if exists else store.create(session))
        for blob in blobs:
            await journal.put(blob)
        await journal.append(*events)
        await journal.close()

    asyncio.run(appending())
