"""One loop per workspace: a lock that ends with its process, and the name of the goal that holds it.

A folder and one inside it are one workspace in this: each loop would take the other's files for its own.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from mainspring.catalog import Sessions
from mainspring.disk.files import make_folder, write_private
from mainspring.errors import JournalOwned

_FOLDER = "workspaces"
_NAME = "goal"
_PATH = "path"


class WorkspaceTaken(JournalOwned):
    """Another goal works in the same folder, or around or inside it."""


class HeldFolder:
    """The right to work in a folder; `name` says for which goal."""

    def __init__(self, place: Path) -> None:
        self._place = place

    def name(self, goal: str) -> None:
        write_private(self._place / _NAME, goal.encode())


@asynccontextmanager
async def workspace_held(sessions: Sessions, home: Path, workspace: Path) -> AsyncGenerator[HeldFolder]:
    """Keeps every other loop out of the workspace. A lock whose process is dead is taken over."""
    workspace = await asyncio.to_thread(workspace.resolve)
    place = home / _FOLDER / hashlib.sha256(bytes(workspace)).hexdigest()[:24]
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(sessions.lock(_lock_name(place)))
        except JournalOwned as error:
            raise await _taken(sessions, place, workspace) from error
        make_folder(place)
        stack.callback((place / _NAME).unlink, missing_ok=True)
        stack.callback((place / _PATH).unlink, missing_ok=True)
        # Ours is told before others are looked at: of two that begin at once, at least one sees the other.
        write_private(place / _PATH, bytes(workspace))
        await _refuse_overlapping(sessions, place, workspace)
        yield HeldFolder(place)


def _lock_name(place: Path) -> str:
    return f"{_FOLDER}/{place.name}"


def is_overlapping(one: Path, other: Path) -> bool:
    """Whether one of two folders is the other or lies in it."""
    return one.is_relative_to(other) or other.is_relative_to(one)


async def _refuse_overlapping(sessions: Sessions, place: Path, workspace: Path) -> None:
    for told in place.parent.glob(f"*/{_PATH}"):
        try:
            other = Path(os.fsdecode(told.read_bytes()))
        except FileNotFoundError:
            continue  # it has just ended
        if told.parent == place or not is_overlapping(workspace, other):
            continue
        owner = await sessions.lock_owner(_lock_name(told.parent))
        if owner is not None and owner.is_alive:
            raise await _taken(sessions, told.parent, other)


async def _taken(sessions: Sessions, place: Path, workspace: Path) -> WorkspaceTaken:
    owner = await sessions.lock_owner(_lock_name(place))
    who = owner.name if owner else "another process"
    try:
        goal = (place / _NAME).read_text("utf-8")
    except FileNotFoundError:
        goal = ""
    stop = f", or stop it first: mainspring goal stop {goal}" if goal else ""
    return WorkspaceTaken(
        f"The goal {goal or '(just starting)'} already works in {workspace} ({who}).",
        remedy=f"Wait for it{stop}.",
    )
