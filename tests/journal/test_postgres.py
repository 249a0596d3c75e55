"""What only a database can do to a journal: owners that stall, connections that break, poolers, upgrades."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import pytest

from mainspring.catalog.postgres import PostgresSessions
from mainspring.disk.owner import Owner
from mainspring.errors import ConfigError, JournalForeign, JournalOwned, JournalUnwritable, UsageError
from mainspring.events import SessionStarted, UserSaid
from mainspring.journal.postgres import leases, schema
from mainspring.journal.postgres.connection import StoreAddress, StoreConnection
from mainspring.journal.postgres.files import PostgresFiles
from mainspring.journal.postgres.schema import PostgresTables
from mainspring.testing import journals, sessions
from tests.cluster.proxy import CuttingProxy
from tests.postgres import execute, free_port, postgres, wait_until

STARTED = SessionStarted(session="one", workspace="/work", version="0")


def new_store(folder: Path, *, lease_s: float = 15.0) -> PostgresSessions:
    return PostgresSessions(asyncio.run(postgres().new_store(lease_s=lease_s)), folder)


async def _begun(store: PostgresSessions) -> None:
    journal = await store.create("one")
    await journal.append(STARTED)
    await journal.close()


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Callable[[PostgresSessions], subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []

    def start(store: PostgresSessions) -> subprocess.Popen[str]:
        script = str(Path(__file__).with_name("postgres_worker.py"))
        address = store.address
        command = [sys.executable, script, address.url, str(address.lease_s), str(tmp_path / "worker")]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_a_killed_owner_of_this_machine_is_taken_over_at_once_and_nothing_is_lost(tmp_path, writer) -> None:
    store = new_store(tmp_path, lease_s=3600)
    asyncio.run(_begun(store))
    worker = writer(store)
    told = [int(_line(worker)) for _ in range(5)]
    worker.send_signal(signal.SIGKILL)
    assert worker.stdout is not None
    told += [int(line) for line in worker.stdout.read().split()]
    worker.wait()

    async def taken_over() -> None:
        owner = await store.owner("one")
        assert owner is not None
        assert not owner.is_alive
        journal = await store.open("one")
        assert await journal.last_seq() >= told[-1]
        await journal.append(UserSaid(text="and on"))
        assert (await journal.verify()).problem == ""
        await journal.close()

    asyncio.run(taken_over())


def test_an_owner_that_stalled_longer_than_its_lease_writes_nothing_more(tmp_path, writer) -> None:
    store = new_store(tmp_path, lease_s=1)
    asyncio.run(_begun(store))
    worker = writer(store)
    assert _line(worker)
    worker.send_signal(signal.SIGSTOP)

    async def taken_over() -> int:
        async def opened() -> Any:
            try:
                return await store.open("one")
            except JournalOwned:
                return None

        journal = await wait_until(opened)
        mine = (await journal.append(UserSaid(text="by the new owner")))[-1].seq
        worker.send_signal(signal.SIGCONT)
        assert worker.stdout is not None
        said = await asyncio.to_thread(worker.stdout.read)
        assert said.split()[-1] == "lost"
        assert all(int(seq) < mine for seq in said.split()[:-1])
        assert (await journal.append(UserSaid(text="still mine")))[-1].seq == mine + 1
        assert (await journal.verify()).problem == ""
        await journal.close()
        return mine

    assert asyncio.run(taken_over()) > 2


class Stalled(PostgresSessions):
    """Stands still whenever it has just taken a lease, until another machine has it."""

    @asynccontextmanager
    async def leased(self, name: str, *, shown: str = "") -> AsyncGenerator[int]:
        async with super().leased(name, shown=shown) as epoch:
            execute(self.address, "UPDATE mainspring.leases SET epoch = epoch + 1 WHERE name = $1", name)
            yield epoch


def test_who_stalled_while_it_deleted_or_accepted_a_session_changes_nothing(tmp_path) -> None:
    store = new_store(tmp_path)

    async def tried() -> None:
        await _begun(store)
        stalled = Stalled(store.address, tmp_path)
        for change in (stalled.delete, stalled.accept):
            with pytest.raises(JournalOwned, match="no longer the owner"):
                await change("one")
            execute(store.address, "UPDATE mainspring.leases SET owner = NULL")
        assert await store.names() == ["one"]
        assert (await store.accept("one")).anchored_seq == 1
        await store.delete("one")
        assert await store.names() == []

    asyncio.run(tried())


def test_who_stalled_while_it_held_the_day_spends_nothing(tmp_path) -> None:
    store = new_store(tmp_path)

    async def stalled() -> None:
        async with store.today().held() as spent:
            assert spent.usd == 0
        with pytest.raises(JournalUnwritable, match="stalled while"):
            async with store.today().held():
                execute(store.address, "UPDATE mainspring.leases SET epoch = epoch + 1, owner = NULL")
        async with store.today().held():
            pass

    asyncio.run(stalled())


def test_a_journal_outlives_a_restart_of_the_server(tmp_path) -> None:
    store = new_store(tmp_path)

    async def written() -> None:
        journal = await store.create("one")
        await journal.append(STARTED)
        for mode in ("fast", "immediate"):
            await asyncio.to_thread(postgres().stop, mode)
            appending = asyncio.create_task(journal.append(UserSaid(text=mode)))
            await asyncio.to_thread(postgres().start)
            await appending
        assert [item.seq for item in await journal.read()] == [1, 2, 3]
        assert (await journal.verify()).problem == ""
        await journal.close()

    asyncio.run(written())


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_was_sent_when_a_connection_broke_counts_exactly_once(tmp_path, seed: int) -> None:
    store = new_store(tmp_path)

    async def written() -> None:
        proxy = CuttingProxy(postgres().port, seed)
        server, port = await proxy.serve()
        url = re.sub(r":\d+/", f":{port}/", store.address.url)
        journal = await PostgresSessions(StoreAddress(url), tmp_path).create("one")
        for number in range(30):
            recorded = await journal.append(UserSaid(text=str(number)), is_durable=number % 3 != 1)
            assert recorded[0].seq == number + 1
        texts = [item.event.text for item in await journal.read() if isinstance(item.event, UserSaid)]
        assert texts == [str(number) for number in range(30)]
        assert proxy.cuts
        await journal.close()
        server.close()

    asyncio.run(written())


def test_a_session_that_was_made_when_its_connection_broke_is_there(tmp_path) -> None:
    store = new_store(tmp_path)

    async def made() -> None:
        proxy = CuttingProxy(postgres().port, 1, share=0.0)
        server, port = await proxy.serve()
        proxy.cut_at = b"COMMIT"
        journal = await PostgresSessions(
            StoreAddress(re.sub(r":\d+/", f":{port}/", store.address.url)), tmp_path
        ).create("one")
        assert proxy.cuts == 1
        await journal.append(STARTED)
        await journal.close()
        with pytest.raises(UsageError, match="exists already"):
            await store.create("one")
        server.close()

    asyncio.run(made())


def test_of_those_who_take_a_file_one_is_told_so_also_when_answers_are_cut() -> None:
    address = asyncio.run(postgres().new_store())

    async def taken() -> None:
        proxy = CuttingProxy(postgres().port, 1, share=0.0)
        server, port = await proxy.serve()
        files = PostgresFiles(StoreAddress(re.sub(r":\d+/", f":{port}/", address.url)))

        def take() -> None:
            files.write("left.json", b"x")
            for act in (lambda: files.rename("left.json", "left.taken"), lambda: files.remove("left.taken")):
                proxy.cut_at = b"COMMIT"
                assert act()
                assert not act()

        await asyncio.to_thread(take)
        assert proxy.cuts == 2
        server.close()
        await proxy.end()

    asyncio.run(taken())


def test_who_is_cancelled_while_the_connection_is_lost_ends_all_the_same() -> None:
    address = StoreAddress(asyncio.run(postgres().new_database()))

    async def cancelled() -> None:
        connection, begun = StoreConnection(address), asyncio.Event()

        async def ask(asked: Any) -> None:
            assert not begun.is_set(), "it was asked again"
            begun.set()
            try:
                await asked.execute("SELECT pg_sleep(600)")
            finally:
                asked.terminate()

        async def hold() -> None:
            async with connection.held() as held, held.transaction():
                await ask(held)

        for use in (lambda: connection.use(ask), hold):
            begun.clear()
            task = asyncio.create_task(use())
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        await connection.close()

    asyncio.run(cancelled())


def test_what_is_written_after_a_cancelled_use_is_kept() -> None:
    async def written() -> None:
        address = await postgres().new_store()
        proxy = CuttingProxy(postgres().port, 0, share=0.0)
        server, port = await proxy.serve()
        connection = StoreConnection(StoreAddress(re.sub(r":\d+/", f":{port}/", address.url)))

        async def insert(asked: Any) -> None:
            await asked.execute("INSERT INTO mainspring.files VALUES ('kept', NULL)")

        async def look(asked: Any) -> int:
            return await asked.fetchval("SELECT count(*) FROM mainspring.files")

        await connection.use(look)
        proxy.passing.clear()
        proxy.asked.clear()
        task = asyncio.create_task(connection.use(look))
        await proxy.asked.wait()  # its transaction has begun on the server, and nobody was told
        task.cancel()
        proxy.passing.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        await connection.use(insert)
        assert await connection.use(look) == 1
        await connection.close()
        other = StoreConnection(address)
        assert await other.use(look) == 1
        await other.close()
        server.close()
        proxy.cut_all()

    asyncio.run(written())


def test_what_a_machine_locked_that_stands_still_is_free_when_its_lease_is_over(monkeypatch) -> None:
    monkeypatch.setattr("mainspring.journal.postgres.connection._SILENT_S", 0.2)

    async def stalled() -> None:
        address = await postgres().new_store(lease_s=0.2)
        stalled, other = StoreConnection(address), StoreConnection(address)
        locked, goes_on, uses = asyncio.Event(), asyncio.Event(), []

        async def renew(asked: Any) -> bool:
            uses.append(asked)
            is_held = await leases.renew(asked, "one", 1, 0.2)
            locked.set()
            await goes_on.wait()  # as a process that is stopped here, or whose machine burnt
            return is_held

        taken = await stalled.use(lambda c: leases.take(c, "one", 0.2, mine=_owner("a"), shown="one"))
        assert taken == 1
        renewing = asyncio.create_task(stalled.use(renew))
        await locked.wait()

        async def taken_over() -> int:
            try:
                return await other.use(lambda c: leases.take(c, "one", 0.2, mine=_owner("b"), shown="one"))
            except JournalOwned:
                return 0

        async with asyncio.timeout(20):
            assert await wait_until(taken_over) == 2
        goes_on.set()
        assert not await renewing
        assert len(uses) == 2
        await asyncio.gather(stalled.close(), other.close())

    asyncio.run(stalled())


def _owner(host: str) -> bytes:
    """A process of another machine."""
    return msgspec.json.encode(Owner(host=host, pid=1, born=1, scope=host, since_us=1))


def test_an_owner_without_a_database_fails_and_what_it_had_is_whole(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("mainspring.journal.postgres.connection._PAUSES_S", (0.0, 0.01))
    store = new_store(tmp_path)

    async def written() -> None:
        journal = await store.create("one")
        await journal.append(STARTED)
        await asyncio.to_thread(postgres().stop)
        with pytest.raises(JournalUnwritable, match="cannot be reached"):
            await journal.append(UserSaid(text="lost"))
        await asyncio.to_thread(postgres().start)
        assert [item.seq for item in await journal.append(UserSaid(text="kept"))] == [2]
        await journal.close()

    asyncio.run(written())


def test_what_was_numbered_and_cannot_be_written_is_raised_by_the_next_append_and_made_up_for(
    tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr("mainspring.journal.postgres.connection._PAUSES_S", (0.0, 0.01))
    store = new_store(tmp_path)

    async def written() -> None:
        journal = await store.create("one")
        durable: list[int] = []
        journal.subscribe(lambda _: None, durable.append)
        await journal.append(STARTED)
        await asyncio.to_thread(postgres().stop)
        [soon] = await journal.append(UserSaid(text="soon"), is_durable=False)
        for is_durable in (True, False):
            with pytest.raises(JournalUnwritable, match="cannot be reached"):
                await journal.append(UserSaid(text="lost"), is_durable=is_durable)
        with pytest.raises(JournalUnwritable, match="cannot be reached"):
            await journal.read()
        assert (soon.seq, durable) == (2, [1])
        await asyncio.to_thread(postgres().start)
        assert [item.seq for item in await journal.append(UserSaid(text="kept"))] == [3]
        assert durable[-1] == 3
        [last] = await journal.append(UserSaid(text="last"), is_durable=False)
        written = await journal.read()
        assert [item.event.text for item in written[1:]] == ["soon", "kept", "last"]  # type: ignore[attr-defined]
        assert [item.time_us for item in (written[1], written[3])] == [soon.time_us, last.time_us]
        assert (await journal.verify()).problem == ""
        await asyncio.to_thread(postgres().stop)
        await journal.append(UserSaid(text="lost"), is_durable=False)
        with pytest.raises(JournalUnwritable, match="cannot be reached"):
            await journal.close()
        await asyncio.to_thread(postgres().start)

    asyncio.run(written())


def test_what_need_not_be_durable_goes_with_the_next_append(tmp_path) -> None:
    store = new_store(tmp_path)

    async def written() -> None:
        proxy = CuttingProxy(postgres().port, 1, share=0.0)
        server, port = await proxy.serve()
        url = re.sub(r":\d+/", f":{port}/", store.address.url)
        journal = await PostgresSessions(StoreAddress(url, lease_s=3600), tmp_path).create("one")
        before = proxy.sent
        for _ in range(10):
            await journal.append(UserSaid(text="ended"), is_durable=False)
            await journal.append(UserSaid(text="reserved"))
        assert proxy.sent - before == 10
        await journal.close()
        server.close()

    asyncio.run(written())


def test_a_file_that_has_not_changed_is_not_sent_again() -> None:
    address = asyncio.run(postgres().new_store())
    other = PostgresFiles(address)

    async def read() -> None:
        proxy = CuttingProxy(postgres().port, 1, share=0.0)
        server, port = await proxy.serve()
        files = PostgresFiles(StoreAddress(re.sub(r":\d+/", f":{port}/", address.url)))
        for content in (None, b"it's", b"another", b"", None):
            if content is None:
                await asyncio.to_thread(other.remove, "a'b")
            else:
                await asyncio.to_thread(other.write, "a'b", content)
            assert await asyncio.to_thread(files.read, "a'b") == content
            before = proxy.sent
            assert [await asyncio.to_thread(files.read, "a'b") for _ in range(3)] == [content] * 3
            assert proxy.sent - before == 3
            assert not await files.is_filled("inbox")
            assert proxy.sent - before == 4
        await proxy.end()
        server.close()

    asyncio.run(read())


def test_the_password_of_a_store_is_shown_nowhere() -> None:
    address = StoreAddress("postgresql://me:s3cret@db.example:5432/work")
    assert address.shown == "postgresql://me@db.example:5432/work"
    several = StoreAddress("postgresql://me:s3cret@one:5432,two:5433/work")
    assert several.shown == "postgresql://me@one:5432,two:5433/work"


@pytest.mark.parametrize(
    "url", ["mysql://me@db/work", "postgresql://db:x/work", "postgresql://127.0.0.1:99999/work"]
)
def test_an_address_that_makes_no_sense_says_how_one_looks(url: str) -> None:
    with pytest.raises(ConfigError, match="address of the store is not valid"):
        asyncio.run(PostgresTables(StoreAddress(url)).ready_version())


def test_tables_are_made_once_also_by_two_at_a_time_and_newer_ones_are_refused(tmp_path) -> None:
    address = StoreAddress(asyncio.run(postgres().new_database()))

    async def made() -> None:
        tables = PostgresTables(address)
        with pytest.raises(JournalUnwritable, match="no tables"):
            await tables.ready_version()
        done = await asyncio.gather(tables.migrate(), PostgresTables(address).migrate())
        assert sorted(done) == [(0, schema.VERSION), (schema.VERSION, schema.VERSION)]
        assert await tables.ready_version() == schema.VERSION
        await _begun(PostgresSessions(address, tmp_path))
        execute(address, "UPDATE mainspring.store SET version = 99")
        for use in (tables.migrate, tables.ready_version):
            with pytest.raises(JournalForeign, match="version 99"):
                await use()
        store = PostgresSessions(address, tmp_path)
        for write in (store.create, lambda: store.open("one")):
            with pytest.raises(JournalForeign, match="version 99"):
                await write()

    asyncio.run(made())


@pytest.mark.parametrize("version", range(1, schema.VERSION + 1))
def test_a_store_of_every_version_is_brought_up_with_its_sessions(tmp_path, version: int) -> None:
    address = StoreAddress(asyncio.run(postgres().new_database()))

    async def upgraded() -> None:
        connection = await asyncpg.connect(address.url)
        for step in schema.STEPS[:version]:
            await connection.execute(step)
        await connection.execute("UPDATE mainspring.store SET version = $1", version)
        await connection.close()
        assert (await PostgresTables(address).migrate())[0] == version
        await sessions.a_session_is_exported_and_brought_in_with_the_same_hashes(
            PostgresSessions(address, tmp_path)
        )

    asyncio.run(upgraded())


@pytest.fixture
def pooled(tmp_path: Path) -> Iterator[PostgresSessions]:
    """A store behind a pooler that gives each transaction whichever connection of the server is free."""
    store, port = new_store(tmp_path), free_port()
    database = store.address.url.rpartition("/")[2]
    settings = tmp_path / "pgbouncer.ini"
    users = tmp_path / "users.txt"
    users.write_text('"postgres" ""\n')
    settings.write_text(
        f"[databases]\n{database} = host=127.0.0.1 port={postgres().port}\n[pgbouncer]\n"
        f"listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = trust\n"
        f"auth_file = {users}\npool_mode = transaction\ndefault_pool_size = 3\n"
    )
    program = "/usr/sbin/pgbouncer"
    if not Path(program).exists():
        if os.environ.get("CI"):
            pytest.fail("pgbouncer is missing: apt-get install pgbouncer")
        pytest.skip("needs pgbouncer: apt-get install pgbouncer")
    for path in (tmp_path, *tmp_path.parents):
        if path.owner() == "root" and path.is_relative_to("/tmp/pytest-of-root"):
            path.chmod(0o755)
    as_other = ["-u", "postgres"] if os.getuid() == 0 else []
    process = subprocess.Popen([program, "-q", *as_other, str(settings)], stderr=subprocess.DEVNULL)

    async def reached() -> bool:
        try:
            (await asyncio.open_connection("127.0.0.1", port))[1].close()
        except OSError:
            return False
        return True

    asyncio.run(wait_until(reached))
    url = store.address.url.replace(f":{postgres().port}/", f":{port}/")
    yield PostgresSessions(msgspec.structs.replace(store.address, url=url), tmp_path)
    process.terminate()
    process.wait()


def test_a_pooler_by_transaction_may_stand_between(pooled: PostgresSessions) -> None:
    checks: tuple[Callable[[journals.JournalPlace], Coroutine[Any, Any, None]], ...] = (
        journals.appends_at_once_are_each_whole_and_in_order,
        journals.long_bodies_come_back_whole,
        journals.readers_see_what_is_durable_while_it_is_written,
    )
    for number, check in enumerate(checks):
        asyncio.run(check(sessions.JournalOf(pooled, f"s{number}")))
    asyncio.run(sessions.the_day_is_held_by_one_at_a_time(pooled))
