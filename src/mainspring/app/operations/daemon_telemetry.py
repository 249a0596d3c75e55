"""The daemon sends traces and metrics while the settings name a collector; while they do not, nothing of that
is even loaded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib import import_module

from mainspring.app.stores import sessions_of, shared_files
from mainspring.errors import JournalOwned, MainspringError
from mainspring.settings import Config, load_config

SINCE = "telemetry.json"
"""The file that says since when there is something to send."""

_LOOK_S = 30.0
_LOCK = "telemetry"


async def keep_telemetry(config: Config, say: Callable[[str], None]) -> None:
    """For as long as the daemon runs. The settings are read anew each time, so that switching it off counts
    at once."""
    while True:
        now = load_config(config.environment, is_config_optional=True)
        try:
            if now.settings.telemetry.otlp_url:
                async with sessions_of(now).lock(_LOCK):
                    await import_module("mainspring.app.telemetry").send_until_changed(now, say)
                continue
            if now.problem is None:
                shared_files(now).remove(SINCE)
        except JournalOwned:
            pass  # another process sends
        except (MainspringError, OSError) as error:
            say(f"telemetry: {error}")
        await asyncio.sleep(_LOOK_S)
