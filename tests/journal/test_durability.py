import asyncio
import threading

import apsw
import pytest

from mainspring.disk.owner import LOCK_NAME
from mainspring.errors import JournalOwned, JournalUnwritable
from mainspring.events import Event, UserSaid
from mainspring.journal import sqlite, tables, writer
from tests.journal.samples import write
from tests.synced_disk import SyncedDisk


@pytest.mark.parametrize("acknowledged", [1, 25, 200])
def test_a_killed_writer_loses_nothing_it_acknowledged(store, worker, acknowledged):
    write(store, "one", [])
    process = worker("write_for_ever")
    promised = 0
    for _ in range(acknowledged):
        promised = int(process.stdout.readline())
    process.kill()
    rest = process.stdout.read().split()  # not `communicate`, which forgets what `readline` read ahead
    process.wait()
    promised = int(rest[-1]) if rest else promised
    file = store.shelf.file("one")
    verdict = file.verify()
    file.close()
    assert verdict.problem == ""
    assert promised <= verdict.events <= promised + 2
    assert verdict.events % 2 == 0
    write(store, "one", [UserSaid(text="goes on")])
    file = store.shelf.file("one")
    assert file.last().seq == verdict.events + 1
    file.close()


def test_reading_while_another_process_opens_and_closes_sees_a_growing_sound_journal(store, worker):
    write(store, "one", [])
    process = worker("open_and_close")
    kept = store.shelf.file("one")
    seen = 0
    while process.poll() is None:
        fresh = store.shelf.file("one")
        for file in (kept, fresh):
            events = file.read()
            assert len(events) >= seen
            seen = len(events)
            assert file.verify().problem == ""
        fresh.close()
        assert store.shelf.sessions()[0].state in ("new", "running", "crashed")
    assert process.returncode == 0
    assert len(kept.read()) == 120
    kept.close()


def test_a_full_disk_refuses_the_append_and_nothing_else(store, worker):
    write(store, "one", [])
    process = worker("fill_the_disk")
    lines = process.communicate()[0].splitlines()
    assert process.returncode == 0
    refused = [line for line in lines if line.startswith("JournalUnwritable")]
    assert len(refused) >= 3
    assert len(set(refused)) == 1
    assert refused[0].endswith("True")
    assert lines[-2].startswith("together")
    assert "JournalUnwritable" in lines[-2]
    assert lines[-1] == "again True True"
    file = store.shelf.file("one")
    events = file.read()
    assert events[0].event.text == "fits"
    assert events[-1].event.text == "space again"
    assert file.verify().problem == ""
    file.close()


class BrokenDisk:
    """A disk that fails to sync a WAL `left` times; `tried` is set when it did."""

    def __init__(self) -> None:
        self.left = 0
        self.tried = threading.Event()
        self.disk = SyncedDisk(self._sync)

    def _sync(self, _size: int) -> None:
        if self.left:
            self.left -= 1
            self.tried.set()
            raise apsw.IOError("broken")


@pytest.fixture
def disk():
    broken = BrokenDisk()
    yield broken
    broken.disk.unregister()


@pytest.fixture(params=["by the thread", "by who appends"])
def written(request, monkeypatch):
    """Who writes, however quick the disk is."""
    monkeypatch.setattr(writer, "_open", set())
    monkeypatch.setattr(writer, "_QUICK_S", 3600.0)
    monkeypatch.setattr(writer, "_QUICK_COMMITS", 0 if request.param == "by who appends" else 10**9)


@pytest.fixture
def quick_disk(monkeypatch):
    monkeypatch.setattr(writer, "_open", set())  # what another test left open does not count
    monkeypatch.setattr(writer, "_QUICK_S", 3600.0)
    monkeypatch.setattr(writer, "_QUICK_COMMITS", 8)


class Signalled(BaseException):
    """What the handler of a signal raises."""


def is_at_once(journal, *events: Event) -> bool:
    """Whether an append is over before the event loop has turned once."""
    append = journal.append(*events)
    try:
        append.send(None)
    except StopIteration:
        return True
    append.close()
    return False


async def grown(store, session: str):
    """A journal whose disk has shown itself to be quick."""
    journal = await store.create(session)
    for number in range(8):
        await journal.append(UserSaid(text=str(number)))
    return journal


@pytest.mark.usefixtures("quick_disk")
def test_who_appends_to_a_quick_disk_writes_unless_another_journal_is_open_or_there_is_much(store):
    async def work() -> None:
        journal = await store.create("one")
        assert not is_at_once(journal, UserSaid(text="not yet known to be quick"))
        await journal.last_seq()
        await journal.close()
        journal = await grown(store, "two")
        assert is_at_once(journal, UserSaid(text="quick"))
        durable = store.shelf.file("two")
        assert durable.last().event.text == "quick"
        durable.close()
        assert not is_at_once(journal, UserSaid(text="x" * 20_000))
        other = await store.create("three")
        assert not is_at_once(journal, UserSaid(text="two are open"))
        await journal.append(UserSaid(text="behind it"))
        await other.close()
        await journal.append(UserSaid(text="behind that"))
        assert is_at_once(journal, UserSaid(text="alone again"))
        written = await journal.read(after=8)
        assert [item.event.text[:8] for item in written] == [
            *("quick", "xxxxxxxx", "two are ", "behind i", "behind t", "alone ag")
        ]
        assert (await journal.verify()).problem == ""
        await journal.close()

    asyncio.run(work())


@pytest.mark.usefixtures("quick_disk")
def test_nobody_is_held_up_by_a_disk_that_was_slow(store, monkeypatch):
    async def work() -> None:
        journal = await grown(store, "one")
        assert is_at_once(journal, UserSaid(text="quick"))
        monkeypatch.setattr(writer, "_QUICK_S", 0.0)
        assert is_at_once(journal, UserSaid(text="slow"))
        assert not is_at_once(journal, UserSaid(text="after it"))
        await journal.close()

    asyncio.run(work())


@pytest.mark.usefixtures("quick_disk")
def test_nobody_is_held_up_by_a_file_that_is_locked(store):
    async def work() -> None:
        journal = await grown(store, "one")
        other = apsw.Connection(str(store.directory("one") / tables.FILE_NAME))
        other.execute("BEGIN IMMEDIATE")
        appended = asyncio.create_task(journal.append(UserSaid(text="waits")))
        await asyncio.sleep(0)
        assert not appended.done()
        other.execute("ROLLBACK")
        other.close()
        [recorded] = await appended
        assert recorded.seq == 9
        await journal.close()

    asyncio.run(work())


@pytest.mark.usefixtures("quick_disk")
def test_who_appends_without_end_lets_others_work(store):
    async def work() -> None:
        journal = await grown(store, "one")
        is_heard = asyncio.Event()
        asyncio.get_running_loop().call_soon(is_heard.set)
        for _ in range(100):
            if is_heard.is_set():
                break
            await journal.append(UserSaid(text="on and on"))
        assert is_heard.is_set()
        await journal.close()

    asyncio.run(work())


@pytest.mark.usefixtures("quick_disk")
def test_a_signal_in_the_middle_of_a_write_leaves_nothing_of_it(store):
    async def work() -> None:
        journal = await grown(store, "one")
        connection = journal._writer._connection

        def interrupt() -> bool:
            raise Signalled

        connection.set_commit_hook(interrupt)
        with pytest.raises(Signalled):
            await journal.append(UserSaid(text="interrupted"))
        connection.set_commit_hook(None)
        [recorded] = await journal.append(UserSaid(text="goes on"))
        assert recorded.seq == 9
        assert (await journal.verify()).problem == ""
        await journal.close()

    asyncio.run(work())


@pytest.mark.usefixtures("written")
def test_what_was_numbered_and_cannot_be_written_is_raised_by_the_next_append_and_made_up_for(store, disk):
    async def work() -> None:
        journal = await store.create("one")
        durable: list[int] = []
        journal.subscribe(lambda _: None, durable.append)
        await journal.append(UserSaid(text="first"))
        disk.left = 4
        [soon] = await journal.append(UserSaid(text="soon"), is_durable=False)
        await asyncio.to_thread(disk.tried.wait)
        with pytest.raises(JournalUnwritable, match="disk reported an error"):
            await journal.append(UserSaid(text="refused"))
        with pytest.raises(JournalUnwritable, match="disk reported an error"):
            await journal.append(UserSaid(text="refused too"), is_durable=False)
        with pytest.raises(JournalUnwritable, match="disk reported an error"):
            await journal.read()
        assert (soon.seq, durable) == (2, [1])
        [third] = await journal.append(UserSaid(text="third"))
        assert (third.seq, durable[-1]) == (3, 3)
        [fourth] = await journal.append(UserSaid(text="fourth"), is_durable=False)
        assert fourth.seq == 4
        assert (await journal.verify()).problem == ""
        assert [item.event.text for item in await journal.read()] == ["first", "soon", "third", "fourth"]
        assert [item.time_us for item in (soon, fourth)] == [
            item.time_us for item in (await journal.read())[1::2]
        ]
        await journal.close()

    asyncio.run(work())


@pytest.mark.usefixtures("written")
def test_what_was_numbered_and_cannot_be_written_last_is_raised_by_close(store, disk, monkeypatch):
    monkeypatch.setattr(sqlite, "_DURABLE_WITHIN_S", 3600.0)

    async def work() -> None:
        journal = await store.create("one")
        await journal.append(UserSaid(text="first"))
        disk.left = 1
        await journal.append(UserSaid(text="lost"), is_durable=False)
        with pytest.raises(JournalUnwritable, match="disk reported an error"):
            await journal.close()
        journal = await store.open("one")
        [late] = await journal.append(UserSaid(text="late"), is_durable=False)
        await journal.close()
        reader = store.shelf.file("one")
        assert (reader.verify().problem, reader.last().seq) == ("", late.seq)
        reader.close()

    asyncio.run(work())


@pytest.mark.usefixtures("written")
def test_an_event_that_no_journal_keeps_takes_no_numbered_one_along(store):
    async def work() -> None:
        journal = await store.create("one")
        await journal.append(UserSaid(text="first"))
        await journal.append(UserSaid(text="soon"), is_durable=False)
        with pytest.raises(TypeError, match="is not an event that a journal keeps"):
            await journal.append(Event())
        [third] = await journal.append(UserSaid(text="third"))
        assert third.seq == 3
        assert [item.event.text for item in await journal.read()] == ["first", "soon", "third"]
        await journal.close()

    asyncio.run(work())


@pytest.mark.usefixtures("written")
def test_who_lost_a_session_before_its_first_event_leaves_it_to_who_took_it(store):
    async def work() -> None:
        journal = await store.create("one")
        (store.directory("one") / LOCK_NAME).unlink()
        with pytest.raises(JournalOwned):
            await journal.append(UserSaid(text="too late"))
        await journal.close()
        assert store.directory("one").exists()

    asyncio.run(work())


@pytest.mark.usefixtures("written")
def test_events_that_are_numbered_beside_an_append_that_is_under_way_stand_in_the_order_they_were_told(store):
    async def work() -> None:
        journal = await store.create("one")
        told: list[int] = []
        journal.subscribe(lambda recorded: told.extend(item.seq for item in recorded))
        await asyncio.gather(
            *(journal.append(UserSaid(text=str(number)), is_durable=number % 3 == 0) for number in range(30))
        )
        written = await journal.read()
        assert told == [item.seq for item in written] == list(range(1, 31))
        await journal.close()

    asyncio.run(work())
