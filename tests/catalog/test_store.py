import asyncio
import contextlib
import os
import shutil
import time

import apsw
import pytest

from mainspring.errors import JournalOwned, UnknownSession, UsageError
from mainspring.events import (
    AssistantSaid,
    CallStarted,
    ModelChosen,
    SessionStarted,
    SpendReserved,
    SpendSettled,
    Text,
    TurnEnded,
    TurnStarted,
    UserSaid,
)
from mainspring.journal import tables
from tests.journal.samples import write

TURN = [
    SessionStarted(session="one", workspace="/somewhere", version="1"),
    ModelChosen(model="small"),
    UserSaid(text="\nfix the bug\nplease"),
    TurnStarted(turn=1),
    SpendReserved(spend="a", source="model", model="small", usd=0.5),
    SpendSettled(spend="a", usd=0.25),
    AssistantSaid(step=1, parts=(Text(text="I looked.\nIt is fixed.\n\n"),)),
    SpendReserved(spend="b", source="model", model="small", usd=1.0),
]


def only_row(store):
    rows = store.shelf.sessions()
    assert len(rows) == 1
    return rows[0]


def age(store, session="one"):
    """Sets the files' time back, as if the last write had been a while ago."""
    past = time.time_ns() - 10**10
    for path in store.directory(session).iterdir():
        os.utime(path, ns=(past, past))


def test_a_new_id_is_ten_plain_characters(store):
    async def making():
        journal = await store.create()
        await journal.close()
        return journal.session

    session = asyncio.run(making())
    assert len(session) == 10
    assert not set(session) & set("ilou")
    assert store.shelf.find(session[:6]) == session


def test_a_new_session_is_synced_once_by_its_file_and_by_each_folder_above(store, monkeypatch):
    synced, sync = [], os.fsync

    def noted(descriptor):
        synced.append(os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    disk = EverySync(synced)
    with store.shelf.new("one") as (_, folder):
        tables.create(folder / tables.FILE_NAME).close()
        made = folder.name
    disk.unregister()
    assert synced == [tables.FILE_NAME, made, store.shelf.folder.name, store.shelf.home.name]


class EverySync(apsw.VFS):
    """The way of SQLite to the disk, which notes every sync of a file."""

    def __init__(self, synced):
        self._synced, self._usual = synced, apsw.vfs_names()[0]
        super().__init__("every", self._usual, makedefault=True)

    def xOpen(self, name, flags):  # noqa: N802 - its name
        usual, synced = self._usual, self._synced

        class File(apsw.VFSFile):
            def xSync(self, flags):  # noqa: N802 - its name
                synced.append("by SQLite")
                super().xSync(flags)

        return File(usual, name, flags)


def test_an_id_is_not_made_twice(store):
    write(store, "one", [])
    with pytest.raises(UsageError, match="exists already"):
        asyncio.run(store.create("one"))
    assert [path.name for path in store.shelf.folder.iterdir()] == ["one"]


def test_a_prefix_finds_one_session_or_says_which_it_could_be(store):
    for session in ("abc1", "abd2", "x"):
        write(store, session, [])
    assert store.shelf.find("abc") == "abc1"
    assert store.shelf.find("x") == "x"
    with pytest.raises(UnknownSession, match="2 session ids begin with ab: abc1, abd2"):
        store.shelf.find("ab")
    with pytest.raises(UnknownSession, match="No session id begins with q"):
        store.shelf.find("q")


@pytest.mark.parametrize("name", ["../one", "..", ".", "", "/etc", "a/b", "a\0b", "-x", ".new-1"])
def test_an_id_cannot_lead_out_of_the_folder(store, name):
    write(store, "one", [])
    for use in (store.shelf.find, store.directory, store.shelf.file):
        with pytest.raises(UnknownSession):
            use(name)


def test_a_home_without_sessions_lists_none(store):
    assert store.shelf.sessions() == []
    with pytest.raises(UnknownSession):
        store.shelf.find("a")


def test_the_list_shows_what_the_journal_says(store):
    write(store, "one", [*TURN, TurnEnded(turn=1, ending="done")])
    row = only_row(store)
    assert (row.id, row.workspace, row.title, row.last_line) == (
        "one",
        "/somewhere",
        "fix the bug",
        "It is fixed.",
    )
    assert (row.state, row.cost_usd, row.model, row.events) == ("done", 1.25, "small", 9)
    assert 0 < row.started_us <= row.updated_us


STATES = {
    "new": TURN[:2],
    "crashed": TURN,
    "blocked": [*TURN, TurnEnded(turn=1, ending="blocked", detail="a person must decide")],
    "interrupted": [*TURN, TurnEnded(turn=1, ending="interrupted")],
}


@pytest.mark.parametrize("state", STATES)
def test_the_state_is_the_newest_ending_or_an_open_turn(store, state):
    write(store, "one", STATES[state])
    assert only_row(store).state == state


def test_an_open_turn_with_a_living_owner_is_running(store):
    async def listing():
        journal = await store.create("one")
        await journal.append(*TURN)
        states = [only_row(store).state]
        await journal.append(TurnEnded(turn=1, ending="failed", detail="no model"))
        states.append(only_row(store).state)
        assert only_row(store).last_line == "no model"
        await journal.append(UserSaid(text="again"))
        states.append(only_row(store).state)
        await journal.close()
        states.append(only_row(store).state)
        return states

    assert asyncio.run(listing()) == ["running", "failed", "running", "crashed"]


@pytest.mark.parametrize("cut", range(len(TURN) + 1))
def test_folding_in_two_steps_is_folding_in_one(store, cut):
    events = [*TURN, TurnEnded(turn=1, ending="done")]
    write(store, "one", events[:cut])
    store.shelf.sessions()
    write(store, "one", events[cut:])
    stepwise = only_row(store)
    (store.home / "index.sqlite").unlink()
    assert only_row(store) == stepwise


def test_only_changed_sessions_are_read_again(store):
    for session in ("one", "two"):
        write(store, session, TURN)
        age(store, session)
    before = store.shelf.sessions()
    # Rubbish of the same size and time: a list that still knows the session cannot have read it again.
    path = store.directory("one") / tables.FILE_NAME
    status = path.stat()
    path.write_bytes(bytes(status.st_size))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert store.shelf.sessions() == before
    write(store, "two", [UserSaid(text="more")])
    assert {row.id: row.events for row in store.shelf.sessions()} == {"one": 8, "two": 9}


@pytest.mark.parametrize(
    "spoil",
    [
        lambda index: index.unlink(),
        lambda index: index.write_bytes(b"rubbish" * 999),
        lambda index: index.write_bytes(b""),
        lambda index: index.write_bytes(index.read_bytes()[:4096]),
        lambda index: index.write_bytes(index.read_bytes().replace(b"fix the bug", b"fix the cat")),
    ],
    ids=["deleted", "rubbish", "empty", "truncated", "a changed word"],
)
def test_a_lost_or_damaged_index_is_rebuilt(store, spoil):
    write(store, "one", TURN)
    age(store)
    rows = store.shelf.sessions()
    spoil(store.home / "index.sqlite")
    assert store.shelf.sessions() == rows
    assert (store.home / "index.sqlite").stat().st_size > 4096
    assert store.shelf.sessions() == rows


def test_a_removed_session_leaves_the_list(store):
    write(store, "one", TURN)
    write(store, "two", TURN)
    assert len(store.shelf.sessions()) == 2
    shutil.rmtree(store.directory("one"))
    assert only_row(store).id == "two"


def test_a_damaged_session_is_listed_as_damaged(store):
    write(store, "good", TURN)
    write(store, "bad", TURN)
    (store.directory("bad") / tables.FILE_NAME).write_text("not a journal")
    (store.shelf.folder / "hollow").mkdir()
    rows = {row.id: row for row in store.shelf.sessions()}
    assert {name: row.state for name, row in rows.items()} == {
        "good": "crashed",
        "bad": "damaged",
        "hollow": "damaged",
    }
    assert "not a SQLite database" in rows["bad"].last_line


def test_reading_a_closed_session_leaves_no_trace(store):
    write(store, "one", TURN)
    before = sorted(path.name for path in store.directory("one").iterdir())
    file = store.shelf.file("one")
    assert len(file.read()) == 8
    assert file.verify().problem == ""
    file.close()
    store.shelf.sessions()
    assert sorted(path.name for path in store.directory("one").iterdir()) == before


def test_events_are_counted_whatever_their_kind(store):
    write(store, "one", [CallStarted(call=str(n), tool="t") for n in range(5)])
    row = only_row(store)
    assert (row.events, row.state, row.title) == (5, "new", "")


@pytest.mark.slow
def test_ten_thousand_sessions_are_listed_without_reading_them(store):
    write(store, "seed", TURN)
    for number in range(10_000):
        shutil.copytree(store.directory("seed"), store.shelf.folder / f"s{number:05}")
    for session in ("seed", *(f"s{number:05}" for number in range(10_000))):
        age(store, session)
    rows = store.shelf.sessions()
    for number in range(10_000):
        path = store.shelf.folder / f"s{number:05}" / tables.FILE_NAME
        status = path.stat()
        path.write_bytes(bytes(status.st_size))
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert store.shelf.sessions() == rows


def test_opening_that_is_cancelled_gives_the_session_back(store):
    write(store, "one", TURN)

    async def opening():
        for _ in range(20):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0):
                    await store.open("one")
        while True:
            with contextlib.suppress(JournalOwned):
                journal = await store.open("one")
                (added,) = await journal.append(TurnEnded(turn=1, ending="done"))
                await journal.close()
                return added.seq

    assert asyncio.run(opening()) == len(TURN) + 1
