"""What a chat shows of calls and of children, as text."""

from __future__ import annotations

import json
import re
from typing import Literal

import pytest

from mainspring.chat.blocks import call_block, changes_block, diff_lines, said_block
from mainspring.chat.palette import Palette
from mainspring.chat.view import View
from mainspring.chat.width import clipped_name, get_width
from mainspring.events import (
    ApprovalGiven,
    AssistantSaid,
    CallAsked,
    CallEnded,
    CallStarted,
    ChildEnded,
    ChildStarted,
    Event,
    FileChange,
    FilesChanged,
    FileState,
    Origin,
    OutputDelta,
    Recorded,
    RequestFailed,
    TextDelta,
    ThinkingDelta,
    TurnEnded,
    TurnStarted,
    UserSaid,
)

PALETTE = Palette(is_styled=False)


@pytest.mark.parametrize("columns", [40, 44, 60, 100])
def test_a_call_takes_one_line_however_narrow_it_is(columns: int) -> None:
    call = CallAsked(call="c", name="shell", arguments='{"command": "python3 -B test_shop.py"}')
    ended = CallEnded(call="c", outcome="error", exit_code=1, duration_s=0.177, output="one\ntwo\n")
    line = call_block(call, ended, PALETTE, columns=columns)
    assert len(line) <= columns
    assert "exit code 1" in line


def test_words_about_a_result_are_cut_no_shorter_than_the_line_needs_and_said_once() -> None:
    call = CallAsked(call="c", name="shell", arguments='{"command": "make"}')
    words = "Started in the background as p1; look at it with process"
    ended = CallEnded(call="c", outcome="ok", output=words)
    line = call_block(call, ended, PALETTE, columns=70)
    assert line.startswith("✓ shell make · Started in the background as p1; look at it")
    assert len(line) <= 70
    failed = CallEnded(call="c", outcome="error", exit_code=3, output="exit code 3")
    assert call_block(call, failed, PALETTE, columns=70) == "✗ shell make · exit code 3"


def _made(path: str, kind: Literal["file", "folder"] = "file") -> FileChange:
    return FileChange(path=path, kind="created", after=FileState(kind=kind, mode=0o644, size=1))


def test_a_diff_is_broken_at_words_beside_its_numbers() -> None:
    diff = ["@@ -1,1 +1,1 @@", "-\told = a and b", "+\tnew_name = one_word and another_word"]
    assert diff_lines(diff, PALETTE, columns=36) == [
        "     1 -     old = a and b",
        "     1 +     new_name = one_word and",
        "             another_word",
    ]


def test_folders_on_the_way_to_a_new_file_are_not_listed() -> None:
    changed = FilesChanged(changes=(_made("src", "folder"), _made("src/a.py"), _made("empty", "folder")))
    shown = changes_block(changed, [[], ["@@ -0,0 +1 @@", "+x"], []], PALETTE)
    assert shown.split("\n") == ["  + src/a.py", "     1 + x", "  + empty/"]


def test_of_a_path_that_is_too_long_its_end_is_kept() -> None:
    path = "src/some/deeply/nested/folder/service.py"
    call = CallAsked(call="c", name="read", arguments=json.dumps({"path": path}))
    ended = CallEnded(call="c", outcome="ok", output="one\ntwo\n")
    assert call_block(call, ended, PALETTE, columns=40) == "✓ read …/deeply/nested/folder/service.py"
    changed = FilesChanged(changes=(_made(path), _made("b.py")))
    assert changes_block(changed, [["+x"], ["+x"]], PALETTE, columns=20).split("\n")[0] == "  + …/service.py"
    assert clipped_name("a/" + "x" * 20, 10) == "xxxxxxxxx…"
    view = _view()
    _shown(view, TurnStarted(turn=1), AssistantSaid(step=1, parts=(call,)))
    assert "…/folder/service.py" in view.live(columns=44, now_s=0.0)[0]


def test_the_file_that_a_call_names_is_not_named_again_above_its_diff() -> None:
    diff = ["@@ -0,0 +1 @@", "+x"]
    one = FilesChanged(changes=(_made("src/a.py"),), calls=("c",))
    view = _view()
    call = CallAsked(call="c", name="write", arguments=json.dumps({"path": "src/a.py", "content": "x"}))
    _shown(view, TurnStarted(turn=1), AssistantSaid(step=1, parts=(call,)))
    assert not view.take(Recorded(1, 0, one), now_s=0.0, diffs=[diff])
    assert _shown(view, CallEnded(call="c", outcome="ok")) == ["✓ write src/a.py", "     1 + x"]
    assert changes_block(one, [[]], PALETTE, named="src/a.py") == "  + src/a.py", "nothing else says so"
    both = FilesChanged(changes=(_made("src/a.py"), _made("src/b.py")))
    assert "  + src/a.py" in changes_block(both, [diff, diff], PALETTE, named="src/a.py")


def _view() -> View:
    return View(PALETTE, lambda block: block, here=Origin())


def _shown(view: View, *events: Event) -> list[str]:
    return [
        line for event in events for text in view.take(Recorded(1, 0, event), now_s=0.0)
        for line in text.split("\n") if line
    ]  # fmt: skip


def test_answers_to_several_questions_say_which_call_they_are_about() -> None:
    view = _view()
    calls = [
        CallAsked(call=f"c{at}", name="shell", arguments=f'{{"command": "make {at}"}}') for at in range(2)
    ]
    _shown(view, TurnStarted(turn=1), AssistantSaid(step=1, parts=tuple(calls)))
    given = [
        ApprovalGiven(call=each.call, arguments_sha256="", decision="allow", by="user") for each in calls
    ]
    assert _shown(view, *given) == ["? allowed by user · shell make 0", "? allowed by user · shell make 1"]


def test_an_answer_that_is_being_written_is_broken_at_words() -> None:
    view = _view()
    _shown(view, TurnStarted(turn=1), TextDelta(text="some words that are longer than the line is"))
    assert view.live(columns=24, now_s=0.0)[:2] == ["some words that are", "longer than the line is"]
    _shown(view, TextDelta(text=" x" * 50_000))
    assert all(len(line) <= 24 for line in view.live(columns=24, now_s=0.0))


def test_of_what_was_done_before_answers_name_their_call_and_what_was_left_is_said() -> None:
    view = _view()
    view.is_past = True
    calls = [CallAsked(call=f"c{at}", name="shell", arguments=f'{{"command": "make {at}"}}') for at in (1, 2)]
    given = ApprovalGiven(call="c1", arguments_sha256="", decision="allow", by="user")
    _shown(view, TurnStarted(turn=1), AssistantSaid(step=1, parts=(calls[0],)))
    assert _shown(view, given) == ["? allowed by user · shell make 1"]
    _shown(view, CallStarted(call="c1", tool="shell"), AssistantSaid(step=2, parts=(calls[1],)))
    assert [line.strip() for line in view.unfinished()] == [
        "· shell make 1 · interrupted",
        "· shell make 2 · not started",
    ]


def test_a_pause_before_a_request_is_tried_again_is_counted_down() -> None:
    view = _view()
    _shown(view, TurnStarted(turn=1))
    failed = RequestFailed(step=1, attempt=1, error="NetworkFailed", message="Gone.", retry_in_s=20.0)
    view.take(Recorded(1, 0, failed), now_s=100.0)
    assert "trying again in 13 s" in view.live(columns=80, now_s=107.5)[0]
    assert "working" in view.live(columns=80, now_s=120.0)[0]
    view.take(Recorded(1, 0, failed), now_s=130.0)
    _shown(view, TurnEnded(turn=1, ending="interrupted"), TurnStarted(turn=2))
    assert "working" in view.live(columns=80, now_s=131.0)[0], "the next turn waits for nothing"


def test_of_what_was_pasted_the_beginning_is_shown() -> None:
    view = _view()
    lines = _shown(view, UserSaid(text="\n".join(f"line {at}" for at in range(5000))))
    assert len(lines) == 21
    assert (lines[0], lines[19], lines[20]) == ("› line 0", "  line 19", "  … 4,980 more lines")
    assert _shown(view, UserSaid(text="\n".join("x" * 21)))[-1] == "  x", "one line more is shown as it is"
    assert len(_shown(view, UserSaid(text="x" * 100_000))[0]) < 5000


def test_thoughts_in_full_are_broken_at_words() -> None:
    view = View(Palette(), str, here=Origin(), columns=lambda: 24)
    view.reasoning = "on"
    view.take(Recorded(0, 0, ThinkingDelta(text="first I look at the tests of the shop")), now_s=0.0)
    (shown,) = view.take(Recorded(0, 0, TextDelta(text="So")), now_s=1.0)
    assert re.sub(r"\x1b\[[\d;]*m", "", shown).split("\n")[-2:] == [
        "  first I look at the",
        "  tests of the shop",
    ]


def test_what_was_said_is_broken_at_words() -> None:
    message = UserSaid(text="make the failing test of the shop pass\n    and indent")
    said = said_block(message, PALETTE, is_steering=False, here=Origin(), columns=24)
    assert said.split("\n") == ["› make the failing test", "  of the shop pass", "      and indent"]


DELEGATED = CallAsked(call="c", name="delegate", arguments='{"task": "count the files"}')
BEGUN = (
    TurnStarted(turn=1),
    AssistantSaid(step=1, parts=(DELEGATED,)),
    CallStarted(call="c", tool="delegate"),
)


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_a_running_call_shows_how_long_it_runs_whatever_it_prints(columns: int) -> None:
    view = _view()
    _shown(view, *BEGUN, OutputDelta(call="c", text="漢字 and a very long line of output " * 9 + "\n"))
    (line,) = view.live(columns=columns, now_s=75.0)
    line = re.sub(r"\x1b\[[\d;]*m", "", line)
    assert line.endswith(" · 1:15 min")
    assert get_width(line) <= columns


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
