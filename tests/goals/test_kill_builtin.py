"""kill -9 around the iterations of a goal whose turns our own loop takes, against a scripted model server."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mainspring.models.scripted import Script
from mainspring.testing.server import HostedModelServer
from tests.goals.test_kill_matrix import Worker, check, journal, worker
from tests.goals.worker import prepare

__all__ = ["worker"]

WORK = "echo {0} > turn; echo {0} > data-{0}.csv; echo {1} > value; echo METRIC told={1} s"
ENDS = (
    "Begun.\n<wait_seconds>0.05</wait_seconds>",
    "I think so.\n<promise>DONE</promise>",
    "Now it is.\n<promise>DONE</promise>",
)
POINTS = [
    ("IterationStarted", 2),
    ("TurnStarted", 1),
    ("SpendReserved", 2),
    ("AssistantSaid", 1),
    ("CallEnded", 2),
    ("AssistantSaid", 4),
    ("TurnEnded", 2),
    ("ArtifactsChanged", 2),
    ("MeasurementsTaken", 2),
    ("IterationEnded", 1),
    ("WaitStarted", 1),
    ("WaitEnded", 1),
    ("CheckEnded", 1),
    ("CheckEnded", 2),
]


def script() -> Script:
    cases: list[dict[str, Any]] = []
    for turn, text in enumerate(ENDS, 1):
        command = WORK.format(turn, 10 - turn) + ("; echo small > result" if turn == 3 else "")
        replies = [{"calls": [{"name": "shell", "arguments": {"command": command}}]}, {"text": text}]
        cases.append({"contains": f"Turn {turn} of", "replies": replies})
    return msgspec.convert({"cases": cases}, Script)


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    with HostedModelServer(script()) as server:
        yield f"openai-compatible@{server.url}#test"


def prepared(folder: Path, model: str) -> Path:
    prepare(folder)
    (folder / "model").write_text(model)
    return folder


@pytest.fixture(scope="module")
def kinds(model: str, worker: Worker, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The kinds of events of an undisturbed run, in their order."""
    folder = prepared(tmp_path_factory.mktemp("undisturbed") / "run", model)
    assert worker(folder) == 0
    check(folder, least_usd=0.0)
    return [type(item.event).__name__ for item in journal(folder)]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "number"), POINTS)
def test_a_goal_of_our_own_loop_goes_on_wherever_it_was_killed(
    kind: str, number: int, kinds: list[str], model: str, worker: Worker, tmp_path: Path
) -> None:
    folder = prepared(tmp_path / "run", model)
    seq = [place for place, each in enumerate(kinds, 1) if each == kind][number - 1]
    assert worker(folder, f"event:{seq}") == -signal.SIGKILL
    assert worker(folder) == 0
    check(folder, least_usd=0.0)


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["evaluate-1", "check-2", "check-3"])
def test_a_goal_of_our_own_loop_goes_on_when_it_was_killed_at_a_stage(
    stage: str, model: str, worker: Worker, tmp_path: Path
) -> None:
    folder = prepared(tmp_path / "run", model)
    assert worker(folder, f"strike:{stage}") == -signal.SIGKILL
    assert worker(folder) == 0
    check(folder, least_usd=0.0)
