"""Where sessions and the records of commands are kept: the only place that names the class of the store."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Protocol

from mainspring.catalog import Sessions
from mainspring.catalog.sqlite import SqliteSessions
from mainspring.errors import UsageError
from mainspring.settings import Config

_COMMANDS = "steps"


class Tables(Protocol):
    """The tables of a database, which have a version."""

    @property
    def shown(self) -> str:
        """Its address, without a password."""
        ...

    async def migrate(self) -> tuple[int, int]:
        """Brings them to the version of this program; gives the version before and after."""
        ...

    async def ready_version(self) -> int:
        """Their version, if this program works with it."""
        ...


def sessions_of(config: Config) -> Sessions:
    """The sessions of the database that the settings name, or of the data folder."""
    return shared_sessions(config, config.store_url) if config.store_url else local_sessions(config)


def local_sessions(config: Config) -> Sessions:
    """The sessions in files of this machine."""
    return SqliteSessions(config.home, daily=config.daily_anchor)


def shared_sessions(config: Config, url: str) -> Sessions:
    """The sessions in a database that machines share."""
    return _module("catalog.postgres").PostgresSessions(_address(config, url), config.home / "shared")


def tables_of(config: Config, url: str) -> Tables:
    """The tables of such a database."""
    return _module("journal.postgres.schema").PostgresTables(_address(config, url))


def commands_of(config: Config) -> Sessions:
    """The records of commands that were run without an agent. They lie apart from sessions, so that neither
    list shows the other; and always on this machine, on which they were run."""
    return SqliteSessions(config.home / _COMMANDS)


def _address(config: Config, url: str) -> Any:
    return _module("journal.postgres.connection").StoreAddress(url, config.settings.store.lease_s)


def _module(name: str) -> Any:
    try:
        return import_module(f"mainspring.{name}")
    except ModuleNotFoundError as error:
        if error.name != "asyncpg":
            raise
        raise UsageError(
            "Sessions in Postgres need the package asyncpg.", remedy="pip install 'mainspring[cluster]'"
        ) from error
