"""A session that is resumed after a while says how old it is and what changed since, to person and model."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from pathlib import Path

import pytest

from mainspring.catalog import reading
from mainspring.catalog.sqlite import SqliteSessions
from mainspring.disk.scan import Scan
from mainspring.documents.lines import as_text
from mainspring.events import Event, NoteAdded, SessionStarted, TurnEnded, TurnStarted
from mainspring.session.opening import age_note
from mainspring.waits.reach import Reach
from mainspring.workspace import since
from mainspring.workspace.since import changes_since
from tests.stage import Stage, says, texts


def later(seconds: float) -> Reach:
    return Reach(clock=lambda: time.time_ns() // 1000 + int(seconds * 1e6))


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def touch(path: Path, *, after_s: float = 60) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")
    when = time.time() + after_s
    os.utime(path, (when, when))


def test_an_old_session_tells_its_age_and_the_files_that_changed(tmp_path: Path, work: Path) -> None:
    stage = Stage(tmp_path, says("One."), says("Two."))
    stage.take("go", workspace=str(work))
    touch(work / "src" / "a.py")
    stage.take("again", workspace=str(work), reach=later(7300))
    (note,) = stage.events(NoteAdded)
    assert note.text == "The session was left 2 h 1 min ago. Since then 1 file changed (src/a.py)."
    assert texts(stage.sent())[-2] == f"user: [note from mainspring:resumed] {note.text}"
    assert as_text(note) == f"· {note.text}"


def test_a_note_of_a_person_does_not_make_a_session_young(tmp_path: Path, work: Path) -> None:
    now_us = time.time_ns() // 1000
    times: list[tuple[float, Event]] = [
        (7300, SessionStarted(session="s", workspace=str(work), version="1")),
        (7300, TurnStarted(turn=1)),
        (7300, TurnEnded(turn=1, ending="done")),
        (60, NoteAdded(text="remember the milk", source="user")),
    ]
    events = [(now_us - int(ago_s * 1e6), event) for ago_s, event in times]

    async def told() -> list[Event]:
        store = SqliteSessions(tmp_path / "home")
        async with reading(store, await store.compose(lambda *_: events)) as journal:
            return await age_note(journal, work, now_us, Scan())

    (note,) = asyncio.run(told())
    assert isinstance(note, NoteAdded)
    assert note.text.startswith("The session was left 2 h 1 min ago.")


def test_a_session_that_was_left_a_moment_ago_says_nothing(tmp_path: Path, work: Path) -> None:
    stage = Stage(tmp_path, says("One."), says("Two."))
    stage.take("go", workspace=str(work))
    touch(work / "a.py")
    stage.take("again", workspace=str(work))
    assert stage.events(NoteAdded) == []


def test_the_age_of_a_session_is_nothing_to_go_on_with(tmp_path: Path, work: Path) -> None:
    stage = Stage(tmp_path, says("One."))
    stage.take("go", workspace=str(work))
    with pytest.raises(AssertionError, match="no end"):
        stage.take(workspace=str(work), reach=later(7300))
    assert len(stage.events(NoteAdded)) == 1


def git(folder: Path, *arguments: str) -> str:
    names = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    done = subprocess.run(["git", *names, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_move_of_head_is_named_also_in_a_worktree(work: Path) -> None:
    git(work, "init", "-q")
    git(work, "commit", "-q", "--allow-empty", "-m", "one")
    git(work, "worktree", "add", "-q", "../other")
    first = git(work, "rev-parse", "HEAD")
    before_us = (int(time.time()) - 1) * 1_000_000
    for folder in (work, work.parent / "other"):
        log = Path(git(folder, "rev-parse", "--git-path", "logs/HEAD"))
        (folder / log).write_text("")  # what was before
        git(folder, "commit", "-q", "--allow-empty", "-m", "two")
        second = git(folder, "rev-parse", "HEAD")
        moved = f"git HEAD moved from {first[:9]} to {second[:9]}."
        assert changes_since(folder, before_us, Scan()).endswith(moved)
        assert "HEAD" not in changes_since(folder, before_us + 10**9, Scan())


def test_many_files_are_counted_and_few_named_and_heavy_folders_left_out(work: Path) -> None:
    for number in range(8):
        touch(work / f"{number}.txt")
    touch(work / "node_modules" / "x.js")
    touch(work / ".env")
    said = changes_since(work, time.time_ns() // 1000, Scan())
    assert said == "Since then 9 files changed (0.txt, 1.txt, 2.txt, 3.txt, 4.txt, 4 more)."
    assert changes_since(work, time.time_ns() // 1000 + 10**9, Scan()) == "No change of its files was found."


def test_a_look_that_took_too_long_says_at_least(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(work / "a.py")
    touch(work / "sub" / "b.py")
    monkeypatch.setattr(since, "_MAX_LOOK_S", -1.0)
    assert changes_since(work, 0, Scan()) == "Not all files were looked at."
