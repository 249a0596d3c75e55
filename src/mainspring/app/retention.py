"""Applies `[retention]` and `[audit] keep_days` once a day in whatever process runs a session, beside it.

It begins when the session is open, so that what runs is never deleted, and is left off when the session
closes; the next one goes on. What it did stands in `retention.log`, whose age says whether it is due.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from mainspring.disk.files import make_file
from mainspring.errors import MainspringError
from mainspring.events.counts import plural
from mainspring.settings import Config

LOG = "retention.log"
_DAY_S = 24 * 3600


@asynccontextmanager
async def retention_beside(config: Config | None) -> AsyncGenerator[None]:
    """Deletes what is too old while the block runs, when that is wanted and is due."""
    if config is None or not _is_due(config):
        yield
        return
    task = asyncio.create_task(_apply(config))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
    if not task.cancelled():
        task.result()


def note_retention(config: Config, said: str) -> None:
    """Keeps a line about what was deleted, and the time."""
    path = config.home / LOG
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime())
    with suppress(OSError):  # a full disk; then it is tried again
        make_file(path)
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{at} {said or 'nothing was too old'}\n")


def _is_due(config: Config) -> bool:
    wanted = config.settings.retention
    is_wanted = wanted.sessions_days is not None or wanted.clean_days is not None
    if not is_wanted and config.settings.audit.keep_days is None and config.daily_anchor is None:
        return False
    return time.time() - _noted_s(config.home / LOG) >= _DAY_S


def _noted_s(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


async def _apply(config: Config) -> None:
    from mainspring.app.operations.audit import anchor_audit, prune_audit  # noqa: PLC0415 - needed once a day
    from mainspring.app.operations.cleaning import retained  # noqa: PLC0415 - as above

    try:
        said = await retained(config)
        await anchor_audit(config)
        if (days := config.settings.audit.keep_days) is not None and (
            old := await prune_audit(config, days)
        ).entries:
            said += f"{', ' if said else ''}dropped {plural(old.entries, 'entry')} of the audit log"
    except (MainspringError, OSError) as error:
        said = f"not possible: {error}"
    note_retention(config, said)
