"""Where sessions and the records of commands are kept: the only place that names the class of the store."""

from __future__ import annotations

from mainspring.catalog import Sessions
from mainspring.catalog.sqlite import SqliteSessions
from mainspring.settings import Config

_COMMANDS = "steps"


def sessions_of(config: Config) -> Sessions:
    """The sessions of the data folder that the settings name."""
    return SqliteSessions(config.home, daily=config.daily_anchor)


def commands_of(config: Config) -> Sessions:
    """The records of commands that were run without an agent. They lie apart from sessions, so that neither
    list shows the other."""
    return SqliteSessions(config.home / _COMMANDS)
