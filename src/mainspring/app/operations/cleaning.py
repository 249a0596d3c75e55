"""Frees disk space: contents of files that no session can use any more, old records of `exec`, old logs,
caches, and what crashes left behind. All but the records and logs is made again when it is needed.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import time
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import msgspec

from mainspring.app.operations.deletion import Deletion, delete_sessions, plan_deletion
from mainspring.app.operations.leftover_worktrees import find_worktrees, is_of_agent, remove_worktree
from mainspring.app.operations.leftovers import Leftover
from mainspring.app.records import workspace_of
from mainspring.app.stores import commands_of, sessions_of
from mainspring.catalog import SessionRow, running
from mainspring.disk.scratch import remove
from mainspring.disk.usage import bytes_in, changed_s
from mainspring.errors import JournalError
from mainspring.events.counts import plural, readable_bytes
from mainspring.folds import CHECKPOINT_FILE
from mainspring.index import FOLDER as INDEX_FOLDER
from mainspring.settings import Config
from mainspring.workspace.contents import MEGABYTE, is_in_use, was_full
from mainspring.workspace.git import GitFailed

KEEP_DAYS = 30.0
_DAY_S = 24 * 3600
_FULL = 0.9


class DiskUse(msgspec.Struct, frozen=True, kw_only=True):
    """The room that each kind of data takes, in bytes, and what is free on that disk."""

    sessions: int
    session_count: int
    execs: int
    contents: int
    models: int
    other: int
    free: int


async def find_leftovers(config: Config, *, older_than_days: float = KEEP_DAYS) -> tuple[Leftover, ...]:
    """What `remove_leftovers` may remove: records of `exec`, logs and caches only when they are so old."""
    before_s = time.time() - older_than_days * _DAY_S
    rows = await sessions_of(config).rows()
    found = await asyncio.to_thread(lambda: list(_files(config, rows, before_s)))
    left = [each async for each in find_worktrees(config, rows)]
    execs = [each async for each in _execs(config, before_s)]
    return (*found, *execs, *await _locks(config, before_s), *left)


async def remove_leftovers(
    config: Config, leftovers: tuple[Leftover, ...], *, discards_work: bool = False
) -> tuple[Leftover, ...]:
    """Removes them, and gives those that are gone; what somebody uses by now stays, and what holds work that
    is kept nowhere else unless it `discards_work`."""
    wanted = [each for each in leftovers if discards_work or not each.unsaved]
    return tuple([each for each in wanted if await _removed(config, each)])


async def apply_retention(config: Config) -> tuple[Deletion, tuple[Leftover, ...]]:
    """Deletes what `[retention]` says is too old; nothing when it says nothing."""
    wanted = config.settings.retention
    deletion = Deletion()
    if wanted.sessions_days is not None:
        plan = await plan_deletion(config, older_than_days=wanted.sessions_days)
        deletion = await delete_sessions(config, plan)
    if wanted.clean_days is None:
        return deletion, ()
    leftovers = await find_leftovers(config, older_than_days=wanted.clean_days)
    return deletion, await remove_leftovers(config, leftovers)


async def retained(config: Config) -> str:
    """Deletes what is too old by the settings; a line about it, empty when nothing was."""
    deletion, removed = await apply_retention(config)
    freed = deletion.bytes + sum(each.bytes for each in removed)
    if not deletion.sessions and not removed:
        return ""
    gone = f"{plural(len(deletion.sessions), 'session')} and {plural(len(removed), 'other file')}"
    return f"deleted {gone}, {readable_bytes(freed)}"


def disk_use(config: Config) -> DiskUse:
    """What the data folder takes on disk."""
    home = config.home
    try:
        sizes = {each.name: bytes_in(each) for each in home.iterdir()}
    except FileNotFoundError:
        sizes = {}
    sessions = [each for each in (home / "sessions").glob("[!.]*") if each.is_dir()]
    named = {name: sizes.pop(name, 0) for name in ("sessions", "steps", "contents", "models")}
    above = next(each for each in (home, *home.parents) if each.exists())
    return DiskUse(
        sessions=named["sessions"],
        session_count=len(sessions),
        execs=named["steps"],
        contents=named["contents"],
        models=named["models"],
        other=sum(sizes.values()),
        free=shutil.disk_usage(above).free,
    )


def _files(config: Config, rows: list[SessionRow], before_s: float) -> Iterator[Leftover]:
    home = config.home
    yield from _contents(config, rows)
    logs = (home / "debug.log", home / "daemon" / "daemon.log.1", *home.glob("sessions/*/daemon.log"))
    for path in logs:
        if 0 < changed_s(path) < before_s:
            yield Leftover(kind="log", path=path, bytes=bytes_in(path), why="old")
    for path in (*home.glob("artifacts/*.artifacts"), *home.glob(f"sessions/*/{CHECKPOINT_FILE}")):
        if changed_s(path) < before_s:
            yield Leftover(kind="cache", path=path, bytes=bytes_in(path), why="old")
    for path in home.glob(f"{INDEX_FOLDER}/*.*"):
        if changed_s(path) < before_s:
            yield Leftover(kind="cache", path=path, bytes=bytes_in(path), why="old")
    yesterday_s = time.time() - _DAY_S
    for folder in (home / "sessions", home / "steps" / "sessions"):
        unfinished = [path for path in folder.glob(".new-*") if changed_s(path) < yesterday_s]
        for path in (*unfinished, *folder.glob(".deleted-*")):
            yield Leftover(
                kind="unfinished session", path=path, bytes=bytes_in(path), why="a crash left it behind"
            )


def _contents(config: Config, rows: list[SessionRow]) -> Iterator[Leftover]:
    """Caches of workspaces that are gone or that no session works in, and those that are full."""
    store = sessions_of(config)
    workspaces = {workspace_of(row, store, config) for row in rows}
    used = {hashlib.sha256(each.encode()).hexdigest()[:16] for each in workspaces if Path(each).is_dir()}
    cap = config.settings.retention.contents_mb * MEGABYTE
    for folder in config.home.glob("contents/*-*"):
        size = bytes_in(folder)
        if folder.name.rpartition("-")[0] not in used:
            why = "its workspace is gone, or no session works there any more"
        elif size > cap * _FULL or was_full(folder):
            why = "full; what is in the workspace is kept again"
        else:
            continue
        if not is_in_use(folder):
            yield Leftover(kind="contents", path=folder, bytes=size, why=why)


async def _execs(config: Config, before_s: float) -> AsyncGenerator[Leftover]:
    store = commands_of(config)
    for name in await store.names():
        folder = store.directory(name)
        if changed_s(folder) < before_s and await running(store, name) is None:
            yield Leftover(kind="exec record", path=folder, bytes=bytes_in(folder), why="old")


async def _locks(config: Config, before_s: float) -> list[Leftover]:
    """Locks of goals on workspaces where no goal is at work."""
    store, found = sessions_of(config), list[Leftover]()
    for folder in config.home.glob("workspaces/*"):
        owner = await store.lock_owner(f"workspaces/{folder.name}")
        if changed_s(folder) < before_s and not (owner is not None and owner.is_alive):
            found.append(Leftover(kind="lock", path=folder, bytes=bytes_in(folder), why="no goal holds it"))
    return found


async def _removed(config: Config, leftover: Leftover) -> bool:
    try:
        match leftover.kind:
            case "exec record":
                await commands_of(config).delete(leftover.path.name)
            case "contents" if is_in_use(leftover.path):
                return False
            case "log" | "cache":
                await asyncio.to_thread(os.unlink, leftover.path)
            case "worktree" if is_of_agent(config, leftover.path):
                await asyncio.to_thread(remove, leftover.path)
            case "worktree":
                await asyncio.to_thread(remove_worktree, config, leftover.path)
            case "contents" | "unfinished session" | "lock":
                await asyncio.to_thread(shutil.rmtree, leftover.path)
    except (OSError, JournalError, GitFailed):  # it is gone already, or may not be removed
        return False
    return True
