import asyncio
import errno
import os
import threading

import apsw
import pytest

from mainspring.errors import JournalUnwritable
from mainspring.events import UserSaid
from mainspring.journal import writer
from tests.journal.samples import write


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


@pytest.fixture
def broken(monkeypatch):
    """Breaks the disk for whoever syncs without SQLite; the event is set when that was tried."""

    def break_disk() -> threading.Event:
        tried = threading.Event()

        def refuse(_handle: int) -> None:
            tried.set()
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        monkeypatch.setattr(os, "fsync", refuse)
        return tried

    return break_disk


def test_a_sync_that_fails_later_is_raised_by_the_next_append_and_made_up_for(store, broken):
    async def work() -> None:
        journal = await store.create("one")
        durable: list[int] = []
        journal.subscribe(lambda _: None, durable.append)
        await journal.append(UserSaid(text="first"))
        tried = broken()
        await journal.append(UserSaid(text="soon"), is_durable=False)
        await asyncio.to_thread(tried.wait)
        with pytest.raises(JournalUnwritable, match="disk reported an error"):
            await journal.append(UserSaid(text="refused"))
        assert durable == [1]
        [third] = await journal.append(UserSaid(text="third"))
        assert (third.seq, durable[-1]) == (3, 3)
        assert (await journal.verify()).problem == ""
        assert [item.event.text for item in await journal.read()] == ["first", "soon", "third"]
        await journal.close()

    asyncio.run(work())


def test_a_sync_that_fails_last_is_raised_by_close_unless_it_is_made_up_for(store, broken, monkeypatch):
    monkeypatch.setattr(writer, "_SYNC_AFTER_S", 3600.0)

    async def work() -> None:
        journal = await store.create("one")
        await journal.append(UserSaid(text="first"))
        reader = apsw.Connection(str(store.shelf.folder / "one" / "journal.sqlite"))
        broken()
        await journal.append(UserSaid(text="soon"), is_durable=False)
        reader.execute("BEGIN; SELECT * FROM events").fetchall()
        await journal.append(UserSaid(text="sooner"), is_durable=False)
        with pytest.raises(JournalUnwritable, match="disk reported an error"):
            await journal.close()
        reader.close()
        journal = await store.open("one")
        assert await journal.last_seq() == 3
        await journal.append(UserSaid(text="late"), is_durable=False)
        await journal.close()

    asyncio.run(work())
