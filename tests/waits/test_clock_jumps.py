"""Clocks that are set forward and back while something waits: real processes, whose clock is faketime's."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from mainspring.events import Event, OnFile, OnTime, WaitEnded, WaitStarted
from mainspring.session.session import runtime_of
from tests.waits.asleep import Asleep, wanted

S = 1_000_000
DAY, HOUR = 86400 * S, 3600 * S
_LIBRARY = next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))), None)
needs_faketime = pytest.mark.skipif(_LIBRARY is None, reason="faketime is not installed (Debian: faketime)")


def now_us() -> int:
    return time.time_ns() // 1000


class Waiter:
    """A process that waits; its clock is `set` while it does."""

    def __init__(self, folder: Path, started: WaitStarted, clock: str) -> None:
        self._offset = folder / "offset"
        self.set(clock)
        self._process = subprocess.Popen(
            [
                sys.executable,
                str(Path(__file__).with_name("waiter.py")),
                str(folder),
                msgspec.json.encode(started).decode(),
            ],
            stdout=subprocess.PIPE,
            env={
                **os.environ,
                "LD_PRELOAD": str(_LIBRARY),
                "FAKETIME_TIMESTAMP_FILE": str(self._offset),
                "FAKETIME_NO_CACHE": "1",
                "FAKETIME_DONT_FAKE_MONOTONIC": "1",
                "DONT_FAKE_MONOTONIC": "1",
            },
        )
        assert self._process.stdout is not None
        self._lines = self._process.stdout
        self.recorded = msgspec.json.decode(self._lines.readline(), type=WaitStarted)

    def set(self, clock: str) -> None:
        fresh = self._offset.with_suffix(".new")
        fresh.write_text(f"{clock}\n")
        fresh.replace(self._offset)

    def ended(self) -> WaitEnded:
        """How its wait ended, within a time that is far below a day."""
        return msgspec.json.decode(self._lines.readline(), type=WaitEnded)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._lines.close()


@contextmanager
def waiting(folder: Path, started: WaitStarted, clock: str = "+0") -> Iterator[Waiter]:
    waiter = Waiter(folder, started, clock)
    try:
        yield waiter
    finally:
        waiter.kill()


@needs_faketime
@pytest.mark.parametrize("is_killed", [False, True])
def test_a_clock_that_is_set_back_by_a_day_prolongs_no_wait(tmp_path: Path, *, is_killed: bool) -> None:
    wait = wanted(OnTime(at_us=now_us() + 2 * S), deadline_us=now_us() + 60 * S)
    with waiting(tmp_path, wait) as waiter:
        if not is_killed:
            waiter.set("-1d")
            assert waiter.ended().cause == "met"
            return
    with waiting(tmp_path, wait, clock="-1d") as waiter:
        assert waiter.recorded.began_us > 0
        assert waiter.ended().cause == "met"


@needs_faketime
def test_a_deadline_is_kept_by_a_clock_that_is_set_back(tmp_path: Path) -> None:
    wait = wanted(OnFile(path="never"), deadline_us=now_us() + 2 * S)
    with waiting(tmp_path, wait):
        pass
    with waiting(tmp_path, wait, clock="-1d") as waiter:
        assert waiter.ended().cause == "deadline"


@needs_faketime
@pytest.mark.parametrize("is_killed", [False, True])
def test_a_clock_that_is_set_forward_ends_a_wait_for_a_time_that_is_past(
    tmp_path: Path, *, is_killed: bool
) -> None:
    wait = wanted(OnTime(at_us=now_us() + HOUR), deadline_us=now_us() + 2 * HOUR)
    with waiting(tmp_path, wait) as waiter:
        if not is_killed:
            waiter.set("+1d")
            ended = waiter.ended()
            assert (ended.cause, ended.late_s > 20 * 3600) == ("met", True)
            return
    with waiting(tmp_path, wait, clock="+1d") as waiter:
        ended = waiter.ended()
        assert (ended.cause, ended.late_s > 20 * 3600) == ("met", True)


@pytest.mark.parametrize("boot", ["", "another"])
def test_after_a_restart_of_the_machine_a_wait_lasts_at_most_as_long_as_was_asked_for(
    tmp_path: Path, boot: str
) -> None:
    """Also one of an older version, which did not write down the boot."""
    began_us = now_us() + DAY
    asleep = Asleep(tmp_path, clock=lambda: began_us - DAY)
    wait: Event = wanted(
        OnTime(at_us=began_us + S), began_us=began_us, boot=boot, began_up_s=1e9 if boot else 0.0
    )

    async def left_open() -> None:
        async with asleep.awake() as session:
            await runtime_of(session).record(wait)

    asyncio.run(left_open())
    assert asleep.wait(OnTime(at_us=began_us + S)).cause == "met"
