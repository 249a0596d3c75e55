"""The fold of background processes: what is open, what the model was told, and what a lost keeper means."""

import asyncio
import json
from pathlib import Path
from typing import Any

from mainspring.events import NoteAdded, ProcessEnded, ProcessStarted, Recorded
from mainspring.folds.processes import Processes, news
from mainspring.sandbox.held import hold
from mainspring.sandbox.policy import policy
from mainspring.sandbox.survey import SurveyFindings


def folded(*events):
    processes = Processes()
    for seq, event in enumerate(events, 1):
        processes.apply(Recorded(seq, seq, event))
    return processes


def told(processes: Processes) -> list[Any]:
    return list(asyncio.run(news(processes)))


def started(folder: Path, handle="p1"):
    return ProcessStarted(handle=handle, call="c1", command="make serve", folder=str(folder / handle))


def test_a_process_whose_start_was_cut_short_by_a_crash_is_told_of_once(tmp_path):
    processes = folded(started(tmp_path))
    ended, note = told(processes)
    assert ended == ProcessEnded(handle="p1", reason="it was never started")
    assert "p1 has ended (it was never started)" in note.text
    for event in (ended, note):
        processes.apply(Recorded(9, 9, event))
    assert told(processes) == []
    assert processes.open == ()


def test_a_process_whose_keeper_is_gone_has_no_exit_code(tmp_path):
    folder = tmp_path / "p1"
    folder.mkdir()
    meta = {"keeper": 1, "keeper_start": 0, "pid": 1, "pid_start": 0, "boot": "another", "started": 0.0}
    (folder / "meta.json").write_text(json.dumps({**meta, "is_terminal": False}))
    ended, note = told(folded(started(tmp_path)))
    assert ended.exit_code is None
    assert "its exit code is unknown" in note.text


def test_an_end_seen_by_a_call_needs_no_note_and_one_recorded_without_is_caught_up_on(tmp_path):
    both = (started(tmp_path), started(tmp_path, "p2"))
    processes = folded(*both, ProcessEnded(handle="p1", call="c2"), ProcessEnded(handle="p2", exit_code=0))
    (note,) = told(processes)
    assert "p2" in note.text
    assert "p1" not in note.text
    processes.apply(Recorded(9, 9, NoteAdded(text="something else", source="user")))
    assert told(processes) == [note]
    processes.apply(Recorded(10, 10, note))
    assert told(processes) == []


def test_the_first_end_counts(tmp_path):
    processes = folded(
        started(tmp_path), ProcessEnded(handle="p1", exit_code=3), ProcessEnded(handle="p1", exit_code=4)
    )
    known = processes.get("p1")
    assert known is not None
    assert known.ended is not None
    assert known.ended.exit_code == 3


def test_what_an_ended_process_did_to_protected_paths_is_repaired_recorded_and_told(tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    hold(tmp_path / "p1", policy(work, home=tmp_path), SurveyFindings({}, {}, {}), {})
    (work / ".vscode").mkdir()
    ended, note = told(folded(started(tmp_path)))
    assert ended.set_aside == (".vscode",)
    assert "set aside or put back: .vscode" in note.text
    assert (work / ".vscode.set-aside").is_dir()
