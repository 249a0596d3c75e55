"""What every implementation of the `Sessions` port must do, as checks that any test runner can run.

Give each check an empty store. The checks of `mainspring.testing.journals` hold for the journals of a
store as well: `JournalOf` makes the place for them.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from datetime import datetime
from pathlib import Path

from mainspring.catalog import Sessions
from mainspring.errors import JournalDamaged, JournalOwned, UnknownSession, UsageError
from mainspring.events import (
    AssistantSaid,
    Event,
    GoalEnded,
    GoalSet,
    NoteAdded,
    SessionStarted,
    SpendReserved,
    SpendSettled,
    Text,
    TurnEnded,
    TurnStarted,
    UserSaid,
)
from mainspring.journal import Journal, JournalReader
from mainspring.testing.journals import raises


class JournalOf:
    """The journal of one session of a store, as a place for the checks of journals."""

    def __init__(self, sessions: Sessions, session: str = "one") -> None:
        self._sessions, self._session = sessions, session

    async def open(self) -> Journal:
        if self._session in await self._sessions.names():
            return await self._sessions.open(self._session)
        return await self._sessions.create(self._session)

    async def read(self) -> JournalReader:
        return await self._sessions.read(self._session)


async def an_empty_store_has_no_sessions(sessions: Sessions) -> None:
    assert (await sessions.names(), await sessions.rows(), await sessions.spends()) == ([], [], [])
    for use in (sessions.find, sessions.open, sessions.read, sessions.owner, sessions.fork, sessions.delete):
        for name in ("nothing", "../etc", ""):
            with raises(UnknownSession):
                await use(name)
    with raises(UnknownSession):
        sessions.directory("nothing")


async def a_session_is_made_once(sessions: Sessions) -> None:
    journal = await sessions.create("one")
    with raises(UsageError):
        await sessions.create("one")
    other = await sessions.create()
    assert journal.session == "one" != other.session
    assert sorted(await sessions.names()) == sorted(["one", other.session])
    with raises(JournalOwned):
        await sessions.delete("one")
    await journal.close()
    await other.close()
    assert not await sessions.delete("one", last_seq=1)  # it is not as whoever says so saw it
    assert await sessions.delete("one", last_seq=0)
    assert await sessions.names() == [other.session]


async def a_session_is_found_by_a_prefix(sessions: Sessions) -> None:
    for name in ("abc1", "abd1", "x", "xy"):
        await (await sessions.create(name)).close()
    assert await sessions.find("abc") == "abc1"
    assert await sessions.find("x") == "x"
    for prefix in ("ab", "q"):
        with raises(UnknownSession):
            await sessions.find(prefix)


async def names_and_rows_begin_with_what_changed_last(sessions: Sessions) -> None:
    for name in ("one", "two", "three"):
        await filled(sessions, name, UserSaid(text=f"  \n{name}, please"))
    async with closing(sessions.open("two")) as journal:
        await journal.append(*turn("Two it is."))
        for _ in range(1000):  # until the clock has moved on, however coarse it is
            await journal.append(NoteAdded(text="later"))
            if (await sessions.names())[0] == "two":
                break
    assert (await sessions.names())[0] == "two"
    rows = await sessions.rows()
    assert rows[0].id == "two"
    assert rows[0].title == "two, please"
    assert rows[0].last_line == "Two it is."
    assert (rows[0].state, rows[0].workspace) == ("done", "/work")
    assert rows[0].started_us <= rows[0].updated_us


async def a_row_says_whether_somebody_is_at_work(sessions: Sessions) -> None:
    await filled(sessions, "turn", UserSaid(text="go"), TurnStarted(turn=1))
    await filled(sessions, "goal", GoalSet(text="the goal"))
    await filled(sessions, "ended", GoalSet(text="a goal"), GoalEnded(ending="done", is_verified=True))
    states = {row.id: (row.state, row.goal_state) for row in await sessions.rows()}
    assert (states["turn"][0], states["goal"][1], states["ended"][1]) == ("crashed", "interrupted", "done")
    async with closing(sessions.open("turn")), closing(sessions.open("goal")):
        states = {row.id: (row.state, row.goal_state) for row in await sessions.rows()}
        assert (states["turn"][0], states["goal"][1]) == ("running", "running")


async def the_owner_is_whoever_has_it_open(sessions: Sessions) -> None:
    journal = await sessions.create("one")
    owner = await sessions.owner("one")
    assert owner is not None
    assert (owner.pid, owner.is_alive) == (os.getpid(), True)
    with raises(JournalOwned):
        await sessions.open("one")
    reader = await sessions.read("one")
    assert await reader.last_seq() == 0
    await reader.close()
    await journal.close()
    assert await sessions.owner("one") is None


async def a_lock_has_one_holder(sessions: Sessions) -> None:
    assert await sessions.lock_owner("places/one") is None
    async with sessions.lock("places/one"):
        owner = await sessions.lock_owner("places/one")
        assert owner is not None
        assert owner.is_alive
        with raises(JournalOwned):
            async with sessions.lock("places/one"):
                raise AssertionError("two have the lock")
        async with sessions.lock("places/two"):
            pass
    assert await sessions.lock_owner("places/one") is None
    async with sessions.lock("places/one"):
        pass


async def spends_are_by_purpose_and_a_fork_does_not_pay_again(sessions: Sessions) -> None:
    await filled(sessions, "one", *_spent("s1", 0.25), _reserved("s2", 0.5))
    fork, _ = await sessions.fork("one")
    async with closing(sessions.open(fork)) as journal:
        await journal.append(*_spent("s3", 0.125))
    found = {each.id: each.spent for each in await sessions.spends()}
    (purpose,) = found["one"]
    assert (purpose.day, purpose.model) == (datetime.now().astimezone().date().isoformat(), "m")
    assert (found["one"][purpose].usd, found["one"][purpose].unsettled) == (0.75, 1)
    assert sum(spent.usd for spent in found[fork].values()) == 0.125


async def the_day_is_held_by_one_at_a_time(sessions: Sessions) -> None:
    await filled(sessions, "one", *_spent("s1", 0.25))
    seen: list[float] = []

    async def spend(name: str) -> None:
        async with sessions.today().held() as spent:
            seen.append(spent.usd)
            await asyncio.sleep(0)
            await filled(sessions, name, *_spent("s1", 0.25))

    async with asyncio.TaskGroup() as tasks:
        for name in ("two", "three", "four"):
            tasks.create_task(spend(name))
    assert sorted(seen) == [0.25, 0.5, 0.75]


async def a_fork_begins_as_its_parent_and_goes_its_own_way(sessions: Sessions) -> None:
    async with closing(sessions.create("one")) as journal:
        await journal.append(started("one"))
        blob = await journal.put(b"kept")
        await journal.append(AssistantSaid(step=1, parts=(Text(text="x" * 20_000),)), NoteAdded(text="no"))
    fork, shared = await sessions.fork("one", at=2, workspace="/elsewhere")
    assert shared == 2
    async with closing(sessions.open(fork)) as journal:
        first, second = await journal.read()
        assert isinstance(first.event, SessionStarted)
        assert (first.event.session, first.event.parent, first.event.parent_seq) == (fork, "one", 2)
        assert first.event.workspace == "/elsewhere"
        await journal.append(NoteAdded(text="on"))
        assert (await journal.verify()).problem == ""
    reader = await sessions.read("one")
    events = await reader.read()
    assert events[1] == second
    assert [type(item.event) for item in events] == [SessionStarted, AssistantSaid, NoteAdded]
    assert await reader.get(blob) == b"kept"
    await reader.close()
    for at in (0, 4):
        with raises(UsageError):
            await sessions.fork("one", at=at)


async def a_session_is_composed_whole_or_not_at_all(sessions: Sessions) -> None:
    def told(session: str, folder: Path) -> Iterator[tuple[int, Event]]:
        (folder / "beside").write_text("kept")
        yield 5_000_000, started(session)
        yield 4_000_000, UserSaid(text="y" * 20_000)

    def broken(session: str, _folder: Path) -> Iterator[tuple[int, Event]]:
        yield 1, started(session)
        raise ZeroDivisionError

    made = await sessions.compose(told, files={"note": b"n"})
    assert sessions.files(made).read("note") == b"n"
    reader = await sessions.read(made)
    recorded = await reader.read()
    assert [item.time_us for item in recorded] == [5_000_000, 5_000_000]
    assert isinstance(recorded[1].event, UserSaid)
    assert len(recorded[1].event.text) == 20_000
    assert (await reader.verify()).problem == ""
    await reader.close()
    assert (sessions.directory(made) / "beside").read_text() == "kept"
    with raises(ZeroDivisionError):
        await sessions.compose(broken, session="broken")
    assert await sessions.names() == [made]


async def a_session_is_exported_and_brought_in_with_the_same_hashes(sessions: Sessions) -> None:
    async with closing(sessions.create("one")) as journal:
        blob = await journal.put(b"\x00 kept")
        await journal.append(started("one"), UserSaid(text="z" * 20_000), UserSaid(text="short"))
        verdict = await journal.verify()
    out = io.BytesIO()
    header = await sessions.export("one", out, environment={"host": "here"})
    assert (header.session, header.events, header.head) == ("one", 3, verdict.head)
    lines = out.getvalue().splitlines(keepends=True)
    with raises(UsageError):
        await sessions.import_lines(lines)
    renamed = [lines[0].replace(b'"session":"one"', b'"session":"two"'), *lines[1:]]
    with raises(JournalDamaged):
        await sessions.import_lines(renamed[:-1])
    assert await sessions.names() == ["one"]
    assert await sessions.import_lines(renamed, files={"note": b"n"}) == "two"
    assert sessions.files("two").read("note") == b"n"
    reader = await sessions.read("two")
    assert (await reader.verify()).head == verdict.head
    assert await reader.get(blob) == b"\x00 kept"
    await reader.close()


async def every_session_has_a_folder_of_its_own(sessions: Sessions) -> None:
    for name in ("one", "two"):
        await filled(sessions, name)
        (sessions.directory(name) / "note").write_text(name)
    fork, _ = await sessions.fork("one")
    assert (sessions.directory("one") / "note").read_text() == "one"
    assert not (sessions.directory(fork) / "note").exists()


async def files_beside_a_journal_are_of_its_session_and_go_with_it(sessions: Sessions) -> None:
    for name in ("one", "two"):
        await (await sessions.create(name)).close()
    for files in (sessions.files("one"), sessions.secret_files("one")):
        files.write("inbox/a.json", b"x")
        assert files.names("inbox") == ["a.json"]
    assert sessions.files("two").names("inbox") == []
    sessions.files("two").write("inbox/b.json", b"y")
    await sessions.delete("one")
    await (await sessions.create("one")).close()
    for files in (sessions.files("one"), sessions.secret_files("one")):
        assert files.names("inbox") == []
    assert sessions.files("two").read("inbox/b.json") == b"y"


async def a_parent_stays_until_its_forks_go(sessions: Sessions) -> None:
    await filled(sessions, "one")
    fork, _ = await sessions.fork("one", files={"note": b"n"})
    assert sessions.files(fork).read("note") == b"n"
    assert not await sessions.delete("one")
    assert set(await sessions.names()) == {fork, "one"}
    assert await sessions.delete("one", also=[fork])
    assert await sessions.delete(fork)
    assert await sessions.names() == []


async def a_fork_in_the_moment_of_a_deletion_has_its_parent(sessions: Sessions) -> None:
    for number in range(20):
        name = f"s{number}"
        await filled(sessions, name)
        forked, is_gone = await asyncio.gather(
            sessions.fork(name), sessions.delete(name), return_exceptions=True
        )
        if is_gone is True:
            assert isinstance(forked, UnknownSession), repr(forked)
        else:
            assert is_gone is False
            assert isinstance(forked, tuple)
        assert (name in await sessions.names()) is not is_gone


CHECKS: tuple[Callable[[Sessions], Awaitable[None]], ...] = (
    an_empty_store_has_no_sessions,
    files_beside_a_journal_are_of_its_session_and_go_with_it,
    a_session_is_made_once,
    a_session_is_found_by_a_prefix,
    names_and_rows_begin_with_what_changed_last,
    a_row_says_whether_somebody_is_at_work,
    the_owner_is_whoever_has_it_open,
    a_lock_has_one_holder,
    spends_are_by_purpose_and_a_fork_does_not_pay_again,
    a_parent_stays_until_its_forks_go,
    a_fork_in_the_moment_of_a_deletion_has_its_parent,
    the_day_is_held_by_one_at_a_time,
    a_fork_begins_as_its_parent_and_goes_its_own_way,
    a_session_is_composed_whole_or_not_at_all,
    a_session_is_exported_and_brought_in_with_the_same_hashes,
    every_session_has_a_folder_of_its_own,
)


def started(session: str) -> SessionStarted:
    return SessionStarted(session=session, workspace="/work", version="0")


def turn(text: str) -> tuple[Event, ...]:
    return (
        TurnStarted(turn=1),
        AssistantSaid(step=1, parts=(Text(text=text),)),
        TurnEnded(turn=1, ending="done", steps=1),
    )


def _reserved(spend: str, usd: float) -> SpendReserved:
    return SpendReserved(spend=spend, usd=usd, model="m", source="turn")


def _spent(spend: str, usd: float) -> tuple[Event, ...]:
    return _reserved(spend, usd * 2), SpendSettled(spend=spend, usd=usd)


async def filled(sessions: Sessions, name: str, *events: Event) -> None:
    async with closing(sessions.create(name)) as journal:
        await journal.append(started(name), *events)


@contextlib.asynccontextmanager
async def closing(opening: Awaitable[Journal]) -> AsyncGenerator[Journal]:
    journal = await opening
    try:
        yield journal
    finally:
        await journal.close()
