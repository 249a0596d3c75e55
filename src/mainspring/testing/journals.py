"""What every implementation of the `Journal` port must do, as checks that any test runner can run.

Give each check a `JournalPlace`: somewhere empty in which the implementation opens journals. A journal that
was closed and opened again must be the same journal.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Protocol

import msgspec

from mainspring.errors import JournalDamaged, JournalOwned
from mainspring.events import (
    AssistantSaid,
    Blob,
    CallStarted,
    Event,
    NoteAdded,
    Recorded,
    Text,
    TextDelta,
    Unknown,
    UserSaid,
)
from mainspring.journal import Journal, JournalReader


class JournalPlace(Protocol):
    """One session's journal, wherever the implementation keeps it."""

    async def open(self) -> Journal:
        """The journal for writing; it is empty at the first time."""
        ...

    async def read(self) -> JournalReader:
        """The journal for reading, while it may be open for writing."""
        ...


async def events_come_back_as_they_were_appended(place: JournalPlace) -> None:
    journal = await place.open()
    said = [UserSaid(text="ünïcode \u2028 \x00"), AssistantSaid(step=1, parts=(Text(text="yes"),))]
    recorded = await journal.append(*said)
    assert [item.event for item in recorded] == said
    assert [item.seq for item in recorded] == [1, 2]
    assert await journal.read() == list(recorded)
    assert await journal.last_seq() == 2
    await journal.close()


async def a_closed_journal_opens_with_everything_in_it(place: JournalPlace) -> None:
    journal = await place.open()
    first = await journal.append(UserSaid(text="one"))
    blob = await journal.put(b"kept without any append after it")
    await journal.close()
    await journal.close()
    journal = await place.open()
    second = await journal.append(UserSaid(text="two"))
    assert await journal.read() == [*first, *second]
    assert second[0].seq == 2
    assert second[0].time_us >= first[0].time_us
    assert await journal.get(blob) == b"kept without any append after it"
    assert (await journal.verify()).problem == ""
    await journal.close()


async def an_empty_journal_is_sound(place: JournalPlace) -> None:
    journal = await place.open()
    assert await journal.append() == ()
    assert await journal.last_seq() == 0
    assert await journal.read() == []
    assert await journal.last() is None
    assert await journal.last("UserSaid") is None
    verdict = await journal.verify()
    assert (verdict.events, verdict.blobs, verdict.problem) == (0, 0, "")
    await journal.close()


async def reading_is_by_number_kind_and_page(place: JournalPlace) -> None:
    journal = await place.open()
    await journal.append(*(UserSaid(text=str(n)) if n % 3 else NoteAdded(text=str(n)) for n in range(1, 31)))
    assert await _numbers(journal, after=10, until=13) == [11, 12, 13]
    assert await _numbers(journal, limit=4) == [1, 2, 3, 4]
    assert await _numbers(journal, after=28, limit=100) == [29, 30]
    assert await _numbers(journal, after=30) == []
    assert await _numbers(journal, kinds=("NoteAdded",), after=5, limit=3) == [6, 9, 12]
    assert await _numbers(journal, kinds=("NoteAdded", "UserSaid"), until=3) == [1, 2, 3]
    assert await _numbers(journal, kinds=("Nothing",)) == []
    assert await _number_of(journal.last()) == 30
    assert await _number_of(journal.last("UserSaid")) == 29
    assert await _number_of(journal.last("UserSaid", "NoteAdded", "Nothing")) == 30
    assert await journal.last("Nothing") is None
    assert await journal.count("NoteAdded") == 10
    assert await journal.count("NoteAdded", after=6, until=12) == 2
    assert await journal.count("Nothing") == 0
    await journal.close()


async def a_kind_from_the_future_is_kept_as_it_was(place: JournalPlace) -> None:
    journal = await place.open()
    event = Unknown(kind="Invented", body=msgspec.Raw(b'{"much":[1,2.50,"x"]}'))
    await journal.append(event)
    found = (await journal.read())[0]
    assert found.kind == "Invented"
    assert isinstance(found.event, Unknown)
    assert bytes(found.event.body) == bytes(event.body)
    await journal.close()


async def what_is_only_shown_is_refused(place: JournalPlace) -> None:
    journal = await place.open()
    with raises(TypeError):
        await journal.append(UserSaid(text="x"), TextDelta(text="y"))
    assert await journal.last_seq() == 0
    await journal.close()


async def long_bodies_come_back_whole(place: JournalPlace) -> None:
    journal = await place.open()
    texts = ["x" * size for size in (16_000, 16_384, 16_385, 3_000_000)]
    await journal.append(*(UserSaid(text=text) for text in texts))
    await journal.append(UserSaid(text=texts[3]))
    assert [_text(item.event) for item in await journal.read()] == [*texts, texts[3]]
    verdict = await journal.verify()
    assert verdict.problem == ""
    assert verdict.events == 5
    assert await journal.chain_hash(5) == verdict.head
    await journal.close()


async def every_event_has_a_hash_of_its_own(place: JournalPlace) -> None:
    journal = await place.open()
    await journal.append(*(UserSaid(text="the same") for _ in range(3)))
    hashes = [await journal.chain_hash(seq) for seq in range(5)]
    assert len(set(hashes[1:4])) == 3
    assert (hashes[0], hashes[4]) == ("", "")
    await journal.append(UserSaid(text="more"))
    assert [await journal.chain_hash(seq) for seq in range(4)] == hashes[:4]
    await journal.close()


async def blobs_are_kept_once_by_their_content(place: JournalPlace) -> None:
    journal = await place.open()
    small, large = b"\x00\xff" * 50, bytes(range(256)) * 9000
    for data in (small, large, b""):
        blob = await journal.put(data, "application/octet-stream")
        again = await journal.put(data, "application/octet-stream")
        assert blob == again
        assert blob.size == len(data)
        assert await journal.get(blob) == data
    await journal.append(UserSaid(text="x"))
    assert (await journal.verify()).blobs == 3
    assert await journal.get(await journal.put(large)) == large
    with raises(JournalDamaged):
        await journal.get(Blob(sha256="0" * 64, size=1))
    await journal.close()


async def appends_at_once_are_each_whole_and_in_order(place: JournalPlace) -> None:
    journal = await place.open()
    heard: list[int] = []
    journal.subscribe(lambda recorded: heard.extend(item.seq for item in recorded))
    groups = [[CallStarted(call=f"{n}.{part}", tool="t") for part in range(n % 4 + 1)] for n in range(100)]
    async with asyncio.TaskGroup() as tasks:
        appends = [tasks.create_task(_all_of(journal, group)) for group in groups]
    for group, append in zip(groups, appends, strict=True):
        recorded = append.result()
        assert [item.event for item in recorded] == group
        assert [item.seq for item in recorded] == list(range(recorded[0].seq, recorded[0].seq + len(group)))
    total = sum(map(len, groups))
    assert heard == list(range(1, total + 1))
    everything = await journal.read()
    assert [item.seq for item in everything] == heard
    assert [item.time_us for item in everything] == sorted(item.time_us for item in everything)
    await journal.close()


async def the_subscriber_hears_before_the_caller(place: JournalPlace) -> None:
    journal = await place.open()
    order: list[str] = []
    journal.subscribe(lambda recorded: order.append(f"heard {recorded[0].seq}"))
    for number in (1, 2):
        await journal.append(UserSaid(text="x"))
        order.append(f"returned {number}")
    assert order == ["heard 1", "returned 1", "heard 2", "returned 2"]
    await journal.close()


async def a_cancelled_append_is_written_and_heard_of_once(place: JournalPlace) -> None:
    journal = await place.open()
    heard: list[Sequence[Recorded]] = []
    journal.subscribe(heard.append)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0):
            await journal.append(UserSaid(text="cancelled"))
    assert len(heard) == 1, "the cancellation went on before the event was durable"
    after = await journal.append(UserSaid(text="after"))
    assert [[_text(item.event) for item in recorded] for recorded in heard] == [["cancelled"], ["after"]]
    assert after[0].seq == 2
    assert len(await journal.read()) == 2
    await journal.close()


async def what_need_not_be_durable_at_once_is_so_soon(place: JournalPlace) -> None:
    journal = await place.open()
    heard: list[str] = []
    durable = asyncio.Event()

    def on_durable(seq: int) -> None:
        heard.append(f"durable {seq}")
        durable.set()

    journal.subscribe(lambda recorded: heard.append(f"heard {recorded[-1].seq}"), on_durable)
    await journal.append(UserSaid(text="one"), is_durable=False)
    await durable.wait()
    assert heard == ["heard 1", "durable 1"]
    await journal.append(UserSaid(text="two"), UserSaid(text="three"), is_durable=False)
    await journal.append(UserSaid(text="four"))
    assert heard[-1] == "durable 4"
    assert [item for item in heard if item.startswith("heard")] == ["heard 1", "heard 3", "heard 4"]
    await journal.append(UserSaid(text="five"), is_durable=False)
    await journal.close()
    reader = await place.read()
    assert await _numbers(reader) == [1, 2, 3, 4, 5]
    assert (await reader.verify()).problem == ""
    await reader.close()


async def readers_see_what_is_durable_while_it_is_written(place: JournalPlace) -> None:
    journal = await place.open()
    await journal.append(UserSaid(text="one"))
    reader = await place.read()
    assert reader.session == journal.session
    assert await _numbers(reader) == [1]
    blob = await journal.put(b"seen by readers")
    await journal.append(UserSaid(text="two"))
    assert await _numbers(reader) == [1, 2]
    assert await reader.get(blob) == b"seen by readers"
    await journal.close()
    assert await _numbers(reader) == [1, 2]
    journal = await place.open()
    await journal.append(UserSaid(text="three"))
    assert await reader.last_seq() == 3
    assert await _number_of(reader.last()) == 3
    await reader.close()
    await journal.close()


async def a_second_writer_is_refused_until_the_first_closes(place: JournalPlace) -> None:
    journal = await place.open()
    with raises(JournalOwned):
        await place.open()
    await journal.append(UserSaid(text="still mine"))
    await journal.close()
    journal = await place.open()
    assert await journal.last_seq() == 1
    await journal.close()


CHECKS: tuple[Callable[[JournalPlace], Awaitable[None]], ...] = (
    events_come_back_as_they_were_appended,
    a_closed_journal_opens_with_everything_in_it,
    an_empty_journal_is_sound,
    reading_is_by_number_kind_and_page,
    a_kind_from_the_future_is_kept_as_it_was,
    what_is_only_shown_is_refused,
    long_bodies_come_back_whole,
    every_event_has_a_hash_of_its_own,
    blobs_are_kept_once_by_their_content,
    appends_at_once_are_each_whole_and_in_order,
    the_subscriber_hears_before_the_caller,
    a_cancelled_append_is_written_and_heard_of_once,
    what_need_not_be_durable_at_once_is_so_soon,
    readers_see_what_is_durable_while_it_is_written,
    a_second_writer_is_refused_until_the_first_closes,
)


async def _numbers(
    reader: JournalReader,
    *,
    after: int = 0,
    until: int | None = None,
    kinds: Sequence[str] = (),
    limit: int = 1000,
) -> list[int]:
    return [item.seq for item in await reader.read(after=after, until=until, kinds=kinds, limit=limit)]


async def _all_of(journal: Journal, events: Sequence[Event]) -> Sequence[Recorded]:
    return await journal.append(*events)


async def _number_of(newest: Awaitable[Recorded | None]) -> int:
    found = await newest
    assert found is not None
    return found.seq


@contextlib.contextmanager
def raises(kind: type[BaseException], says: str = "") -> Generator[None]:
    """What `pytest.raises` is, for any test runner."""
    try:
        yield
    except kind as error:
        if says in str(error):
            return
    raise AssertionError(f"no {kind.__name__} was raised")


def _text(event: Event) -> str:
    assert isinstance(event, UserSaid)
    return event.text
