"""The line at the bottom: what matters most stays when there is little room."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from mainspring.app.operations.status import SessionStatus
from mainspring.chat.bar import bar_line
from mainspring.chat.palette import Palette, theme_of
from mainspring.events import WaitStarted

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
