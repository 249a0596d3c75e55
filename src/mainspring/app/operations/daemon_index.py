"""The daemon keeps the indexes of repositories in which somebody worked lately: one at a time, each in a
process of its own that steps back for everybody else."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from mainspring.app.records import workspace_of
from mainspring.app.stores import sessions_of
from mainspring.daemon.files import DaemonFiles
from mainspring.errors import MainspringError
from mainspring.sandbox.detached import start_detached
from mainspring.settings import Config
from mainspring.workspace.instructions import repository_root

_FIRST_S, _AGAIN_S = 30.0, 600.0
_RECENT_DAYS = 7.0
_MOST = 8
_NICE = 10


async def keep_indexes(
    config: Config, say: Callable[[str], None], exit_code: Callable[[int], Awaitable[int]]
) -> None:
    """For as long as the daemon runs."""
    await asyncio.sleep(_FIRST_S)
    while True:
        try:
            for root in await recent_repositories(config):
                await _update(config, root, say, exit_code)
        except (MainspringError, OSError) as error:
            say(f"index: {error}")
        await asyncio.sleep(_AGAIN_S)


async def recent_repositories(config: Config) -> list[Path]:
    """The git repositories that sessions worked in lately, the latest first; never one around the home."""
    store, since_us = sessions_of(config), (time.time() - _RECENT_DAYS * 24 * 3600) * 1e6
    rows = sorted(await store.rows(), key=lambda row: -row.updated_us)
    places = [
        workspace_of(row, store, config) for row in rows if row.updated_us >= since_us and not row.parent
    ]
    return await asyncio.to_thread(_repositories, places, Path(config.variable("HOME") or "/"))


def _repositories(places: list[str], home: Path) -> list[Path]:
    roots = dict.fromkeys(repository_root(Path(place)) for place in places if place and Path(place).is_dir())
    own = home.resolve()
    return [root for root in roots if (root / ".git").exists() and not own.is_relative_to(root)][:_MOST]


async def _update(
    config: Config, root: Path, say: Callable[[str], None], exit_code: Callable[[int], Awaitable[int]]
) -> None:
    log = DaemonFiles(config.home).log
    pid = start_detached(["index", "-C", str(root)], environment=config.environment, log=log)
    with suppress(ProcessLookupError):
        os.setpriority(os.PRIO_PROCESS, pid, _NICE)
    try:
        code = await exit_code(pid)
    except asyncio.CancelledError:
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGTERM)
            _reap(pid)
        raise
    if code:
        say(f"index: {root} could not be indexed (exit code {code})")


def _reap(pid: int) -> None:
    os.waitpid(pid, 0)
