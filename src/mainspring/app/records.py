"""Opens sessions for writing: a journal always together with the vault of its session.

`recording` is how a command writes to a session that nobody runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from importlib import import_module
from pathlib import Path

from mainspring import __version__
from mainspring.app.dispatch import log_recorded
from mainspring.app.imported import note_of_fork
from mainspring.app.stores import sessions_of
from mainspring.catalog import SessionRow, Sessions
from mainspring.disk.shared_files import NO_FILES, LocalFiles, NamedFiles, SharedFiles
from mainspring.events import Event, Origin, SessionStarted
from mainspring.journal import Journal
from mainspring.secrets.recorder import Recorder, hide_secrets
from mainspring.secrets.redaction import redacted
from mainspring.secrets.vault import PLACEHOLDER, Vault, keep_vault, open_vault
from mainspring.settings import Config


@asynccontextmanager
async def recording(
    session: str, config: Config, sessions: Sessions | None = None
) -> AsyncGenerator[Recorder]:
    """The session whose id begins with `session`, open for writing while a command works on it; raises
    `JournalOwned` when another process runs it."""
    store = sessions or sessions_of(config)
    recorder = await open_recorder(await store.find(session), store, config)
    try:
        yield recorder
    finally:
        await recorder.close()


async def open_recorder(
    session: str, store: Sessions, config: Config, origin: Origin | None = None
) -> Recorder:
    """The recorder of a session; raises `JournalOwned` when another process runs it."""
    return await _with_vault(await store.open(session), store, config, origin)


async def create_recorder(
    store: Sessions, config: Config, origin: Origin | None = None, session: str | None = None
) -> Recorder:
    """The recorder of a new session, of this id if one is given."""
    return await _with_vault(await store.create(session), store, config, origin)


def vault_of(store: Sessions, session: str, config: Config) -> Vault:
    """The secrets of a session, and what stands in for them."""
    return open_vault(store.secret_files(session), config.secrets)


def workspace_of(row: SessionRow, store: Sessions, config: Config) -> str:
    """Where a session works; the list of sessions has it without secrets."""
    if not PLACEHOLDER.search(row.workspace):
        return row.workspace
    return vault_of(store, row.id, config).expand(row.workspace)


async def fork_session(
    session: str,
    config: Config,
    *,
    at: int | None = None,
    workspace: str = "",
    sessions: Sessions | None = None,
    is_repaired: bool = False,
) -> tuple[str, int]:
    """Makes a fork, with the secrets of its history; gives its id and how many events it shares."""
    store = sessions or sessions_of(config)
    parent = await store.find(session)
    vault = vault_of(store, parent, config)
    begun = redacted(
        SessionStarted(session=parent, workspace=workspace, version=__version__, origin=config.origin), vault
    )
    made, shared = await store.fork(
        parent,
        at=at,
        workspace=begun.workspace,
        origin=begun.origin,
        is_repaired=is_repaired,
        files=note_of_fork(store.files(parent), at=at, is_place_named=bool(workspace)),
    )
    if (kept := vault.kept()).secrets:  # in the fork's folder: the parent's belongs to whoever runs that
        keep_vault(store.secret_files(made), kept)
    await asyncio.to_thread(copy_commits, store.secret_files(parent), store.secret_files(made))
    return made, shared


def copy_commits(source: SharedFiles, target: SharedFiles) -> None:
    """The commits that no remote has, without which another machine cannot make the workspace."""
    name = import_module("mainspring.workspace.base_commit").BUNDLE
    if (bundle := source.read(name)) is not None:
        target.write(name, bundle)


async def compose_session(
    events_of: Callable[[str], Iterable[tuple[int, Event]]], config: Config, files: NamedFiles = NO_FILES
) -> str:
    """Makes a session of events that another program told, each with its time in microseconds; they are given
    for the session's id, which is returned. `files` stand beside it."""

    vault: Vault | None = None

    def hidden(session: str, folder: Path) -> Iterator[tuple[int, Event]]:
        nonlocal vault
        vault = open_vault(LocalFiles(folder), config.secrets)
        for time_us, event in events_of(session):
            for each in hide_secrets([event], vault):
                yield time_us, each

    store = sessions_of(config)
    made = await store.compose(hidden, files=files)
    if vault is not None and (kept := vault.kept()).secrets:
        keep_vault(store.secret_files(made), kept)
    return made


async def _with_vault(journal: Journal, store: Sessions, config: Config, origin: Origin | None) -> Recorder:
    try:
        vault = vault_of(store, journal.session, config)
        on_commanded = partial(log_recorded, config, journal.session)
        return Recorder(journal, vault, origin or config.origin, on_commanded)
    except BaseException:
        await journal.close()
        raise
