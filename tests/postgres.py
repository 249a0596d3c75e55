"""A real Postgres on loopback for tests: started once for each process that needs it, ended with it."""

from __future__ import annotations

import asyncio
import atexit
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from itertools import count
from pathlib import Path
from typing import TypeVar

import asyncpg
import pytest

from mainspring.journal.postgres.connection import StoreAddress
from mainspring.journal.postgres.schema import PostgresTables

_DATABASES = count(1)
_T = TypeVar("_T")


class Postgres:
    """A server; it refuses to run as root, so it runs as the account that Debian's package makes. Unless it
    `is_durable`, what it holds does not outlive a loss of power."""

    def __init__(self, *, is_durable: bool = False) -> None:
        self._bin, self._is_durable = _programs(), is_durable
        self._folder = Path(tempfile.mkdtemp(prefix="pg-"))
        self.port = free_port()
        if os.getuid() == 0:
            shutil.chown(self._folder, "postgres", "postgres")
        self._folder.chmod(0o700)
        self._run(
            f"{self._bin}/initdb -D {self._folder}/data -U postgres -A trust --no-sync -E UTF8 --locale=C"
        )
        self.start()

    def start(self) -> None:
        options = (
            f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self._folder}"
            " -c max_connections=200 -c shared_buffers=32MB"
        )
        if not self._is_durable:
            options += " -c fsync=off -c full_page_writes=off"
        self._run(f"{self._bin}/pg_ctl -D {self._folder}/data -w -l {self._folder}/log -o '{options}' start")

    def stop(self, mode: str = "immediate") -> None:
        self._run(f"{self._bin}/pg_ctl -D {self._folder}/data -w -m {mode} stop")

    def end(self) -> None:
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def url(self, database: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    async def new_database(self) -> str:
        """The address of an empty database."""
        name = f"test{next(_DATABASES)}"
        await self._execute("postgres", f"CREATE DATABASE {name}")
        return self.url(name)

    async def new_store(self, *, lease_s: float = 15.0) -> StoreAddress:
        """The address of a store without sessions."""
        address = StoreAddress(await self.new_database(), lease_s)
        await PostgresTables(address).migrate()
        return address

    async def _execute(self, database: str, sql: str) -> None:
        await _execute(self.url(database), sql)

    def cpu_s(self) -> float:
        """The processor time of all its processes, also of those that ended."""
        main = int((self._folder / "data" / "postmaster.pid").read_text().split()[0])
        total = 0
        for path in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                fields = path.read_text().rpartition(")")[2].split()
                if path.parent.name == str(main):
                    total += sum(int(each) for each in fields[11:15])
                elif int(fields[1]) == main:
                    total += int(fields[11]) + int(fields[12])
        return total / os.sysconf("SC_CLK_TCK")

    def _run(self, command: str) -> None:
        as_user = ["su", "postgres", "-s", "/bin/sh", "-c"] if os.getuid() == 0 else ["sh", "-c"]
        subprocess.run(
            [*as_user, command], check=True, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )


def execute(address: StoreAddress, sql: str, *bindings: object) -> None:
    """Changes a database behind the back of whoever uses it, also while an event loop runs here."""
    with ThreadPoolExecutor(1) as threads:
        threads.submit(asyncio.run, _execute(address.url, sql, *bindings)).result()


async def _execute(url: str, sql: str, *bindings: object) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(sql, *bindings)
    await connection.close()


async def wait_until(is_so: Callable[[], Awaitable[_T]]) -> _T:
    """What a question gives as soon as that is something; a test that hangs is ended by its limit."""
    while not (found := await is_so()):
        await asyncio.sleep(0.05)
    return found


@cache
def postgres() -> Postgres:
    """The server of this process."""
    server = Postgres()
    atexit.register(server.end)
    return server


def _programs() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    if os.environ.get("CI"):
        pytest.fail("Postgres is missing: apt-get install postgresql")
    pytest.skip("needs Postgres: apt-get install postgresql")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
