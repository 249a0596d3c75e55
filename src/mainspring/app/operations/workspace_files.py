"""The files that a person may name to a session."""

from __future__ import annotations

import asyncio

from mainspring.errors import PathRefused
from mainspring.session.session import Session, runtime_of
from mainspring.tools.walk import walked


async def workspace_files(session: Session) -> tuple[str, ...]:
    """The files of a session's workspace that may be seen: ignore rules respected, secrets left out."""
    files, root = runtime_of(session).workbench.files, session.state.workspace
    try:
        return (await asyncio.to_thread(walked, files, root)).paths
    except (PathRefused, OSError):
        return ()
