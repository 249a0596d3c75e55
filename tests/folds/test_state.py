from __future__ import annotations

from mainspring.events import (
    AssistantSaid,
    Event,
    FileChange,
    FilesChanged,
    Recorded,
    SuiteEnded,
    SuiteStarted,
)
from mainspring.folds.state import State

_CHANGED = FilesChanged(calls=("c",), changes=(FileChange(path="a.py", kind="modified"),))
_STARTED = SuiteStarted(command="pytest", cause="change", timeout_s=10)
_ENDED = SuiteEnded(command="pytest", outcome="passed")


def test_files_are_changed_until_the_next_reply_or_run_of_tests() -> None:
    assert not _after().are_files_changed
    assert _after(_CHANGED).are_files_changed
    assert not _after(_CHANGED, AssistantSaid(step=1)).are_files_changed
    assert not _after(_CHANGED, _STARTED).are_files_changed
    assert not _after(_CHANGED, _STARTED, _ENDED).are_files_changed
    assert _after(_STARTED, _CHANGED).are_files_changed
    assert not _after(_STARTED, _CHANGED, _ENDED).are_files_changed


def _after(*events: Event) -> State:
    state = State()
    for seq, event in enumerate(events, start=1):
        state.apply(Recorded(seq, seq, event))
    return state
