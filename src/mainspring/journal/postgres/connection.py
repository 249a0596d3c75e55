"""One connection to the database, made when it is needed and again when it was lost; one use at a time.

Each use is one transaction, so a pooler may give every one another connection of the server. What was lost
with a connection may have been committed or not: who wrote finds out before writing again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

import asyncpg
import msgspec

from mainspring.errors import ConfigError, JournalError, JournalUnreachable, JournalUnwritable

_T = TypeVar("_T")

_CONNECT_S = 10.0
_COMMAND_S = 60.0
_PAUSES_S = (0.0, 0.05, 0.1, 0.2, 0.5, 1.0, 1.0, 2.0, 2.0, 4.0)
"""Before each try. A database that was never reached is given up after the first few."""
_FIRST_TRIES = 4
_SILENT_S = 5.0
"""How long at least a transaction may wait for its next statement; as long as a lease where that is more."""

_LOST = (
    OSError,
    TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # a connection that broke in the middle of an answer
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
    asyncpg.IdleInTransactionSessionTimeoutError,  # this process stood still in the middle of it
)
"""The connection is gone, or none can be had just now: the same may work with another one."""

_AGAIN = (asyncpg.SerializationError, asyncpg.DeadlockDetectedError)


class StoreAddress(msgspec.Struct, frozen=True):
    """Where the database is, and how long the right to write a session lasts unless it is renewed."""

    url: str
    lease_s: float = 15.0

    @property
    def shown(self) -> str:
        """The address without the password."""
        parts = urlsplit(self.url)
        user = f"{parts.username}@" if parts.username else ""
        return f"{parts.scheme}://{user}{parts.netloc.rpartition('@')[2]}{parts.path}"


class StoreConnection:
    def __init__(self, address: StoreAddress) -> None:
        self.address = address
        self._connection: Any = None
        self._was_connected = False
        self._turn = asyncio.Lock()

    async def use(self, do: Callable[[Any], Coroutine[Any, Any, _T]]) -> _T:
        """What `do` gives, in one transaction. It is done again when the connection was lost, so it must be
        something that may be done twice: reading, or a write that looks first. The server ends one for which
        nothing comes any more, so that what it locked does not outlive a machine that stalls or is gone."""
        silent_ms = round(max(self.address.lease_s, _SILENT_S) * 1000)
        begin = (
            "BEGIN ISOLATION LEVEL READ COMMITTED;"
            f" SET LOCAL idle_in_transaction_session_timeout = {silent_ms}"
        )

        async def in_transaction(connection: Any) -> _T:
            await connection.execute(begin)
            try:
                done = await do(connection)
            except asyncio.CancelledError:  # the connection is given up
                raise
            except BaseException:
                await connection.execute("ROLLBACK")
                raise
            await connection.execute("COMMIT")
            return done

        return await self._tried(in_transaction)

    async def tell(self, statement: str) -> int:
        """How many rows a query gives that is a transaction of its own, may be done twice, and has its values
        in its text: that takes one message and its answer, where `use` takes four."""
        return int((await self._tried(lambda c: c.execute(statement))).rpartition(" ")[2])

    async def _tried(self, do: Callable[[Any], Coroutine[Any, Any, _T]]) -> _T:
        problem: BaseException | None = None
        cancelled = _Cancelled()
        for number, pause_s in enumerate(_PAUSES_S):
            if number == _FIRST_TRIES and not self._was_connected:
                break
            await asyncio.sleep(pause_s)
            async with self._turn:
                try:
                    return await do(await self._connected())
                except asyncio.CancelledError:
                    self._abandon()
                    raise
                except asyncpg.DataError:  # nothing is wrong with the connection
                    raise
                except _LOST as error:
                    problem = error
                    await self._drop()
                    cancelled.again(error)
                except _AGAIN as error:
                    problem = error
                except asyncpg.PostgresError as error:
                    raise explained(error, self.address) from error
        raise unreachable(self.address, problem) from problem

    @asynccontextmanager
    async def held(self) -> AsyncGenerator[Any]:
        """The connection itself, for work that goes through many steps; nothing is done again."""
        cancelled = _Cancelled()
        async with self._turn:
            try:
                yield await self._connected()
            except asyncio.CancelledError:
                self._abandon()
                raise
            except _LOST as error:
                await self._drop()
                cancelled.again(error)
                raise unreachable(self.address, error) from error
            except asyncpg.PostgresError as error:
                raise explained(error, self.address) from error

    async def close(self) -> None:
        async with self._turn:
            await self._drop()

    async def _connected(self) -> Any:
        if self._connection is None or self._connection.is_closed():
            self._connection = await connected_to(self.address)
            self._was_connected = True
        return self._connection

    def _abandon(self) -> None:
        """Who was cancelled may have left a transaction open that nobody would end: what is done after it on
        the same connection would look as if it were kept, and be lost."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and not connection.is_closed():
            try:
                await asyncio.wait_for(connection.close(), _CONNECT_S)
            except _LOST:
                connection.terminate()


class _Cancelled:
    """Whether the task that runs now was cancelled meanwhile. When a connection is lost as well, what is
    raised is that its transaction could not be rolled back; the task must end all the same."""

    def __init__(self) -> None:
        self._task = asyncio.current_task()
        self._before = self._task.cancelling() if self._task else 0

    def again(self, error: BaseException) -> None:
        if self._task is not None and self._task.cancelling() > self._before:
            raise asyncio.CancelledError from error


async def connected_to(address: StoreAddress) -> Any:
    """A new connection, without statements that the server would have to remember."""
    connect = cast("Any", asyncpg).connect  # its types are not known
    try:
        return await connect(
            address.url, timeout=_CONNECT_S, command_timeout=_COMMAND_S, statement_cache_size=0
        )
    except (ValueError, OverflowError, asyncpg.exceptions.ClientConfigurationError) as error:
        raise ConfigError(
            f"The address of the store is not valid: {error}.",
            remedy="It looks like postgresql://user@host:5432/database.",
        ) from error


def literal(value: int | str | bytes) -> str:
    """A value in the text of a statement. All but numbers are written as bytes: nothing has to be quoted."""
    if isinstance(value, int):
        return f"{value}::bigint"
    if isinstance(value, str):
        return f"convert_from({literal(value.encode())}, 'UTF8')"
    return f"E'\\\\x{value.hex()}'::bytea"


def unreachable(address: StoreAddress, error: BaseException | None) -> JournalUnreachable:
    why = str(error).partition("\n")[0] or type(error).__name__
    return JournalUnreachable(
        f"The database {address.shown} cannot be reached ({why}).",
        remedy="Check that it runs and that this machine may connect; then try again, or resume the session.",
    )


def explained(error: asyncpg.PostgresError, address: StoreAddress) -> JournalError:
    """Our error for what the database raised, by its type."""
    match error:
        case asyncpg.UndefinedTableError() | asyncpg.InvalidSchemaNameError():
            what = "has no tables of mainspring, or those of an older version"
            remedy = "Run: mainspring store init (after an upgrade: mainspring store migrate)"
        case asyncpg.InsufficientPrivilegeError():
            what = f"does not let this user do that ({error})"
            remedy = (
                "Let that user create in the database (for `store init`), and read and write what is there."
            )
        case asyncpg.InvalidAuthorizationSpecificationError():
            what, remedy = f"refuses this user ({error})", "Check user and password in the store's address."
        case asyncpg.InvalidCatalogNameError():
            what, remedy = f"cannot be used ({error})", "Create that database first (createdb)."
        case asyncpg.InsufficientResourcesError():
            what, remedy = f"has no room left ({error})", "Free some space there and resume the session."
        case asyncpg.ReadOnlySQLTransactionError():
            what, remedy = "is read-only: it may be a standby", "Give the address of the primary."
        case _:
            what, remedy = f"reported an error ({error})", "Look at its log, then resume the session."
    return JournalUnwritable(f"The database {address.shown} {what}.", remedy=remedy)
