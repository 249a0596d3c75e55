"""Where sessions and steps are kept: the one place that names the class of their store."""

from __future__ import annotations

from mainspring.config import Config
from mainspring.journal.store import Store


def sessions_of(config: Config) -> Store:
    return Store(config.home)


def steps_of(config: Config) -> Store:
    """Steps lie apart from sessions, so that neither list shows the other."""
    from mainspring.steps import steps_home  # noqa: PLC0415 - loads the sandbox, which sessions do not need

    return Store(steps_home(config.home))
