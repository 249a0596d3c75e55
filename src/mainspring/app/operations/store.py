"""The database that machines share: its tables, whether it is sound, and sessions copied to and from it."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from mainspring.app.imported import note_of_copy
from mainspring.app.records import copy_commits
from mainspring.app.stores import local_sessions, shared_files, shared_sessions, store_key, tables_of
from mainspring.catalog import Sessions, reading, running
from mainspring.errors import ConfigError, JournalError, UsageError
from mainspring.secrets.sealed_files import adopt_key, is_key_wanted, make_key
from mainspring.secrets.vault import keep_vault, open_vault
from mainspring.settings import Config

StoreKey = Literal["here", "none yet", "missing", "another"]
"""Whether this machine has the key with which secrets are encrypted in the store."""
LOCAL = "local"
"""The files of this machine, as a place that sessions are copied from or to."""


class StoreFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a look at the database found. `problems` has a line for each session that is not sound."""

    address: str
    version: int
    round_trip_ms: float
    sessions: int
    events: int
    key: StoreKey
    problems: tuple[str, ...] = ()


class MigratedStore(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the tables, by their version before and after, and of the key; `key_file` when it was
    made just now."""

    address: str
    before: int
    after: int
    key: StoreKey
    key_file: Path | None = None


class Copied(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one session. `detail` says why it was left out, or how many events it has."""

    session: str
    outcome: Literal["copied", "there already", "left out"]
    detail: str


async def migrate_store(config: Config) -> MigratedStore:
    """Brings the tables of the database to this version. The first machine makes a key for secrets."""
    tables = tables_of(config, _configured(config))
    before, after = await tables.migrate()
    key_file = None
    if await asyncio.to_thread(_key, config) == "none yet":
        key_file = None if store_key(config) else make_key(config.folder)
        await asyncio.to_thread(adopt_key, shared_files(config), store_key(config))
    key = await asyncio.to_thread(_key, config)
    return MigratedStore(address=tables.shown, before=before, after=after, key=key, key_file=key_file)


def _key(config: Config) -> StoreKey:
    """How this machine stands to the key of the store."""
    files, key = shared_files(config), store_key(config)
    if is_key_wanted(files):
        return "none yet"
    if not key:
        return "missing"
    try:
        adopt_key(files, key)
    except ConfigError:
        return "another"
    return "here"


async def check_store(config: Config) -> StoreFacts:
    """Looks at the database, and at every journal in it, with all hashes and blobs."""
    url = _configured(config)
    tables, sessions = tables_of(config, url), shared_sessions(config, url)
    version = await tables.ready_version()
    began = time.perf_counter()
    names = await sessions.names()
    round_trip_ms = (time.perf_counter() - began) * 1000
    problems: list[str] = []
    events = 0
    for name in names:
        async with reading(sessions, name) as journal:
            verdict = await journal.verify()
        events += verdict.events
        if verdict.problem:
            problems.append(f"{name}: {verdict.problem}")
    return StoreFacts(
        address=tables.shown,
        version=version,
        round_trip_ms=round_trip_ms,
        sessions=len(names),
        events=events,
        key=await asyncio.to_thread(_key, config),
        problems=tuple(problems),
    )


async def copy_sessions(
    config: Config, names: Sequence[str], *, source: str, target: str
) -> AsyncGenerator[Copied]:
    """Copies sessions, all when none are named, from one place to another, each whole and with the same
    hashes, and the secrets that were hidden in it. They stay where they were."""
    if (source or LOCAL) == (target or config.store_url or LOCAL):
        raise UsageError("Both places are the same.", remedy="Name another one with --from or --to.")
    taken, given = _place(config, source or LOCAL), _place(config, target or _configured(config))
    chosen = [await taken.find(name) for name in names] or sorted(await taken.names())
    for name in chosen:
        yield await _copied(taken, given, name)


async def _copied(taken: Sessions, given: Sessions, name: str) -> Copied:
    if owner := await running(taken, name):
        return Copied(session=name, outcome="left out", detail=f"{owner.name} is running it")
    if name in await given.names():
        return await _compared(taken, given, name)
    with tempfile.TemporaryFile() as lines:
        try:
            header = await taken.export(name, lines)
        except JournalError as error:
            return Copied(session=name, outcome="left out", detail=error.message)
        lines.seek(0)
        await given.import_lines(lines, files=note_of_copy(taken.files(name)))
    secrets = await asyncio.to_thread(open_vault, taken.secret_files(name), {})
    if (kept := secrets.kept()).secrets:
        await asyncio.to_thread(keep_vault, given.secret_files(name), kept)
    await asyncio.to_thread(copy_commits, taken.secret_files(name), given.secret_files(name))
    async with reading(given, name) as journal:
        verdict = await journal.verify()
    if verdict.problem or verdict.head != header.head:
        raise JournalError(
            f"The copy of session {name} is not what was copied: {verdict.problem or 'its hash differs'}.",
            remedy="Delete the copy, and try again.",
        )
    return Copied(session=name, outcome="copied", detail=f"{header.events} events")


async def _compared(taken: Sessions, given: Sessions, name: str) -> Copied:
    """A session that is in both places: the same one, or one that went on in one of them."""
    async with reading(taken, name) as mine, reading(given, name) as theirs:
        here, there = await mine.last_seq(), await theirs.last_seq()
        shared = min(here, there)
        is_same = await mine.chain_hash(shared) == await theirs.chain_hash(shared)
    if not is_same:
        return Copied(session=name, outcome="left out", detail="another session of this id is there")
    if here > there:
        return Copied(session=name, outcome="left out", detail=f"an older copy with {there} events is there")
    return Copied(session=name, outcome="there already", detail=f"{there} events")


def _place(config: Config, place: str) -> Sessions:
    if place == LOCAL:
        return local_sessions(config)
    if not place.startswith(("postgresql://", "postgres://")):
        raise UsageError(
            f"{place!r} is no place for sessions.",
            remedy="Name `local`, or an address like postgresql://user@host:5432/database.",
        )
    return shared_sessions(config, place)


def _configured(config: Config) -> str:
    if not config.store_url:
        raise UsageError(
            "No database is configured.",
            remedy="Set one: mainspring config set store.url postgresql://user@host:5432/database,"
            " or the variable MAINSPRING_STORE.",
        )
    return config.store_url
