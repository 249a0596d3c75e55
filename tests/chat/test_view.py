"""What a chat shows of calls and of children, as text."""

from __future__ import annotations

import re

import pytest

from mainspring.chat.blocks import call_block
from mainspring.chat.palette import Palette
from mainspring.chat.view import View
from mainspring.events import (
    AssistantSaid,
    CallAsked,
    CallEnded,
    CallStarted,
    ChildEnded,
    ChildStarted,
    Event,
    Origin,
    OutputDelta,
    Recorded,
    TurnEnded,
    TurnStarted,
)

PALETTE = Palette(is_styled=False)


@pytest.mark.parametrize("columns", [40, 44, 60, 100])
def test_a_call_takes_one_line_however_narrow_it_is(columns: int) -> None:
    call = CallAsked(call="c", name="shell", arguments='{"command": "python3 -B test_shop.py"}')
    ended = CallEnded(call="c", outcome="error", exit_code=1, duration_s=0.177, output="one\ntwo\n")
    line = call_block(call, ended, PALETTE, columns=columns)
    assert len(line) <= columns
    assert "exit code 1" in line


def _view() -> View:
    return View(PALETTE, lambda block: block, here=Origin())


def _shown(view: View, *events: Event) -> list[str]:
    return [
        line for event in events for text in view.take(Recorded(1, 0, event), now_s=0.0)
        for line in text.split("\n") if line
    ]  # fmt: skip


DELEGATED = CallAsked(call="c", name="delegate", arguments='{"task": "count the files"}')
BEGUN = (
    TurnStarted(turn=1),
    AssistantSaid(step=1, parts=(DELEGATED,)),
    CallStarted(call="c", tool="delegate"),
)


def test_what_has_just_begun_ends_in_words() -> None:
    call = CallAsked(call="c", name="shell", arguments='{"command": "ls"}')
    view = _view()
    _shown(view, TurnStarted(turn=1))
    (working,) = view.live(columns=80, now_s=0.0)
    assert working.endswith("working")
    _shown(view, AssistantSaid(step=1, parts=(call,)), CallStarted(call="c", tool="shell"))
    (running,) = view.live(columns=80, now_s=0.0)
    assert running.endswith("shell ls · started")


@pytest.mark.parametrize(("is_styled", "lines"), [(True, 5), (False, 1)])
def test_how_a_turn_ended_is_broken_at_words_on_a_terminal_alone(is_styled: bool, lines: int) -> None:
    view = View(Palette(theme="mono", is_styled=is_styled), str, here=Origin(), columns=lambda: 40)
    ended = TurnEnded(turn=1, ending="failed", detail="The provider cannot be reached. " * 5)
    (text,) = view.take(Recorded(1, 0, ended), now_s=0.0)
    shown = re.sub("\x1b\\[[0-9;]*m", "", text).strip("\n").split("\n")
    assert len(shown) >= lines
    assert is_styled == all(len(line) <= 40 for line in shown)
    assert set(" ".join(shown).split()) >= {"provider", "cannot", "reached."}


def test_a_child_is_one_line_that_says_what_it_does_and_what_came_of_it() -> None:
    view = _view()
    started = ChildStarted(child="k1", task="count the files", agent="general", call="c")
    assert _shown(view, *BEGUN, started, OutputDelta(call="c", text="shell ls\n")) == []
    (live,) = view.live(columns=100, now_s=2.0)
    assert "delegate count the files · shell ls · 2.0 s" in live
    ended = ChildEnded(child="k1", state="done", text="There are 3.\nMore.", steps=2, conflicts=("a.py",))
    done = CallEnded(call="c", outcome="ok", output="a report\nof lines", duration_s=2)
    assert _shown(view, ended, done) == [
        "✓ delegate count the files · There are 3. · 2 steps · 2.0 s",
        "  ! in conflict, not taken over: a.py",
    ]


def test_a_child_in_the_background_stays_on_the_screen_until_it_ends() -> None:
    view = _view()
    started = ChildStarted(child="k1", task="count", agent="general", call="c", is_background=True)
    done = CallEnded(call="c", outcome="ok", output="It is at work.")
    assert len(_shown(view, *BEGUN, started, done, OutputDelta(call="c", text="shell ls\n"))) == 1
    assert "shell ls" in view.live(columns=100, now_s=2.0)[0]
    assert len(_shown(view, TurnEnded(turn=1, ending="done"), ChildEnded(child="k1", state="done"))) == 2
    assert view.live(columns=100, now_s=2.0) == []
    assert not view.is_busy
