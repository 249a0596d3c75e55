"""Sessions as files that can be taken elsewhere, and whether a journal is sound."""

from __future__ import annotations

import platform
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import BinaryIO

import msgspec

from mainspring import __version__
from mainspring.app.operations.sessions import journal_of
from mainspring.app.records import vault_of
from mainspring.app.stores import sessions_of
from mainspring.catalog import Header, Sessions
from mainspring.events import Blob, ModelChosen, Recorded, SessionStarted
from mainspring.journal import JournalReader, Verification, events_in, last_event
from mainspring.settings import Config
from mainspring.workspace.git import Git


class ExportFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What stands at the head of a document about a session. Zero and empty when nothing is recorded."""

    session: str
    events: int = 0
    until_us: int = 0
    started_us: int = 0
    workspace: str = ""
    model: str = ""


class Export:
    """A session that is being written down, as long as its journal is open. `environment` says where: enough
    to tell whether a difference may come from there."""

    def __init__(self, sessions: Sessions, reader: JournalReader, facts: ExportFacts, config: Config) -> None:
        self._sessions, self._reader = sessions, reader
        self.facts = facts
        self.environment = _environment(facts, config)

    async def write(self, to: BinaryIO, *, blobs: Path | None = None, readable_only: bool = False) -> Header:
        """The whole session as JSON lines, which can be imported; its blobs in a folder if one is given."""
        return await self._sessions.export(
            self._reader.session,
            to,
            blobs_beside=blobs,
            readable_only=readable_only,
            environment=self.environment,
        )

    def events(self) -> AsyncGenerator[Recorded]:
        return events_in(self._reader)

    async def get(self, blob: Blob) -> bytes:
        return await self._reader.get(blob)


@asynccontextmanager
async def exporting(config: Config, session: str) -> AsyncGenerator[Export]:
    async with journal_of(config, session) as reader:
        yield Export(sessions_of(config), reader, await _facts(reader), config)


async def verify_session(config: Config, session: str) -> Verification:
    """Checks the hash chain and every blob."""
    async with journal_of(config, session) as reader:
        return await reader.verify()


async def accept_session(config: Config, session: str) -> Verification:
    """Anchors the journal of a session as it is, after a person restored an older copy; its chain must be
    sound."""
    store = sessions_of(config)
    return await store.accept(await store.find(session))


async def _facts(reader: JournalReader) -> ExportFacts:
    started, model = await reader.last("SessionStarted"), await last_event(reader, ModelChosen)
    last = await reader.last()
    begun = started.event if started and isinstance(started.event, SessionStarted) else None
    return ExportFacts(
        session=reader.session,
        events=last.seq if last else 0,
        until_us=last.time_us if last else 0,
        started_us=started.time_us if started and begun else 0,
        workspace=begun.workspace if begun else "",
        model=model.model if model else "",
    )


def _environment(facts: ExportFacts, config: Config) -> Mapping[str, str]:
    found = {
        "mainspring": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
    }
    if facts.workspace:
        vault = vault_of(sessions_of(config), facts.session, config)
        folder = Path(vault.expand(facts.workspace))
        git = Git(folder, config.environment)
        if folder.is_dir() and (commit := git.text("rev-parse", "--verify", "HEAD", check=False)):
            found["commit"] = commit
    return found
