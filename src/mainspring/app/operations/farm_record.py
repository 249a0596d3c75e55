"""A farm as its journal has it, for who only looks."""

from __future__ import annotations

from mainspring.app.operations.farm import Farm, load_farm
from mainspring.app.operations.sessions import journal_of
from mainspring.context.history import read_all
from mainspring.events import AttemptsStarted
from mainspring.secrets.vault import Vault
from mainspring.settings import Config


async def farm_of(config: Config, session: str) -> Farm | None:
    """The farm that a session is; None for any other session."""
    async with journal_of(config, session) as journal:
        started = [item.event for item in await read_all(journal, kinds=("AttemptsStarted",))]
        if not any(isinstance(event, AttemptsStarted) and event.base for event in started):
            return None
        return await load_farm(journal, Vault())  # knows no secrets, so they stay hidden
