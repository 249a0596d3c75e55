"""kill -9 at events of a parent and of its children, then go on in a new process: nothing lost, nothing twice."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mainspring.catalog.sqlite import SqliteSessions
from mainspring.events import (
    AssistantSaid,
    CallEnded,
    ChildEnded,
    ChildStarted,
    Event,
    FilesChanged,
    NoteAdded,
    SessionResumed,
    SpendReserved,
    SpendSettled,
    TurnEnded,
    UserSaid,
)
from tests import ROOT
from tests.agents.worker import CHILD_REPLIES

PARENT_EVENTS, CHILD_EVENTS = 37, 21
EVERY_POINT = [
    *(f"parent:{seq}" for seq in range(1, PARENT_EVENTS + 1)),
    *(f"child:{seq}" for seq in range(1, CHILD_EVENTS + 1)),
]
_NOT_IN_A_GRAPH = ("parent:34", "parent:35", "parent:36", "parent:37")
A_FEW_POINTS = ["parent:12", "parent:20", "child:6"]


def work(folder: Path, kill: str = "", what: str = "readers") -> int:
    done = subprocess.run(
        [sys.executable, "-m", "tests.agents.worker", str(folder), kill, what],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


def journal(folder: Path, session: str) -> list[Event]:
    file = SqliteSessions(folder / "home").shelf.file(session)
    try:
        return [item.event for item in file.read(limit=100_000)]
    finally:
        file.close()


def check(folder: Path) -> tuple[int, int]:
    """Both tasks were done once; gives how many events the parent and its longest child have."""
    parent = (folder / "home" / "parent").read_text()
    own = journal(folder, parent)
    started = [event for event in own if isinstance(event, ChildStarted)]
    ended = [event for event in own if isinstance(event, ChildEnded)]
    assert sorted(event.task for event in started) == ["FIRST task", "SECOND task"]
    assert sorted(event.child for event in ended) == sorted(event.child for event in started)
    assert {event.state for event in ended} == {"done"}
    assert sorted(event.text for event in ended) == ["first answer", "second answer"]
    results = [event for event in own if isinstance(event, CallEnded)]
    assert [event.outcome for event in results] == ["ok", "ok"]
    assert [event.ending for event in own if isinstance(event, TurnEnded)] == ["done"]
    children = {event.child: journal(folder, event.child) for event in started}
    assert {*children, parent} == set(SqliteSessions(folder / "home").shelf.names())
    for events in children.values():
        assert sum(isinstance(event, UserSaid) for event in events) == 1
        assert sum(isinstance(event, AssistantSaid) for event in events) == CHILD_REPLIES
        assert [event.ending for event in events if isinstance(event, TurnEnded)] == ["done"]
    _check_money(own, children)
    return len(own), max(map(len, children.values()))


def _check_money(own: list[Event], children: dict[str, list[Event]]) -> None:
    """Whatever a child settled is settled with its parent too, or still held there: never less."""
    for child, events in children.items():
        spent = {event.spend: event.usd for event in events if isinstance(event, SpendSettled)}
        held = {event.spend: event.usd for event in own if isinstance(event, SpendReserved) and event.child}
        settled = {event.spend: event.usd for event in own if isinstance(event, SpendSettled)}
        shown = {**held, **{spend: usd for spend, usd in settled.items() if spend in held}}
        assert all(shown[f"{child}/{spend}"] >= usd - 1e-12 for spend, usd in spent.items())


def test_the_matrix_covers_an_undisturbed_run(tmp_path):
    assert work(tmp_path) == 0
    assert check(tmp_path) == (PARENT_EVENTS, CHILD_EVENTS)


@pytest.mark.parametrize("kill", A_FEW_POINTS)
def test_a_killed_family_completes_without_doing_anything_twice(tmp_path, kill):
    assert work(tmp_path, kill) == -signal.SIGKILL, f"the worker never came to {kill}"
    assert work(tmp_path) == 0
    check(tmp_path)


def check_written(folder: Path) -> None:
    check(folder)
    own = journal(folder, (folder / "home" / "parent").read_text())
    ended = [event for event in own if isinstance(event, ChildEnded)]
    started = {event.child: event.task for event in own if isinstance(event, ChildStarted)}
    written = set[str]()
    for end in ended:  # a write that was killed may have happened or not; its child is told so
        calls = [event for event in journal(folder, end.child) if isinstance(event, CallEnded)]
        if calls[-1].outcome == "ok" or end.files:
            written.add("one.txt" if started[end.child] == "FIRST task" else "two.txt")
            assert end.landing == "landed"
    found = {path.name: path.read_text() for path in (folder / "workspace").iterdir()}
    assert found == {name: f"{name}\n" for name in written}
    changed = {change.path for event in own if isinstance(event, FilesChanged) for change in event.changes}
    assert changed == written


@pytest.mark.parametrize("kill", ["parent:22", "child:18"])
def test_killed_writers_bring_their_files_back_once(tmp_path, kill):
    assert work(tmp_path, kill, "writers") == -signal.SIGKILL
    assert work(tmp_path, what="writers") == 0
    check_written(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("kill", EVERY_POINT)
def test_writers_killed_anywhere_bring_their_files_back_once(tmp_path, kill):
    work(tmp_path, kill, "writers")
    assert work(tmp_path, what="writers") == 0
    check_written(tmp_path)


def goes_on_with_tasks(folder: Path, kill: str) -> None:
    assert work(folder, kill, "tasks") == -signal.SIGKILL, f"the worker never came to {kill}"
    assert work(folder, what="tasks") == 0
    own = journal(folder, (folder / "home" / "parent").read_text())
    started = [event for event in own if isinstance(event, ChildStarted)]
    assert [event.node for event in started] == ["first", "second"]
    assert "first answer" in started[1].task
    assert [event.state for event in own if isinstance(event, ChildEnded)] == ["done", "done"]
    (result,) = [event for event in own if isinstance(event, CallEnded)]
    assert result.outcome == "ok"
    assert "2 of 2 tasks are done" in result.output
    assert [event.ending for event in own if isinstance(event, TurnEnded)] == ["done"]
    for each in started:
        events = journal(folder, each.child)
        assert sum(isinstance(event, UserSaid) for event in events) == 1
        assert sum(isinstance(event, AssistantSaid) for event in events) == CHILD_REPLIES
    _check_money(own, {each.child: journal(folder, each.child) for each in started})


@pytest.mark.parametrize("kill", ["parent:12", "child:20"])
def test_a_killed_graph_of_a_call_goes_on_without_doing_anything_twice(tmp_path, kill):
    goes_on_with_tasks(tmp_path, kill)


@pytest.mark.proof
@pytest.mark.parametrize("kill", [point for point in EVERY_POINT if point not in _NOT_IN_A_GRAPH])
def test_a_graph_of_a_call_killed_anywhere_goes_on(tmp_path, kill):
    goes_on_with_tasks(tmp_path, kill)


@pytest.mark.parametrize("kill", ["child:3", "child:12"])
def test_children_in_the_background_are_gone_on_with_when_their_parent_works_again(tmp_path, kill):
    assert work(tmp_path, kill, "background") == -signal.SIGKILL
    assert work(tmp_path, what="background") == 0
    own = journal(tmp_path, (tmp_path / "home" / "parent").read_text())
    ended = [event for event in own if isinstance(event, ChildEnded)]
    assert sorted((event.state, event.text) for event in ended) == [
        ("done", "first answer"),
        ("done", "second answer"),
    ]
    told = [event.text for event in own if isinstance(event, NoteAdded) and event.source == "delegate"]
    assert len(told) == 2


def test_a_child_whose_journal_is_gone_is_lost_and_not_done_again(tmp_path):
    assert work(tmp_path, "child:12") == -signal.SIGKILL
    parent = (tmp_path / "home" / "parent").read_text()
    spent = [event for event in journal(tmp_path, parent) if isinstance(event, SpendReserved) and event.child]
    child = spent[-1].child
    shutil.rmtree(tmp_path / "home" / "sessions" / child)
    assert work(tmp_path) == 0
    own = journal(tmp_path, parent)
    ended = {event.child: event.state for event in own if isinstance(event, ChildEnded)}
    assert ended[child] == "lost"
    assert sorted(ended.values()) == ["done", "lost"]
    assert not (tmp_path / "home" / "sessions" / child).exists()


def test_a_child_is_not_gone_on_with_as_an_agent_that_nobody_approved(tmp_path):
    assert work(tmp_path, "child:6") == -signal.SIGKILL
    file = tmp_path / "workspace" / ".claude" / "agents" / "explore.md"
    file.parent.mkdir(parents=True)
    file.write_text("---\nname: explore\ndescription: d\ntools: Read, Bash\n---\nOf the project.\n")
    assert work(tmp_path) == 0
    own = journal(tmp_path, (tmp_path / "home" / "parent").read_text())
    ended = [event for event in own if isinstance(event, ChildEnded)]
    assert [event.state for event in ended] == ["failed", "failed"]
    assert all("mainspring trust add explore" in event.detail for event in ended)


_HOLD = """
import asyncio, sys
from pathlib import Path
from mainspring.catalog.sqlite import SqliteSessions
async def hold():
    journal = await SqliteSessions(Path(sys.argv[1])).open(sys.argv[2])
    print("held", flush=True)
    sys.stdin.read()
asyncio.run(hold())
"""


@pytest.mark.parametrize("is_closed", [False, True], ids=["dies", "goes-on"])
def test_a_child_that_another_process_has_is_gone_on_with_after_it_and_holds_no_closing_up(
    tmp_path, is_closed
):
    assert work(tmp_path, "child:12") == -signal.SIGKILL
    parent = (tmp_path / "home" / "parent").read_text()
    own = journal(tmp_path, parent)
    child = next(
        event.child for event in own if isinstance(event, ChildStarted) and event.task == "FIRST task"
    )
    argv = [sys.executable, "-c", _HOLD, str(tmp_path / "home"), child]
    with subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == b"held\n"
        again = subprocess.Popen(
            [sys.executable, "-m", "tests.agents.worker", str(tmp_path), "", "readers"], cwd=ROOT
        )
        try:
            until(lambda: any(isinstance(each, SessionResumed) for each in journal(tmp_path, parent)))
            other = next(
                event.child for event in own if isinstance(event, ChildStarted) and event.child != child
            )
            until(lambda: other in _ended(tmp_path, parent))
            assert child not in _ended(tmp_path, parent)
            if is_closed:
                again.send_signal(signal.SIGINT)
                again.wait(30)
            holder.kill()
            until(lambda: child in _ended(tmp_path, parent))
        finally:
            holder.kill()
            again.wait(60)
    assert _ended(tmp_path, parent) == {other: "done", child: "stopped" if is_closed else "done"}
    if not is_closed:
        assert again.returncode == 0
        check(tmp_path)


def _ended(folder: Path, parent: str) -> dict[str, str]:
    return {event.child: event.state for event in journal(folder, parent) if isinstance(event, ChildEnded)}


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.parametrize("kill", [point for point in EVERY_POINT if point not in A_FEW_POINTS])
def test_a_family_killed_anywhere_completes_without_doing_anything_twice(tmp_path, kill):
    work(tmp_path, kill)  # the last points are passed by some runs
    assert work(tmp_path) == 0
    check(tmp_path)
