"""The queue of a shared store, used by machines that end at any moment and whose clocks do not agree."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from mainspring.catalog import QueuedSession, Release, WorkerRow
from mainspring.catalog.postgres import PostgresSessions
from mainspring.catalog.postgres_queue import PostgresQueue
from mainspring.catalog.queue import ClaimChoice, Claimed
from mainspring.events import NoteAdded, SessionStarted
from tests.postgres import postgres

ME = WorkerRow(id="me", queue="default")
HOUR_NS = 3600 * 10**9


async def take_all(claimed: Claimed) -> ClaimChoice:
    return ClaimChoice(taken=[row.id for _, row in claimed.offered])


async def queued(folder: Path, sessions: PostgresSessions | None = None) -> PostgresQueue:
    """A queue with one session, which a worker has taken."""
    sessions = sessions or PostgresSessions(await postgres().new_store(), folder)
    journal = await sessions.create("one")
    await journal.append(SessionStarted(session="one", workspace="/work", version="0"))
    await journal.close()
    queue = PostgresQueue(sessions)
    await queue.put(QueuedSession(session="one", queue="default"))
    await queue.hello(ME, 15.0)
    assert [item.session for item in await queue.claim(ME, (), 1, take_all)] == ["one"]
    return queue


def test_that_a_drained_worker_interrupted_a_session_is_known_until_it_was_worked_on(tmp_path: Path) -> None:
    async def given_back() -> None:
        queue = await queued(tmp_path)
        await queue.draining(["one"])
        await queue.release("one", "me", Release(is_drained=True))
        for _ in range(2):  # the first one that takes it dies before it has begun
            assert [item.is_drained for item in await queue.claim(ME, (), 1, take_all)] == [True]
        await queue.release("one", "me", Release())
        assert [item.is_drained for item in await queue.claim(ME, (), 1, take_all)] == [False]
        await queue.close()

    asyncio.run(given_back())


def test_a_worker_is_told_when_the_right_of_another_one_ends(tmp_path: Path) -> None:
    async def asked() -> None:
        queue = await queued(tmp_path)
        other = WorkerRow(id="other", queue="default")
        await queue.hello(ME, 100.0)
        next_s = await queue.next_s(other)
        assert next_s is not None
        assert 90 < next_s <= 100
        assert await queue.next_s(ME) is None
        await queue.release("one", "me", Release(retry_us=time.time_ns() // 1000 + 50_000_000))
        next_s = await queue.next_s(other)
        assert next_s is not None
        assert 40 < next_s <= 50
        await queue.close()

    asyncio.run(asked())


@pytest.mark.parametrize("wrong_ns", [-HOUR_NS, 0, HOUR_NS])
def test_a_machine_with_a_wrong_clock_makes_nobody_wait_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong_ns: int
) -> None:
    async def given_back() -> None:
        queue = await queued(tmp_path)
        right = time.time_ns
        monkeypatch.setattr(time, "time_ns", lambda: right() + wrong_ns)
        at_us = time.time_ns() // 1000 + 60_000_000
        await queue.release("one", "me", Release(crashes=1, retry_us=at_us, wake_us=at_us))
        monkeypatch.setattr(time, "time_ns", right)
        item = await queue.look("one")
        assert item is not None
        for told_us in (item.retry_us, item.wake_us):
            assert told_us is not None
            assert 0 < told_us - time.time_ns() // 1000 <= 60_000_000
        await queue.close()

    asyncio.run(given_back())


def test_what_was_told_to_a_session_while_it_was_given_back_is_looked_at(tmp_path: Path) -> None:
    async def given_back() -> None:
        sessions = PostgresSessions(await postgres().new_store(), tmp_path)
        queue = await queued(tmp_path, sessions)
        (row,) = await queue.standing(["one"])
        journal = await sessions.open("one")
        await journal.append(NoteAdded(text="an answer"))
        await journal.close()
        await queue.release("one", "me", Release(idle_seq=row.events))
        assert [item.session for item in await queue.claim(ME, (), 1, take_all)] == ["one"]
        (row,) = await queue.standing(["one"])
        await queue.release("one", "me", Release(idle_seq=row.events))
        assert await queue.claim(ME, (), 1, take_all) == []
        await queue.close()

    asyncio.run(given_back())
