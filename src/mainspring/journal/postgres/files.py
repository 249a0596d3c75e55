"""Small files that machines share, in a table of the database.

Who needs them is not always async, so a thread of this process has an event loop and a connection for them.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from mainspring.disk.log import log
from mainspring.disk.shared_files import NamedFiles
from mainspring.errors import JournalError
from mainspring.journal.postgres.connection import StoreAddress, StoreConnection, literal

_T = TypeVar("_T")

_KEPT, _KEPT_BYTES = 100, 256 * 1024
"""How many files are kept in memory, and how large one of them may be."""

_NAMES = """
SELECT name FROM mainspring.files
WHERE name >= $1 AND name < $2 AND data IS NOT NULL ORDER BY name
"""
_FILLED = "SELECT 1 FROM mainspring.files WHERE name >= {} AND name < {} LIMIT 1"
_READ = "SELECT data FROM mainspring.files WHERE name = $1"
_STILL = "SELECT 1 FROM mainspring.files WHERE name = {} AND sha256(data) = {}"
_STILL_NONE = (
    "SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM mainspring.files WHERE name = {} AND data IS NOT NULL)"
)
_WRITE = "INSERT INTO mainspring.files VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET data = excluded.data"
_HOLD = """
INSERT INTO mainspring.files VALUES ($1, NULL)
ON CONFLICT (name) DO UPDATE SET name = excluded.name RETURNING data
"""
"""Gives what a file is and keeps others from changing it, also one that is only being made."""
_RENAME = "UPDATE mainspring.files SET name = $2 WHERE name = $1 RETURNING name"
_REMOVE = "DELETE FROM mainspring.files WHERE name = $1 RETURNING name"
REMOVE_ALL = "DELETE FROM mainspring.files WHERE name >= $1 AND name < $2"


async def write_files(connection: Any, folder: str, files: NamedFiles) -> None:
    """Makes files of a folder in the transaction that a connection is in."""
    for name, content in files.items():
        await connection.execute(_WRITE, f"{folder}/{name}", content)


class PostgresFiles:
    """The files of one database whose names begin with `folder`."""

    def __init__(self, address: StoreAddress, folder: str = "") -> None:
        self._address = address
        self._prefix = f"{folder}/" if folder else ""

    def shown(self, name: str) -> str:
        return f"{self._prefix}{name} of {self._address.shown}"

    def names(self, folder: str) -> list[str]:
        first, end = span(f"{self._prefix}{folder}")
        rows = self._use(lambda c: c.fetch(_NAMES, first, end))
        found = [name.removeprefix(first) for (name,) in rows]
        return [name for name in found if "/" not in name]

    def read(self, name: str) -> bytes | None:
        return _thread(self._address).read(self._prefix + name).result()

    def write(self, name: str, content: bytes) -> None:
        self._use(lambda c: c.execute(_WRITE, self._prefix + name, content))

    def change(self, name: str, edit: Callable[[bytes | None], bytes | None]) -> None:
        whole = self._prefix + name

        async def changed(connection: Any) -> None:
            after = edit(await connection.fetchval(_HOLD, whole))
            if after is None:
                await connection.execute(_REMOVE, whole)
            else:
                await connection.execute(_WRITE, whole, after)

        self._use(changed)

    def rename(self, name: str, to: str) -> bool:
        before, after = self._prefix + name, self._prefix + to

        async def renamed(connection: Any) -> bool:
            if before != after and await connection.fetchval(_READ, before) is not None:
                await connection.execute(_REMOVE, after)
            return await connection.fetchval(_RENAME, before, after) is not None

        return self._use(_once(renamed))

    def remove(self, name: str) -> bool:
        async def removed(connection: Any) -> bool:
            return await connection.fetchval(_REMOVE, self._prefix + name) is not None

        return self._use(_once(removed))

    async def is_filled(self, folder: str) -> bool:
        statement = _FILLED.format(*map(literal, span(f"{self._prefix}{folder}")))
        try:
            return bool(await asyncio.wrap_future(_thread(self._address).tell(statement)))
        except JournalError as error:
            log("the files of the store cannot be looked at", error=error.message)
            return False

    def _use(self, do: Callable[[Any], Coroutine[Any, Any, _T]]) -> _T:
        return _thread(self._address).begin(do).result()


def _once(do: Callable[[Any], Coroutine[Any, Any, bool]]) -> Callable[[Any], Coroutine[Any, Any, bool]]:
    """Whether it was done now, or before the answer to the same question was lost."""
    is_done = False

    async def done(connection: Any) -> bool:
        nonlocal is_done
        is_done = await do(connection) or is_done
        return is_done

    return done


def span(folder: str) -> tuple[str, str]:
    """From and to where the names in a folder lie, in the order of their bytes."""
    return f"{folder}/", f"{folder}0"


class _StoreThread:
    """An event loop with one connection, in a thread that ends with this process. What was read is kept, and
    read again only when the database says, in one message, that it has changed."""

    def __init__(self, address: StoreAddress) -> None:
        self._connection = StoreConnection(address)
        self._read: dict[str, tuple[bytes | None, str]] = {}
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="store files", daemon=True).start()

    def begin(self, do: Callable[[Any], Coroutine[Any, Any, _T]]) -> Future[_T]:
        return asyncio.run_coroutine_threadsafe(self._connection.use(do), self._loop)

    def tell(self, statement: str) -> Future[int]:
        return asyncio.run_coroutine_threadsafe(self._connection.tell(statement), self._loop)

    def read(self, name: str) -> Future[bytes | None]:
        return asyncio.run_coroutine_threadsafe(self._read_again(name), self._loop)

    async def _read_again(self, name: str) -> bytes | None:
        kept = self._read.pop(name, None)
        if kept is None or not await self._connection.tell(kept[1]):
            data = await self._connection.use(lambda c: c.fetchval(_READ, name))
            kept = data, _still(name, data)
        if len(kept[0] or b"") <= _KEPT_BYTES:
            self._read[name] = kept
        if len(self._read) > _KEPT:
            del self._read[next(iter(self._read))]
        return kept[0]


def _still(name: str, data: bytes | None) -> str:
    """The query that gives a row as long as a file is what was read."""
    if data is None:
        return _STILL_NONE.format(literal(name))
    return _STILL.format(literal(name), literal(hashlib.sha256(data).digest()))


_THREADS: dict[tuple[StoreAddress, int], _StoreThread] = {}
_MAKING = threading.Lock()


def _thread(address: StoreAddress) -> _StoreThread:
    """The thread for an address; a fork of this process has none yet."""
    with _MAKING:
        key = address, os.getpid()
        if key not in _THREADS:
            _THREADS[key] = _StoreThread(address)
        return _THREADS[key]
