"""kill -9 at every boundary of the iterations of a goal, then the same command again until it is done.

`worker.py` is the process. The points are sequence numbers and stages, never times.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import TypeVar

import pytest

from mainspring.catalog.sqlite import SqliteSessions
from mainspring.context.history import load_history
from mainspring.engines.outside import OutsideModel
from mainspring.events import (
    CallEnded,
    CheckEnded,
    GoalEnded,
    GoalPaused,
    GoalSet,
    IterationEnded,
    IterationStarted,
    MeasurementsTaken,
    Recorded,
    SpendReserved,
    SpendSettled,
    UserSaid,
    WaitEnded,
    WaitStarted,
)
from mainspring.folds.state import load_state
from mainspring.goals.lock import workspace_held
from mainspring.goals.memory import GoalMemory, Sections, read_memory
from mainspring.sandbox.files import Files
from mainspring.sandbox.policy import Confinement
from tests import ROOT
from tests.goals.worker import STAGES, prepare

T = TypeVar("T")

EVENTS = 69
FIRST, SECOND, THIRD = range(7, 30), range(30, 49), range(62, 68)
"""The events of the iterations; the third differs from the second only in how it is judged."""

WITH_THE_NEXT = {8, 9, 30, 31, 49, 50, 67}
"""Events that are never the last of a commit."""

POINTS = [
    *(f"event:{seq}" for seq in (*FIRST, *SECOND, *THIRD) if seq not in WITH_THE_NEXT),
    *(f"commit:{seq}" for seq in (6, 10, 21, 23, 24, 26, 27, 28, 29, 47, 48, 66, 68)),
    *(f"strike:{stage}" for stage in STAGES),
]
A_FEW_POINTS = ["event:24", "event:28", "commit:27", "strike:engine-2", "strike:check-2"]
TWICE = [*product(("event:21", "commit:27", "event:46", "strike:engine-2"), (1, 3, 6))]


class Worker:
    """Pursues the goal in one process after another."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def __call__(self, folder: Path, kill: str = "") -> int:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{folder}\t{kill}\t\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        assert code in (0, -signal.SIGKILL), (folder / "error").read_text()
        return code


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    command = [sys.executable, "-m", "tests.goals.worker"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Worker(process)
        assert process.stdin
        process.stdin.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    prepare(tmp_path)
    return tmp_path


def test_the_matrix_covers_every_event_of_an_undisturbed_run(folder: Path, worker: Worker) -> None:
    assert worker(folder) == 0
    check(folder)
    assert len(journal(folder)) == EVENTS
    assert (folder / "turns").read_text().split() == ["1", "2", "3"]


def test_a_goal_that_is_done_is_begun_anew_when_it_is_given_again(folder: Path, worker: Worker) -> None:
    assert worker(folder) == 0
    assert worker(folder) == 0
    assert len(SqliteSessions(folder / "home").shelf.sessions()) == 2


@pytest.mark.parametrize("kill", A_FEW_POINTS)
def test_a_goal_that_was_killed_goes_on(kill: str, folder: Path, worker: Worker) -> None:
    killed_and_resumed(folder, worker, kill)


@pytest.mark.slow
@pytest.mark.parametrize("kill", [point for point in POINTS if point not in A_FEW_POINTS])
def test_a_goal_goes_on_wherever_it_was_killed(kill: str, folder: Path, worker: Worker) -> None:
    killed_and_resumed(folder, worker, kill)


@pytest.mark.slow
@pytest.mark.parametrize(("kill", "later"), TWICE)
def test_a_goal_goes_on_when_going_on_is_killed_too(
    kill: str, later: int, folder: Path, worker: Worker
) -> None:
    assert worker(folder, kill) == -signal.SIGKILL
    assert worker(folder, f"event:{len(journal(folder)) + later}") == -signal.SIGKILL
    assert worker(folder) == 0
    check(folder)


@pytest.mark.slow
@pytest.mark.parametrize("seq", [seq for seq in (*FIRST, *SECOND, *THIRD) if seq not in WITH_THE_NEXT])
def test_a_goal_goes_on_wherever_it_was_cancelled(seq: int, folder: Path, worker: Worker) -> None:
    assert worker(folder, f"cancel:{seq}") == 0
    assert len(of(journal(folder), GoalPaused)) == 1
    assert worker(folder) == 0
    check(folder)


def test_a_goal_that_has_just_ended_is_not_paused_on_top(folder: Path, worker: Worker) -> None:
    assert worker(folder, f"cancel:{EVENTS}") == 0
    assert of(journal(folder), GoalPaused) == []
    check(folder)


def killed_and_resumed(folder: Path, worker: Worker, kill: str) -> None:
    assert worker(folder, kill) == -signal.SIGKILL, f"the worker never came to {kill}"
    assert worker(folder) == 0
    check(folder)


def journal(folder: Path) -> list[Recorded]:
    store = SqliteSessions(folder / "home")
    (row,) = [row for row in store.shelf.sessions() if row.goal]
    file = store.shelf.file(row.id)
    try:
        return file.read()
    finally:
        file.close()


def of(recorded: list[Recorded], kind: type[T]) -> list[T]:
    return [item.event for item in recorded if isinstance(item.event, kind)]


def check(folder: Path, *, least_usd: float = 0.75) -> None:
    recorded = journal(folder)
    _check_iterations(recorded)
    _check_what_was_found(recorded)
    _check_waits(recorded)
    _check_memory(folder / "workspace")
    asyncio.run(_check_history_and_money(folder, recorded, least_usd))
    _check_nothing_is_left(folder)


def _check_iterations(recorded: list[Recorded]) -> None:
    (ended,) = of(recorded, GoalEnded)
    assert (ended.ending, ended.is_verified, ended.exit_code) == ("done", True, 0)
    assert [item.iteration for item in of(recorded, IterationStarted)] == [1, 2, 3]
    ends = of(recorded, IterationEnded)
    assert [(item.iteration, item.outcome) for item in ends] == [
        (1, "continued"),
        (2, "refused"),
        (3, "done"),
    ]
    assert {item.exit_code for item in ends} <= {0, None}
    assert len(of(recorded, GoalSet)) == 1 + len(of(recorded, GoalPaused)), "nobody changed the goal"


def _check_what_was_found(recorded: list[Recorded]) -> None:
    for item in of(recorded, IterationEnded):
        assert item.changed == ("files", "metrics"), f"iteration {item.iteration} made something new"
    taken = Counter((item.iteration, item.is_ours) for item in of(recorded, MeasurementsTaken))
    assert taken == Counter(product((1, 2, 3), (True, False))), "measured once"
    ours = {item.iteration: item.values for item in of(recorded, MeasurementsTaken) if item.is_ours}
    assert {key: [each.value for each in values] for key, values in ours.items()} == {
        1: [9, 9, 9],
        2: [8, 8, 8],
        3: [7, 7, 7],
    }
    checks = [(item.iteration, item.passed, item.exit_code) for item in of(recorded, CheckEnded)]
    assert set(checks) == {(2, False, 3), (3, True, 0)}
    prompts = [item.text for item in of(recorded, UserSaid)]
    third = [text for text in prompts if "\nTurn 3 of 10." in text]
    assert [text.count("(exit code 3)") for text in prompts] == [int(text in third) for text in prompts]
    assert all("\nno result yet" in text for text in third)


def _check_waits(recorded: list[Recorded]) -> None:
    started = Counter(item.wait for item in of(recorded, WaitStarted))
    ended = Counter(item.wait for item in of(recorded, WaitEnded))
    assert started == ended
    assert set(started.values()) == {1}


def _check_memory(workspace: Path) -> None:
    memory = read_memory(Files(Confinement(workspace=workspace)), "projects/memory.md", Sections())
    assert isinstance(memory, GoalMemory)
    logged = [line for line in memory.text.splitlines() if "<!-- mainspring log-" in line]
    assert [line.split("iteration ")[1].split(": ")[0] for line in logged] == [
        "1 continued",
        "2 refused",
        "3 done",
    ]
    assert memory.text.count("artifacts of iteration 3: ") == 1
    assert not list((workspace / "projects").glob("*aside*"))


async def _check_history_and_money(folder: Path, recorded: list[Recorded], least_usd: float) -> None:
    store = SqliteSessions(folder / "home")
    (row,) = [row for row in store.shelf.sessions() if row.goal]
    reader = await store.read(row.id)
    verdict = await reader.verify()
    assert (verdict.problem, verdict.events) == ("", len(recorded))
    history = await load_history(reader, OutsideModel("claude").encode)
    assert await history.messages(reader.get)
    settled = {item.spend: item.usd for item in of(recorded, SpendSettled)}
    reserved = {item.spend: item.usd for item in of(recorded, SpendReserved)}
    assert len(of(recorded, SpendSettled)) == len(settled)
    state = await load_state(reader)
    spent = state.ledger.tally("goal").usd
    assert spent == pytest.approx(sum((reserved | settled).values()))
    assert spent >= least_usd
    assert sum(item.cost_usd for item in of(recorded, IterationEnded)) == pytest.approx(sum(settled.values()))
    ended = Counter(item.call for item in of(recorded, CallEnded))
    assert set(ended.values()) == {1}
    await reader.close()


async def hold_workspace(home: Path, workspace: Path) -> None:
    """Succeeds when no goal works in the folder."""
    async with workspace_held(SqliteSessions(home), home, workspace):
        pass


def _check_nothing_is_left(folder: Path) -> None:
    asyncio.run(hold_workspace(folder / "home", folder / "workspace"))
    ends = time.monotonic() + 60
    while left := at_work_in(folder / "workspace"):
        assert time.monotonic() < ends, f"still running: {left}"


def at_work_in(workspace: Path) -> list[int]:
    """The processes whose working folder it is, or is below it."""
    found: list[int] = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError):
            if Path(os.readlink(f"/proc/{name}/cwd")).is_relative_to(workspace):
                found.append(int(name))
    return found
