"""Large journals: what is asked for is found without reading the rest."""

import asyncio
from collections.abc import Collection

import apsw

from mainspring.catalog.sqlite import SqliteSessions
from mainspring.context.history import ended_calls
from mainspring.events import CallEnded, NoteAdded, Recorded, TurnEnded, TurnStarted, UserSaid
from mainspring.testing.memory import MemoryJournal

MANY = 2000


def test_rare_events_are_found_without_reading_those_between_them(tmp_path):
    async def filled() -> None:
        journal = await SqliteSessions(tmp_path).create("large")
        said = [UserSaid(text="go"), TurnStarted(turn=1)]
        long = [CallEnded(call=f"c{number}", outcome="ok", output="x" * 4000) for number in range(MANY)]
        await journal.append(*said, *long, TurnEnded(turn=1, ending="done"))
        await journal.close()

    asyncio.run(filled())
    file = SqliteSessions(tmp_path).shelf.file("large")
    found = file.read(kinds=("UserSaid", "TurnStarted", "TurnEnded"))
    pages_read, _ = file._connection.status(apsw.SQLITE_DBSTATUS_CACHE_MISS)
    assert [item.seq for item in found] == [1, 2, MANY + 3]
    assert pages_read < 50
    file.close()


def test_frequent_and_rare_kinds_come_in_order_page_by_page(tmp_path):
    async def filled() -> list[int]:
        journal = await SqliteSessions(tmp_path).create("mixed")
        events = [UserSaid(text="x") if number % 700 else NoteAdded(text="y") for number in range(MANY)]
        await journal.append(*events)
        read: list[int] = []
        while page := await journal.read(after=len(read), kinds=("NoteAdded", "UserSaid"), limit=300):
            read += [item.seq for item in page]
        await journal.close()
        return read

    assert asyncio.run(filled()) == list(range(1, MANY + 1))


class Counting(MemoryJournal):
    """Knows how many events were read."""

    events_read = 0

    async def read(
        self, *, after: int = 0, until: int | None = None, kinds: Collection[str] = (), limit: int = 1000
    ) -> list[Recorded]:
        page = await super().read(after=after, until=until, kinds=kinds, limit=limit)
        self.events_read += len(page)
        return page


def test_results_of_recent_calls_are_found_without_reading_the_old_ones():
    async def found(*calls: str) -> tuple[list[str], int]:
        journal = Counting()
        await journal.append(
            *(CallEnded(call=f"c{number}", outcome="ok", output="") for number in range(5 * MANY))
        )
        return list(await ended_calls(journal, calls)), journal.events_read

    newest, count = asyncio.run(found())
    assert newest[-1] == f"c{5 * MANY - 1}"
    assert count == len(newest) == 1000
    recent, older = f"c{5 * MANY - 1}", f"c{5 * MANY - 1200}"
    assert asyncio.run(found(recent, older)) == ([older, recent], 2000)
    assert asyncio.run(found("c0", recent)) == (["c0", recent], 5 * MANY)
    assert asyncio.run(found("nothing")) == ([], 5 * MANY)


class Measured(bytes):
    """Counts how often somebody asks for the length of any of these."""

    asked = 0

    def __len__(self) -> int:
        Measured.asked += 1
        return super().__len__()


def test_many_small_blobs_are_kept_without_going_over_those_that_wait(tmp_path):
    sessions = SqliteSessions(tmp_path)
    contents = [Measured(f"{number}\n".encode() * 200) for number in range(MANY)]

    async def keep() -> list[bytes]:
        journal = await sessions.create("blobs")
        blobs = [await journal.put(data) for data in contents]
        reader = await sessions.read("blobs")
        early = [await reader.get(blob) for blob in blobs[:100]]  # not all wait in memory for an append
        await journal.append(UserSaid(text="x"))
        assert [await reader.get(blob) for blob in blobs] == contents
        await reader.close()
        await journal.close()
        return early

    assert asyncio.run(keep()) == contents[:100]
    assert Measured.asked < 20 * MANY
