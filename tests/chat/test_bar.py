"""The line at the bottom: what matters most stays when there is little room."""

from __future__ import annotations

import asyncio
from io import StringIO
from pathlib import Path

import pytest
from msgspec.structs import replace

from mainspring.app.operations.status import SessionStatus
from mainspring.chat.bar import bar_line
from mainspring.chat.loop import ChatLoop
from mainspring.chat.palette import Palette, theme_of
from mainspring.chat.plain_screen import PlainScreen
from mainspring.chat.seat import ChatOptions
from mainspring.events import OnProcess, OnTime, WaitStarted
from mainspring.settings import load_config

NOW_US = 1_800_000_000_000_000
STATUS = SessionStatus(
    session="s1",
    model="anthropic/claude-sonnet",
    effort="high",
    mode="ask",
    sandbox="bwrap",
    tokens=50_000,
    window=200_000,
    spent_usd=0.5,
    cap_usd=2.0,
    left_usd=1.5,
    processes=2,
    waits=(WaitStarted(wait="w1", conditions=(), deadline_us=NOW_US + 125_000_000),),
    is_running=True,
)


def shown(status: SessionStatus, columns: int, queued: int = 0) -> str:
    palette = Palette(is_styled=False)
    return bar_line(status, palette, columns=columns, now_us=NOW_US, queued=queued)


def test_a_wide_bar_has_everything_and_counts_a_wait_down() -> None:
    line = shown(STATUS, 300, queued=1)
    facts = ("claude-sonnet high", "ask", "sandbox bwrap", "context 25%", "of $2", "2 processes", "1 queued")
    assert all(fact in line for fact in facts), line
    assert "waiting, at most 2:05" in line


@pytest.mark.parametrize(
    ("cap", "said"), [(1.0, "$1"), (2.5, "$2.50"), (0.0125, "$0.0125"), (1000.0, "$1000")]
)
def test_a_limit_is_said_as_people_name_it(cap: float, said: str) -> None:
    assert shown(replace(STATUS, cap_usd=cap), 300).split(" of ")[1].split(" ·")[0] == said


def test_a_wait_for_a_time_counts_down_to_that() -> None:
    time, process = OnTime(at_us=NOW_US + 70_000_000), OnProcess(handle="p1")
    deadline_us = NOW_US + 3_600_000_000
    waits = {
        "waiting 1:10": WaitStarted(wait="w", conditions=(time,), deadline_us=deadline_us),
        "waiting, at most 1:10": WaitStarted(wait="w", conditions=(time, process), deadline_us=deadline_us),
        "waiting, at most 1:00:00": WaitStarted(
            wait="w", conditions=(time, process), needs="all", deadline_us=deadline_us
        ),
    }
    for said, wait in waits.items():
        assert said in shown(replace(STATUS, waits=(wait,)), 300)


@pytest.mark.parametrize("columns", range(20, 301, 7))
def test_it_never_needs_more_than_there_is(columns: int) -> None:
    line = shown(replace(STATUS, owner="process 12345 on machine"), columns, queued=3)
    assert len(line) < columns
    assert line.startswith(" claude-sonnet")


def test_the_theme_is_that_of_the_terminal() -> None:
    assert [theme_of(each) for each in ("0;15", "15;0", "0;default;7", "")] == [
        "light",
        "dark",
        "light",
        "dark",
    ]


def test_it_says_that_the_files_that_are_wanted_are_being_listed(tmp_path: Path) -> None:
    async def bars() -> list[str]:
        chat = ChatLoop(load_config({"HOME": str(tmp_path)}), ChatOptions(folder=tmp_path))
        chat.surface = PlainScreen(chat, chat.questions, StringIO(), StringIO())
        chat.status = lambda: STATUS
        before = chat.bar(80)
        chat.list_files()
        await asyncio.sleep(0)
        during = chat.bar(80)
        chat.files = ("a.py",)
        return [before, during, chat.bar(80)]

    assert ["listing the files" in each for each in asyncio.run(bars())] == [False, True, False]
