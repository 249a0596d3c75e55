"""kill -9 at every boundary of a six-step run, then resume in a new process and look at what is left.

`worker.py` is the process. The points are sequence numbers and labels of calls, never times.
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from itertools import product

import msgspec
import pytest

from mainspring.context.history import load_history
from mainspring.events import (
    ApprovalAsked,
    ApprovalGiven,
    AssistantSaid,
    CallEnded,
    CallStarted,
    Recorded,
    SessionResumed,
    SpendReserved,
    SpendSettled,
    TurnEnded,
    TurnStarted,
)
from mainspring.folds.state import load_state
from mainspring.models.scripted import ScriptedModel
from tests import ROOT
from tests.worker import SCRIPT, SESSION, Folder

EVENTS = 54
LABELS = ("1a", "1b", "2a", "3a", "3b", "3c", "3d", "4c", "5a", "5b")
EFFECTS = tuple(label for label in LABELS if label != "3c")
"""What must not happen twice; 3c only looks."""

EVERY_POINT = [
    *(f"event:{seq}" for seq in range(1, EVENTS + 1)),
    *(f"commit:{seq}" for seq in range(1, EVENTS + 1)),
    *(f"power:{seq}" for seq in range(1, EVENTS + 1)),
    *(f"{side}:{label}" for side in ("before", "after") for label in LABELS),
]
A_FEW_POINTS = ["event:9", "event:17", "event:28", "commit:12", "power:12", "before:1b", "after:2a"]
CALL_2A = "c00002000"
TWICE = [
    *product(("event:5", "event:9", "event:11", "event:17", "event:36"), (1, 2, 3, 4)),
    *product(("before:3b", "after:3b", "after:1a", "commit:46"), (1, 2, 3)),
    *product(("event:52",), (1, 2)),
]


def _work(folder: Folder, kill: str = "") -> int:
    done = subprocess.run(
        [sys.executable, "-m", "tests.worker", str(folder.path), *([kill] if kill else [])],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


def _killed(folder: Folder, kill: str) -> None:
    assert _work(folder, kill) == -signal.SIGKILL, f"the worker never came to {kill}"
    if kill.startswith("power:"):
        _lose_power(folder)


def _lose_power(folder: Folder) -> None:
    """Takes away what was written and not synced."""
    wal = folder.store.shelf.folder / SESSION / "journal.sqlite-wal"
    os.truncate(wal, int((folder.path / "synced").read_text()))


def _resumed(folder: Folder) -> None:
    assert _work(folder) == 0


def _journal(folder: Folder) -> list[Recorded]:
    file = folder.store.shelf.file(SESSION)
    try:
        return file.read()
    finally:
        file.close()


def _check(folder: Folder) -> None:
    journal = _journal(folder)
    _check_it_completed(journal)
    _check_each_effect_happened_once_or_is_unknown(folder, journal)
    _check_only_interrupted_calls_are_unknown(journal)
    _check_nobody_was_asked_again(folder, journal)
    asyncio.run(_check_history_and_money(folder, journal))


def _check_it_completed(journal: list[Recorded]) -> None:
    ended = [item.event for item in journal if isinstance(item.event, TurnEnded)]
    assert [(end.ending, end.detail) for end in ended] == [("done", "All done.")]
    assert sum(isinstance(item.event, TurnStarted) for item in journal) == 1
    assert sum(isinstance(item.event, AssistantSaid) for item in journal) == len(SCRIPT.replies)


def _check_each_effect_happened_once_or_is_unknown(folder: Folder, journal: list[Recorded]) -> None:
    happened = Counter(folder.lines("effects"))
    outcomes = _outcomes(journal)
    for label in EFFECTS:
        if outcomes[label] == "unknown":
            assert happened[label] <= 1, f"{label} ran twice"
        else:
            assert outcomes[label] == ("error" if label == "4c" else "ok")
            assert happened[label] == 1, f"{label} is on record as done and happened {happened[label]} times"
    assert outcomes["3c"] == "ok"
    assert outcomes["4a"] == "error"


def _check_only_interrupted_calls_are_unknown(journal: list[Recorded]) -> None:
    running: set[str] = set()
    interrupted: set[str] = set()
    for item in journal:
        match item.event:
            case CallStarted(call=call, tool=tool) if tool != "look":
                running.add(call)
            case CallEnded(call=call):
                running.discard(call)
            case SessionResumed():
                interrupted |= running
            case _:
                pass
    ended = [item.event for item in journal if isinstance(item.event, CallEnded)]
    assert {end.call for end in ended if end.outcome == "unknown"} == interrupted


def _check_nobody_was_asked_again(folder: Folder, journal: list[Recorded]) -> None:
    asked = [item.event.call for item in journal if isinstance(item.event, ApprovalAsked)]
    given = {item.event.call: item.seq for item in journal if isinstance(item.event, ApprovalGiven)}
    assert sorted(asked) == sorted(given)
    assert len(asked) == 3
    resumed = {item.event.pid: item.seq for item in journal if isinstance(item.event, SessionResumed)}
    for call, pid in (line.split() for line in folder.lines("questions")):
        assert resumed.get(int(pid), 0) < given[call], f"{call} was asked although its answer is on record"


async def _check_history_and_money(folder: Folder, journal: list[Recorded]) -> None:
    reader = await folder.store.read(SESSION)
    verdict = await reader.verify()
    assert (verdict.problem, verdict.events) == ("", len(journal))
    history = await load_history(reader, ScriptedModel(SCRIPT).encode)
    whole = [msgspec.json.decode(message) for message in await history.messages(reader.get)]
    sent = msgspec.json.decode(folder.lines("requests")[-1])
    assert sent == whole[:-1], "the last request was not the history without its answer"
    _check_provider_would_accept(sent)
    state = await load_state(reader)
    settled = {item.event.spend: item.event.usd for item in journal if isinstance(item.event, SpendSettled)}
    reserved = {item.event.spend: item.event.usd for item in journal if isinstance(item.event, SpendReserved)}
    assert settled.keys() <= reserved.keys()
    assert state.ledger.spent_usd == pytest.approx(sum((reserved | settled).values()))
    assert state.ledger.spent_usd > 0
    await reader.close()


def _check_provider_would_accept(messages: list[dict]) -> None:
    assert messages[0]["role"] == "user"
    for message, following in zip(messages, [*messages[1:], None], strict=True):
        asked = [part["call"] for part in message.get("parts", ()) if part["part"] == "call"]
        if asked:
            assert following is not None
            assert [result["call"] for result in following["results"]] == asked
        else:
            assert following is None or "results" not in following


def _outcomes(journal: list[Recorded]) -> dict[str, str]:
    """How each labelled call ended; fails when a call has no result, or more than one."""
    said = [item.event for item in journal if isinstance(item.event, AssistantSaid)]
    ended = [item.event for item in journal if isinstance(item.event, CallEnded)]
    assert Counter(end.call for end in ended) == Counter(call.call for reply in said for call in reply.calls)
    outcome = {end.call: end.outcome for end in ended}
    return {
        msgspec.json.decode(call.arguments)["label"]: outcome[call.call]
        for reply in said
        for call in reply.calls
        if call.arguments != "[]"
    }


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path)


def test_the_matrix_covers_every_event_and_every_effect_of_an_undisturbed_run(folder):
    _resumed(folder)
    _check(folder)
    assert len(_journal(folder)) == EVENTS
    assert Counter(folder.lines("effects") + folder.lines("looks")) == Counter(LABELS)
    assert set(_outcomes(_journal(folder)).values()) == {"ok", "error"}


def test_resuming_a_finished_run_asks_and_does_nothing(folder):
    _resumed(folder)
    _resumed(folder)
    _check(folder)
    assert len(folder.lines("requests")) == len(SCRIPT.replies)
    assert len(_journal(folder)) == EVENTS + 1


@pytest.mark.parametrize("kill", A_FEW_POINTS)
def test_a_killed_run_completes_without_repeating_anything(folder, kill):
    _killed(folder, kill)
    _resumed(folder)
    _check(folder)


@pytest.mark.parametrize("side", ["before", "after"])
def test_a_call_killed_around_its_effect_is_reported_as_unknown(folder, side):
    _killed(folder, f"{side}:2a")
    assert folder.lines("effects").count("2a") == (side == "after")
    _resumed(folder)
    assert folder.lines("effects").count("2a") == (side == "after")
    assert _outcomes(_journal(folder))["2a"] == "unknown"
    result = next(message for message in msgspec.json.decode(folder.lines("requests")[2]) if _is_2a(message))
    assert "outcome is unknown" in result["results"][0]["text"]


def test_a_call_whose_end_the_machine_lost_is_unknown_and_not_run_again(folder):
    _resumed(folder)
    whole = _journal(folder)
    ended = next(
        item.seq for item in whole if isinstance(item.event, CallEnded) and item.event.call == CALL_2A
    )
    folder = Folder(folder.path / "again")
    folder.path.mkdir()
    _killed(folder, f"power:{ended}")
    assert isinstance(_journal(folder)[-1].event, CallStarted)
    assert folder.lines("effects").count("2a") == 1
    _resumed(folder)
    _check(folder)
    assert _outcomes(_journal(folder))["2a"] == "unknown"


def _is_2a(message: dict) -> bool:
    return any(result["call"] == CALL_2A for result in message.get("results", ()))


def test_a_call_that_only_looks_is_run_again(folder):
    _killed(folder, "after:3c")
    _resumed(folder)
    _check(folder)
    assert folder.lines("looks") == ["3c", "3c"]


def test_an_append_killed_before_its_commit_leaves_nothing(folder):
    _killed(folder, "commit:14")
    assert len(_journal(folder)) < 14
    _resumed(folder)
    _check(folder)


@pytest.mark.slow
@pytest.mark.parametrize("kill", [point for point in EVERY_POINT if point not in A_FEW_POINTS])
def test_a_run_killed_anywhere_completes_without_repeating_anything(folder, kill):
    _killed(folder, kill)
    _resumed(folder)
    _check(folder)


@pytest.mark.slow
@pytest.mark.parametrize(("kill", "later"), TWICE)
def test_a_run_killed_again_while_it_resumes_completes_without_repeating_anything(folder, kill, later):
    _killed(folder, kill)
    _killed(folder, f"event:{len(_journal(folder)) + later}")
    _resumed(folder)
    _check(folder)
