"""The sessions of a store as a team's policy shows them to whoever asks: those of a project that they may
not look at are not there. To write one takes a role that may answer or steer, to delete it one that manages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import BinaryIO

from mainspring.app.team import InForce, person_of
from mainspring.catalog import (
    Day,
    Header,
    Owner,
    SessionRow,
    Sessions,
    SessionSpend,
    match_prefix,
    none_begins_with,
    reading,
)
from mainspring.disk.shared_files import NO_FILES, NamedFiles, SharedFiles
from mainspring.errors import AccessRefused, UnknownSession
from mainspring.events import Origin, SessionStarted
from mainspring.journal import Journal, JournalReader, KnownEvents, Verification, last_event
from mainspring.people.operations import Right
from mainspring.people.persons import Person
from mainspring.people.roles import RIGHTS
from mainspring.secrets.vault import PLACEHOLDER, open_vault
from mainspring.settings import Config


class PermittedSessions(Sessions):
    """`policies` are those in force at the moment, asked anew each time, so that a change counts at once."""

    def __init__(
        self, inner: Sessions, config: Config, policies: Callable[[Config], tuple[InForce, ...]]
    ) -> None:
        self._inner, self._config, self._policies = inner, config, policies

    @property
    def whole(self) -> Sessions:
        """All sessions, for what counts whoever may see it."""
        return self._inner

    async def create(self, session: str | None = None) -> Journal:
        return await self._inner.create(session)

    async def open(self, session: str) -> Journal:
        await self.require(session, "approve")
        return await self._inner.open(session)

    async def delete(self, session: str, *, last_seq: int | None = None, also: Collection[str] = ()) -> bool:
        await self.require(session, "manage")
        return await self._inner.delete(session, last_seq=last_seq, also=also)

    async def accept(self, session: str) -> Verification:
        await self.require(session, "manage")
        return await self._inner.accept(session)

    async def read(self, session: str) -> JournalReader:
        await self.require(session, "see")
        return await self._inner.read(session)

    async def find(self, prefix: str) -> str:
        if await self._sees_everything():
            return await self._inner.find(prefix)
        with suppress(UnknownSession):  # a new one is in no list yet
            if await self._inner.find(prefix) == prefix:
                await self.require(prefix, "see")
                return prefix
        return match_prefix(prefix, await self.names())

    async def names(self) -> list[str]:
        if await self._sees_everything():
            return await self._inner.names()
        return [row.id for row in await self.rows()]

    async def rows(self) -> list[SessionRow]:
        rows = await self._inner.rows()
        return rows if await self._sees_everything() else self._visible(rows, await self._now())

    async def spends(self) -> list[SessionSpend]:
        spends = await self._inner.spends()
        if await self._sees_everything():
            return spends
        seen = {row.id for row in await self.rows()}
        return [each for each in spends if each.id in seen]

    async def owner(self, session: str) -> Owner | None:
        return await self._inner.owner(session)

    def lock(self, name: str) -> AbstractAsyncContextManager[None]:
        return self._inner.lock(name)

    async def lock_owner(self, name: str) -> Owner | None:
        return await self._inner.lock_owner(name)

    def today(self) -> Day:
        return self._inner.today()

    async def fork(
        self,
        session: str,
        *,
        at: int | None = None,
        workspace: str = "",
        origin: Origin | None = None,
        is_repaired: bool = False,
        files: NamedFiles = NO_FILES,
    ) -> tuple[str, int]:
        await self.require(session, "see")
        return await self._inner.fork(
            session, at=at, workspace=workspace, origin=origin, is_repaired=is_repaired, files=files
        )

    async def compose(
        self, events_of: KnownEvents, *, session: str | None = None, files: NamedFiles = NO_FILES
    ) -> str:
        return await self._inner.compose(events_of, session=session, files=files)

    async def export(
        self,
        session: str,
        to: BinaryIO,
        *,
        blobs_beside: Path | None = None,
        readable_only: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> Header:
        await self.require(session, "see")
        return await self._inner.export(
            session, to, blobs_beside=blobs_beside, readable_only=readable_only, environment=environment
        )

    async def import_lines(
        self, lines: Iterable[bytes], *, blobs_beside: Path | None = None, files: NamedFiles = NO_FILES
    ) -> str:
        return await self._inner.import_lines(lines, blobs_beside=blobs_beside, files=files)

    def directory(self, session: str) -> Path:
        return self._inner.directory(session)

    def files(self, session: str) -> SharedFiles:
        return self._inner.files(session)

    def secret_files(self, session: str) -> SharedFiles:
        return self._inner.secret_files(session)

    @property
    def _person(self) -> Person:
        return person_of(self._config)

    async def _now(self) -> tuple[InForce, ...]:
        return await asyncio.to_thread(self._policies, self._config)

    async def _sees_everything(self) -> bool:
        person = self._person
        return all(each.policy.sees_everything(person) for each in await self._now())

    def _visible(self, rows: Iterable[SessionRow], policies: tuple[InForce, ...]) -> list[SessionRow]:
        def is_seen(row: SessionRow) -> bool:
            return self._may(project_folder(row, self._inner, self._config), "see", policies)

        return list(filter(is_seen, rows))

    async def require(self, session: str, right: Right) -> None:
        """Raises for a session about which whoever asks may not do this: as for one that does not exist, when
        they may not even see it."""
        if not (policies := await self._now()):
            return
        folder = await self.folder_of(session)
        if folder is None or self._may(folder, right, policies):
            return
        if not self._may(folder, "see", policies):
            raise none_begins_with(session)
        raise AccessRefused(
            f"{self._person.name} may not change session {session} of {folder}.",
            remedy="Ask an admin.",
            rule=policies[0].name,
        )

    def _may(self, folder: str, right: Right, policies: tuple[InForce, ...]) -> bool:
        for each in policies:
            role, _ = each.policy.role_of(self._person, each.policy.project_of(folder))
            if role is None or right not in RIGHTS[role]:
                return False
        return True

    async def folder_named(self, prefix: str) -> str | None:
        """Where the session works whose id begins so, whoever may see it."""
        return await self.folder_of(await self._inner.find(prefix))

    async def folder_of(self, session: str) -> str | None:
        """The folder that the work of a session is about; None when nothing is in it yet."""
        async with reading(self._inner, session) as journal:
            started = await last_event(journal, SessionStarted)
        if started is None:
            return None
        return _expanded(session, started.project or started.workspace, self._inner, self._config)


def project_folder(row: SessionRow, store: Sessions, config: Config) -> str:
    """The folder that the work of a listed session is about; lists have it without secrets."""
    return _expanded(row.id, row.folder, store, config)


def _expanded(session: str, folder: str, store: Sessions, config: Config) -> str:
    if not PLACEHOLDER.search(folder):
        return folder
    return open_vault(store.secret_files(session), config.secrets).expand(folder)
