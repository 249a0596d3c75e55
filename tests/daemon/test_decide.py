"""What the daemon does next, from lists and times alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from mainspring.catalog import SessionRow
from mainspring.daemon.decide import after_run, plan, what_to_do
from mainspring.daemon.files import DaemonFiles, DaemonRecord, DaemonRun, Trouble
from mainspring.goals.schedules import Due
from mainspring.settings import DaemonSettings

NOW = 1_800_000_000_000_000
SETTINGS = DaemonSettings()


def row(name: str, goal_state: str = "interrupted", **more: Any) -> SessionRow:
    values = {
        "started_us": NOW, "updated_us": NOW, "workspace": f"/{name}", "title": "", "last_line": "", "state": "done",
        "cost_usd": 0.0, "model": "", "events": 1, "goal": "a goal", "goal_state": goal_state,
    }  # fmt: skip
    return SessionRow(id=name, **{**values, **more})


def resumed(
    *rows: SessionRow,
    record: DaemonRecord | None = None,
    answered: tuple[str, ...] = (),
    handed_over: tuple[str, ...] = (),
    **settings: Any,
) -> list[str]:
    found = plan(
        rows,
        record or DaemonRecord(),
        msgspec.structs.replace(SETTINGS, **settings),
        answered=answered,
        now_us=NOW,
        handed_over=handed_over,
    )
    return [row.id for row in found.resume]


def run_of(name: str, **more: Any) -> DaemonRun:
    return DaemonRun(session=name, pid=1, started_us=NOW, **more)


def test_a_session_that_was_left_to_the_daemon_is_resumed(tmp_path: Path) -> None:
    place = DaemonFiles(tmp_path)
    for name in ("left", "done"):
        place.hand_over(name)
    left = row("left", "", goal="", state="interrupted")
    assert resumed(left) == []
    assert resumed(left, handed_over=tuple(place.handed_over(["left", "another"]))) == ["left"]
    place.take_over("left")
    assert place.handed_over(["left", "done"]) == frozenset()


def test_only_what_was_interrupted_is_resumed() -> None:
    states = ["running", "paused", "done", "stopped", "failed", "blocked", "cost", "interrupted"]
    rows = [row(state, state) for state in states]
    assert resumed(*rows) == ["interrupted"]
    assert resumed(*rows, answered=("blocked",)) == ["blocked", "interrupted"]


def test_at_most_so_many_run_at_once_and_the_oldest_come_first() -> None:
    rows = [row(name, started_us=NOW - age) for age, name in enumerate("abcd")]
    assert resumed(*rows) == ["d", "c"]
    record = DaemonRecord(runs={"d": run_of("d")})
    assert resumed(*rows, record=record) == ["c"]


def test_goals_that_sleep_take_nobodys_place() -> None:
    names = [f"s{number}" for number in range(100)]
    record = DaemonRecord(runs={name: run_of(name) for name in names})
    asleep = [row(name, "running", is_waiting=True) for name in names]
    assert resumed(*asleep, row("a"), row("b"), row("c"), record=record) == ["a", "b"]
    assert resumed(*asleep[1:], row("s0", "running"), row("a"), row("b"), record=record) == ["a"]


def test_two_goals_never_work_in_one_folder() -> None:
    assert resumed(row("a", workspace="/w"), row("b", workspace="/w")) == ["a"]
    assert resumed(row("a", workspace="/w"), row("b", "running", workspace="/w")) == []
    assert resumed(row("a", workspace="/w"), row("b", workspace="/w/in"), row("c", workspace="/wide")) == [
        "a",
        "c",
    ]


def test_sessions_without_a_goal_are_resumed_only_when_that_is_wanted() -> None:
    plain = row("a", "", goal="", state="crashed")
    assert resumed(plain) == []
    assert resumed(plain, sessions=True) == ["a"]
    stopped = row("b", "", goal="", state="interrupted")
    assert resumed(stopped, sessions=True) == []
    assert resumed(stopped, sessions=True, record=DaemonRecord(interrupted=["b"])) == ["b"]


def test_what_was_interrupted_long_ago_is_left_alone_and_said() -> None:
    old = row("a", updated_us=NOW - 8 * 86_400_000_000)
    found = plan([old], DaemonRecord(), SETTINGS, answered=(), now_us=NOW)
    assert not found.resume
    assert "7 days" in found.left_alone["a"]


def crash(before: Trouble | None, *, code: int | None = 1, iterations: int = 0) -> Trouble | None:
    after = row("a", iterations=iterations)
    return after_run(run_of("a"), after, before, SETTINGS, code=code, now_us=NOW, detail="it broke")


def test_what_crashes_again_and_again_is_tried_later_and_then_left_alone() -> None:
    first = crash(None)
    assert first is not None
    second = crash(first)
    assert second is not None
    waits_s = [(trouble.retry_us - NOW) / 1e6 for trouble in (first, second)]
    assert waits_s == [10, 60]
    early = plan([row("a")], DaemonRecord(troubles={"a": second}), SETTINGS, answered=(), now_us=NOW)
    assert (early.resume, early.retry_us) == ((), second.retry_us)
    later = plan(
        [row("a")], DaemonRecord(troubles={"a": second}), SETTINGS, answered=(), now_us=second.retry_us
    )
    assert [each.id for each in later.resume] == ["a"]
    third = crash(second)
    assert third is not None
    record = DaemonRecord(troubles={"a": third})
    found = plan([row("a")], record, SETTINGS, answered=(), now_us=third.retry_us)
    assert not found.resume
    assert "3 times" in found.left_alone["a"]
    assert "it broke" in found.left_alone["a"]


def test_a_process_that_got_on_begins_to_count_anew_and_a_taken_folder_does_not_count() -> None:
    before = Trouble(crashes=2, at_us=NOW, retry_us=NOW)
    further = crash(before, iterations=4)
    assert further is not None
    assert further.crashes == 1
    taken = crash(before, code=3)
    assert taken is not None
    assert taken.crashes == 2


def test_an_end_that_is_on_record_is_no_trouble() -> None:
    for state in ("done", "paused", "blocked", "cost"):
        ended = row("a", state)
        assert after_run(run_of("a"), ended, None, SETTINGS, code=1, now_us=NOW, detail="") is None


def test_a_time_that_comes_while_the_last_run_works_is_skipped() -> None:
    due = Due(at_us=NOW, how="on time")
    for state in ("running", "interrupted"):
        assert what_to_do(due, row("a", state), ())[0] == "skipped"
    for last in (None, row("a", "done"), row("a", "paused"), row("a", "blocked")):
        assert what_to_do(due, last, ())[0] == "start"
    assert what_to_do(due, row("a"), ("a",))[0] == "start"


def test_a_missed_time_begins_nothing_and_says_how_many_there_were() -> None:
    outcome, detail = what_to_do(Due(at_us=NOW, how="missed", missed=3), None, ())
    assert outcome == "missed"
    assert "3 times" in detail
