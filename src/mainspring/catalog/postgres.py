"""The sessions of a Postgres database that machines share, as the port `Sessions` describes them.

Journals, ownership, locks and the critical section of the day are in the database; files beside a journal
are in a folder of this machine. Each call has a connection of its own, so nothing is left open.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import (
    AsyncGenerator,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import msgspec

from mainspring.catalog.compose import composed
from mainspring.catalog.day import spent_today
from mainspring.catalog.fold import SessionFold, SessionRow, advance, row_of
from mainspring.catalog.folder import exists, unknown, valid_id
from mainspring.catalog.fork import changed_start, copied, shared_events
from mainspring.catalog.index import fold_version
from mainspring.catalog.postgres_making import CREATE, Item, make_session
from mainspring.catalog.prefixes import match_prefix
from mainspring.catalog.spent import SessionSpend, Spent
from mainspring.catalog.waited_events import WaitedEvents
from mainspring.disk.files import make_folder
from mainspring.disk.ids import new_id
from mainspring.disk.owner import Owner
from mainspring.disk.shared_files import NO_FILES, LocalFiles, NamedFiles, SharedFiles
from mainspring.errors import JournalError, JournalOwned
from mainspring.events import Origin
from mainspring.journal import KnownEvents, Verification, hashchain
from mainspring.journal.lines import Header, read_header, read_lines, write_journal
from mainspring.journal.postgres import leases
from mainspring.journal.postgres.connection import StoreAddress, StoreConnection
from mainspring.journal.postgres.files import REMOVE_ALL, PostgresFiles, span
from mainspring.journal.postgres.journal import PostgresJournal, open_journal
from mainspring.journal.postgres.reader import PostgresEvents, PostgresReader, stored_events
from mainspring.journal.postgres.schema import when_ready
from mainspring.journal.stored import Row
from mainspring.journal.verification import check, damaged, not_writable

_T = TypeVar("_T")

_EXISTS = "SELECT EXISTS (SELECT 1 FROM mainspring.sessions WHERE id = $1)"
_LAST_SEQ = "SELECT last_seq FROM mainspring.sessions WHERE id = $1 FOR UPDATE"
_IS_FORKED = """
SELECT EXISTS (
    SELECT 1 FROM mainspring.sessions JOIN mainspring.events ON session = id AND seq = 1
    WHERE id <> ALL ($1::text[]) AND position($2::bytea IN body) > 0
)
"""
_DELETE = "DELETE FROM mainspring.sessions WHERE id = $1"
_FORGET_LEASE = "DELETE FROM mainspring.leases WHERE name = $1 AND epoch = $2"
_NAMES = "SELECT id FROM mainspring.sessions ORDER BY changed DESC, id DESC"
_ACCEPT = """
UPDATE mainspring.sessions SET anchor_seq = $2, anchor_head = $3, last_seq = $2, head = $3 WHERE id = $1
"""
_LISTED = """
SELECT id, last_seq, fold.known, lease.epoch, lease.owner, lease.until > clock_timestamp()
FROM mainspring.sessions
LEFT JOIN mainspring.folds AS fold ON fold.session = id AND fold.version = $1
LEFT JOIN mainspring.leases AS lease ON lease.name = 'session/' || id
WHERE $2::text[] IS NULL OR id = ANY($2)
"""
_KEEP_FOLD = """
INSERT INTO mainspring.folds SELECT id, $2, $3 FROM mainspring.sessions WHERE id = $1
ON CONFLICT (session, version) DO UPDATE SET known = excluded.known
"""
_DAY = "day"
_TRY_AGAIN_S = 0.02


class _Listed(msgspec.Struct, frozen=True):
    """A session as the list needs it."""

    fold: SessionFold
    is_owned: bool
    problem: str = ""


class _Today:
    def __init__(self, sessions: PostgresSessions) -> None:
        self._sessions = sessions

    @asynccontextmanager
    async def held(self) -> AsyncGenerator[Spent]:
        async with AsyncExitStack() as stack:
            while True:
                try:
                    epoch = await stack.enter_async_context(self._sessions.leased(_DAY))
                    break
                except JournalOwned:  # the holder is another process, or another task of this one
                    await asyncio.sleep(_TRY_AGAIN_S)
            yield spent_today(await self._sessions.spends())
            async with self._sessions.connected() as connection:
                await connection.use(lambda c: leases.require_day(c, _DAY, epoch))


class PostgresSessions:
    """The sessions of one database. `home` is where the folders beside their journals are made; `seal`
    encrypts what may not be read in the database, and without it that stays in those folders."""

    def __init__(
        self,
        address: StoreAddress,
        home: Path,
        seal: Callable[[SharedFiles], SharedFiles] | None = None,
    ) -> None:
        self.address = address
        self._folder = home / "sessions"
        self._seal = seal

    @asynccontextmanager
    async def connected(self) -> AsyncGenerator[StoreConnection]:
        connection = StoreConnection(self.address)
        try:
            yield connection
        finally:
            await connection.close()

    async def create(self, session: str | None = None) -> PostgresJournal:
        name = new_id() if session is None else valid_id(session)
        if not await self._ask(when_ready(lambda c: c.fetchval(CREATE, name, hashchain.GENESIS))):
            raise exists(name, "Delete it first, to import it again.")
        return await self.open(name)

    async def open(self, session: str) -> PostgresJournal:
        await self._require(session)
        connection = StoreConnection(self.address)
        try:
            return await open_journal(session, connection)
        except BaseException:
            await connection.close()
            raise

    async def delete(self, session: str, *, last_seq: int | None = None, also: Collection[str] = ()) -> bool:
        await self._require(session)
        going = [session, *also]
        async with self.leased(leases.of_session(session), shown=session) as epoch:
            if not await self._ask(partial(_removed, session, epoch, last_seq, going)):
                return False
            await self._ask(lambda c: c.execute(REMOVE_ALL, *span(f"sessions/{session}")))
            await asyncio.to_thread(shutil.rmtree, self._folder / session, ignore_errors=True)
        await self._ask(lambda c: c.execute(_FORGET_LEASE, leases.of_session(session), epoch))
        return True

    async def accept(self, session: str) -> Verification:
        await self._require(session)
        async with self.leased(leases.of_session(session), shown=session) as epoch:
            async with self._stored(session) as stored:
                verdict = await asyncio.to_thread(check, stored)
            if verdict.problem:
                raise not_writable(session, verdict)
            head = bytes.fromhex(verdict.head)
            await self._ask(leases.fenced(session, epoch, _ACCEPT, verdict.events, head))
        return msgspec.structs.replace(verdict, anchored_seq=verdict.events)

    async def read(self, session: str) -> PostgresReader:
        await self._require(session)
        return PostgresReader(session, StoreConnection(self.address))

    async def find(self, prefix: str) -> str:
        valid_id(prefix)
        names = await self.names()
        found = prefix if prefix in names else match_prefix(prefix, names)
        self._made_folder(found)
        return found

    async def names(self) -> list[str]:
        return [name for (name,) in await self._ask(lambda c: c.fetch(_NAMES))]

    async def rows(self) -> list[SessionRow]:
        return await self.rows_of(None)

    async def rows_of(self, names: Sequence[str] | None) -> list[SessionRow]:
        """Those of some sessions; of all without names."""
        rows = [
            row_of(name, each.fold, problem=each.problem, is_owned=partial(bool, each.is_owned))
            for name, each in (await self._listed(names)).items()
        ]
        return sorted(rows, key=lambda row: (row.updated_us, row.id), reverse=True)

    async def spends(self) -> list[SessionSpend]:
        listed = await self._listed()
        return [SessionSpend(name, each.fold.spent(), each.problem) for name, each in listed.items()]

    async def owner(self, session: str) -> Owner | None:
        await self._require(session)
        return await self._ask(lambda c: leases.look(c, leases.of_session(session)))

    @asynccontextmanager
    async def lock(self, name: str, *, shown: str = "") -> AsyncGenerator[None]:
        async with self.leased(name, shown=shown):
            yield

    @asynccontextmanager
    async def leased(self, name: str, *, shown: str = "") -> AsyncGenerator[int]:
        """Has a lock until the end of a block, by the number that a statement can check."""
        mine, lease_s = leases.record(), self.address.lease_s
        async with self.connected() as connection:
            epoch = await connection.use(
                lambda c: leases.take(c, name, lease_s, mine=mine, shown=shown or name)
            )
            renewing = asyncio.create_task(leases.keep_renewed(connection, name, epoch))
            try:
                yield epoch
            finally:
                renewing.cancel()
                await asyncio.wait([renewing])
                await connection.use(lambda c: c.execute(leases.GIVE_BACK, name, epoch))

    async def lock_owner(self, name: str) -> Owner | None:
        return await self._ask(lambda c: leases.look(c, name))

    def today(self) -> _Today:
        return _Today(self)

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
        async with self._stored(session) as stored:
            verdict = await asyncio.to_thread(stored.verdict)
            if verdict.problem and not is_repaired and (at is None or at > verdict.events):
                raise damaged(session, verdict)
            events = stored.end.events if is_repaired else verdict.events
            until, name = shared_events(session, events, at), new_id()
            changes = changed_start(name, session, until, workspace, origin)
            items = copied(stored, changes, until, is_repaired=is_repaired)
            await self._make(name, items, files, copied_from=session)
        return name, until

    async def compose(
        self, events_of: KnownEvents, *, session: str | None = None, files: NamedFiles = NO_FILES
    ) -> str:
        name = new_id() if session is None else valid_id(session)
        if await self._ask(lambda c: c.fetchval(_EXISTS, name)):
            raise exists(name, "Delete it first, to import it again.")
        directory = self._made_folder(name)
        blobs: dict[str, bytes] = {}

        def items() -> Iterator[tuple[str, bytes] | Row]:
            for row in composed(events_of(name, directory), blobs.__setitem__):
                yield from blobs.items()
                blobs.clear()
                yield row

        try:
            await self._make(name, items(), files)
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise
        return name

    async def export(
        self,
        session: str,
        to: BinaryIO,
        *,
        blobs_beside: Path | None = None,
        readable_only: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> Header:
        async with self._stored(session) as stored:
            return await asyncio.to_thread(
                write_journal,
                to,
                session,
                stored,
                stored.end,
                blobs_beside=blobs_beside,
                readable_only=readable_only,
                environment=environment,
            )

    async def import_lines(
        self, lines: Iterable[bytes], *, blobs_beside: Path | None = None, files: NamedFiles = NO_FILES
    ) -> str:
        rest = iter(lines)
        name = valid_id((header := read_header(next(rest, b""))).session)
        await self._make(name, read_lines(header, rest, blobs_beside), files)
        return name

    def directory(self, session: str) -> Path:
        directory = self._folder / valid_id(session)
        if not directory.is_dir():
            raise unknown(session)
        return directory

    def files(self, session: str) -> PostgresFiles:
        return PostgresFiles(self.address, f"sessions/{valid_id(session)}")

    def secret_files(self, session: str) -> SharedFiles:
        return self._seal(self.files(session)) if self._seal else LocalFiles(self.directory(session))

    async def _ask(self, do: Callable[[Any], Coroutine[Any, Any, _T]]) -> _T:
        async with self.connected() as connection:
            return await connection.use(do)

    @asynccontextmanager
    async def _stored(self, session: str) -> AsyncGenerator[PostgresEvents]:
        await self._require(session)
        async with self.connected() as connection, stored_events(connection, session) as stored:
            if not stored.is_known:
                raise unknown(session)
            yield stored

    async def _require(self, session: str) -> None:
        """Refuses a session that does not exist; one that does gets its folder on this machine."""
        valid_id(session)
        if not await self._ask(lambda c: c.fetchval(_EXISTS, session)):
            raise unknown(session)
        self._made_folder(session)

    def _made_folder(self, session: str) -> Path:
        directory = self._folder / session
        for folder in (self._folder.parent, self._folder, directory):
            make_folder(folder)
        return directory

    async def _make(
        self, name: str, items: Iterator[Item], files: NamedFiles, *, copied_from: str = ""
    ) -> None:
        async with self.connected() as connection, connection.held() as held, held.transaction():
            await make_session(held, name, items, files, copied_from=copied_from)
        self._made_folder(name)

    async def _listed(self, names: Sequence[str] | None = None) -> dict[str, _Listed]:
        version, wanted = fold_version(), None if names is None else list(names)
        if wanted == []:
            return {}
        async with self.connected() as connection:
            found = await connection.use(lambda c: c.fetch(_LISTED, version, wanted))
            return {
                name: await self._current(connection, name, last_seq, known, leases.owner_in(lease))
                for name, last_seq, known, *lease in found
            }

    async def _current(
        self, connection: StoreConnection, name: str, last_seq: int, known: bytes | None, owner: Owner | None
    ) -> _Listed:
        fold, is_owned = _decoded(known), owner is not None and owner.is_alive
        if fold is not None and fold.seq == last_seq:
            return _Listed(fold, is_owned)
        source = WaitedEvents(PostgresReader(name, connection), asyncio.get_running_loop())
        try:
            fold = await asyncio.to_thread(advance, fold or SessionFold(), source)
        except JournalError as error:
            return _Listed(fold or SessionFold(), is_owned, error.message)
        await connection.use(lambda c: c.execute(_KEEP_FOLD, name, fold_version(), _ENCODE(fold)))
        return _Listed(fold, is_owned)


async def _removed(
    session: str, epoch: int, last_seq: int | None, going: Sequence[str], connection: Any
) -> bool:
    await leases.require(connection, session, epoch)
    found = await connection.fetchval(_LAST_SEQ, session)
    if found is None:  # it was done, and the answer was lost
        return True
    named = f'"parent":"{session}"'.encode()
    if last_seq not in (None, found) or await connection.fetchval(_IS_FORKED, going, named):
        return False
    await connection.execute(_DELETE, session)
    return True


_ENCODE = msgspec.json.Encoder().encode


def _decoded(known: bytes | None) -> SessionFold | None:
    """What is kept of a session; nothing when another version of this program kept something else."""
    if known is None:
        return None
    try:
        return msgspec.json.decode(known, type=SessionFold)
    except msgspec.MsgspecError:
        return None
