"""Where sessions are kept: the only place that names the implementation of the port `Sessions`."""

from __future__ import annotations

from mainspring.catalog import Sessions
from mainspring.config import Config
from mainspring.journal.store import Store
from mainspring.steps import steps_home


def sessions_of(config: Config) -> Sessions:
    """The sessions of the data folder that the settings name."""
    return Store(config.home)


def steps_of(config: Config) -> Sessions:
    """The records of commands that were run without an agent, which no list of sessions shows."""
    return Store(steps_home(config.home))
