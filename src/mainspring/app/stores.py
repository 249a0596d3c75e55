"""Where sessions and the records of commands are kept: the only place that names the class of the store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from mainspring.app.team import InForce, may_have_policy, permission_in, person_of, policies_in, sees
from mainspring.catalog import Sessions, WorkQueue
from mainspring.catalog.sqlite import SqliteSessions
from mainspring.disk.log import log
from mainspring.disk.shared_files import LocalFiles, SharedFiles
from mainspring.errors import AccessRefused, UsageError
from mainspring.journal.chained_log import ChainedLog, ChainedLogFile
from mainspring.people.operations import Right
from mainspring.settings import Config

if TYPE_CHECKING:
    from mainspring.app.permitted_sessions import PermittedSessions
    from mainspring.catalog.salvage import Salvaged
    from mainspring.daemon.scheduled import QueuedGoals

_PERMITTED = "mainspring.app.permitted_sessions"
_SEALED = "mainspring.secrets.sealed_files"
_COMMANDS = "steps"
_EXTRAS = {
    "asyncpg": ("Keeping sessions in Postgres", "cluster"),
    "temporalio": ("Work given out by Temporal ([temporal] in config.toml)", "temporal"),
}


class TemporalPlace(Protocol):
    """A Temporal server."""

    async def is_ready(self) -> bool:
        """Whether its page can show our states; `MainspringError` when it cannot be used."""
        ...


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
    """The sessions of the database that the settings name, or of the data folder; where a team's policy may
    be in force, those that it lets whoever asks see."""
    return _permitted(config) or _all_sessions(config)


def _all_sessions(config: Config) -> Sessions:
    return shared_sessions(config, config.store_url) if config.store_url else local_sessions(config)


def _permitted(config: Config) -> PermittedSessions | None:
    if not may_have_policy(config):
        return None
    return import_module(_PERMITTED).PermittedSessions(_all_sessions(config), config, team_policies)


def team_policies(config: Config) -> tuple[InForce, ...]:
    """The policies of a team that are in force."""
    if not may_have_policy(config):
        return ()
    return policies_in(config, shared_files(config) if config.store_url else None)


def local_sessions(config: Config) -> Sessions:
    """The sessions in files of this machine."""
    return SqliteSessions(config.home, daily=config.daily_anchor)


def shared_sessions(config: Config, url: str) -> Sessions:
    """The sessions in a database that machines share."""
    return _module("catalog.postgres").PostgresSessions(
        _address(config, url), config.home / "shared", _seal(config)
    )


def shared_files(config: Config) -> SharedFiles:
    """The small files that belong to no session: of all machines that share the database, or of this one."""
    if not config.store_url:
        return LocalFiles(config.home)
    return _module("journal.postgres.files").PostgresFiles(_address(config, config.store_url))


async def folders_seen(config: Config) -> Callable[[str], bool]:
    """Whether whoever asks may look at what is in a folder, as the policies are now."""
    policies = await asyncio.to_thread(team_policies, config)
    return partial(sees, policies, person_of(config))


def check_folder(config: Config, folder: str, operation: str) -> None:
    """Raises `AccessRefused` when whoever asks may not do this in a folder."""
    said = permission_in(team_policies(config), person_of(config), operation, folder)
    if said is not None and not said.is_allowed:
        raise AccessRefused(said.reason, remedy=said.remedy, rule=said.rule)


async def check_sees_everything(config: Config, what: str) -> None:
    """Raises `AccessRefused` when there is a project that whoever asks may not look at."""
    policies, person = await asyncio.to_thread(team_policies, config), person_of(config)
    for each in policies:
        if not each.policy.sees_everything(person):
            raise AccessRefused(
                f"{what} about all projects, and {person.name} may not look at every one.",
                remedy="An admin gives them a role, such as viewer, wherever nothing else is said and in each"
                " closed project.",
                rule=each.name,
            )


async def check_right(config: Config, session: str, right: Right) -> None:
    """Raises `AccessRefused` when whoever asks may not do this to a session."""
    if store := _permitted(config):
        await store.require(session, right)


async def session_folder_of(config: Config, session: str) -> str:
    """Where a session works whose id begins so; empty when nothing is known of one."""
    store = _permitted(config)
    return await store.folder_named(session) or "" if store else ""


def check_shared(config: Config) -> None:
    """Raises `UsageError` when sessions are kept in files of this machine, of which no worker knows."""
    if not config.store_url:
        raise UsageError(
            "Workers and queues need a store that machines share.",
            remedy="Name a database: mainspring config set store.url postgresql://user@host:5432/database",
        )


@asynccontextmanager
async def work_queue(config: Config) -> AsyncGenerator[WorkQueue]:
    """The work that machines share; `UsageError` when sessions are kept in files of this machine."""
    check_shared(config)
    queue = _module("catalog.postgres_queue").PostgresQueue(shared_sessions(config, config.store_url))
    try:
        yield queue
    finally:
        await queue.close()


@asynccontextmanager
async def dispatched_queue(config: Config, say: Callable[[str], None] = log) -> AsyncGenerator[WorkQueue]:
    """The same for whoever adds to it or takes from it; Temporal gives it out when the settings name one."""
    async with work_queue(config) as queue:
        if not config.settings.temporal.address:
            yield queue
            return
        temporal = _module("daemon.temporal")
        yield temporal.TemporalQueue(queue, temporal.TemporalServer(config, say))


def check_dispatch(config: Config) -> None:
    """Raises `UsageError` when work cannot be left to workers here, before there is any."""
    if config.store_url and config.settings.temporal.address:
        _module("daemon.temporal")


def temporal_server(config: Config) -> TemporalPlace:
    """The Temporal server that the settings name."""
    return _module("daemon.temporal").TemporalServer(config, log)


def temporal_schedules(
    config: Config, dispatched: Any, scheduled: QueuedGoals
) -> Callable[[], Coroutine[Any, Any, None]]:
    """What has the Temporal that gives a queue out (`dispatched_queue`) keep what is scheduled for it."""
    schedules = _module("daemon.temporal_schedules").TemporalSchedules
    return schedules(dispatched.server, scheduled, config.zone).keep


def tables_of(config: Config, url: str) -> Tables:
    """The tables of such a database."""
    return _module("journal.postgres.schema").PostgresTables(_address(config, url))


def salvage(
    lines: Iterable[bytes], to: BinaryIO, folder: Path, *, workspace: str, beside: Path | None
) -> Salvaged:
    """What is whole in a damaged export, as another one."""
    return _module("catalog.salvage").salvage(lines, to, folder, workspace=workspace, beside=beside)


def commands_of(config: Config) -> Sessions:
    """The records of commands that were run without an agent. They lie apart from sessions, so that neither
    list shows the other; and always on this machine, on which they were run."""
    return SqliteSessions(config.home / _COMMANDS)


def audit_log_of(config: Config) -> ChainedLog:
    """The log of commands."""
    return ChainedLogFile(config.home / "audit")


def store_key(config: Config) -> str:
    """The key for secrets in the database; empty when this machine has none."""
    sealed = import_module(_SEALED)
    return sealed.find_key(config.folder, config.variable(sealed.KEY_VARIABLE))


def _seal(config: Config) -> Callable[[SharedFiles], SharedFiles] | None:
    key = store_key(config)
    return partial(import_module(_SEALED).SealedFiles, key=key) if key else None


def _address(config: Config, url: str) -> Any:
    return _module("journal.postgres.connection").StoreAddress(url, config.settings.store.lease_s)


def _module(name: str) -> Any:
    try:
        return import_module(f"mainspring.{name}")
    except ModuleNotFoundError as error:
        what, extra = _EXTRAS.get(error.name or "", ("", ""))
        if not extra:
            raise
        raise UsageError(
            f"{what} needs the package {error.name}.", remedy=f"pip install 'mainspring[{extra}]'"
        ) from error
