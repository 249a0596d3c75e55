"""Where sessions worked again and again, told from their journals."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

from mainspring.app.operations.hotspots import hotspots_of
from mainspring.app.stores import sessions_of
from mainspring.events import ChangesChecked, CheckedFile, CheckFinding, FileChange, FilesChanged, Remembered
from mainspring.index.hotspots import HotspotFold, hotspot_line
from mainspring.settings import load_config
from mainspring.testing import Stage, tool_call


def changed(*paths: str) -> FilesChanged:
    return FilesChanged(changes=tuple(FileChange(path=path, kind="modified") for path in paths))


def test_files_are_told_by_sessions_errors_and_notes() -> None:
    fold = HotspotFold()
    finding = CheckFinding(by="syntax", message="bad")
    fold.add_session([changed("a.py"), changed("a.py", "b.py"), Remembered(text="a.py must stay small")])
    fold.add_session(
        [changed("app/a.py"), ChangesChecked(files=(CheckedFile(path="b.py", findings=(finding,)),))]
    )
    fold.add_session([changed("a.py")], "")
    fold.add_session([changed("x.py")], "app/")
    first, second = fold.hotspots(["a.py", "b.py", "app/x.py", "c.py"])
    assert (first.path, first.sessions, first.changes, first.errors) == ("a.py", 2, 3, 0)
    assert first.notes == ("a.py must stay small",)
    assert (second.path, second.sessions, second.errors) == ("b.py", 1, 1)
    line = hotspot_line([first, second])
    assert line == "earlier sessions: a.py changed by 2 sessions, noted: a.py must stay small"
    assert hotspot_line([]) == ""


def test_sessions_of_one_project_are_read_from_their_journals(tmp_path: Path) -> None:
    config = load_config({"MAINSPRING_HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin"})
    for number in (1, 2):
        write = tool_call("write", path=f"new{number}.py", content="x = 1\n")
        shared = tool_call("shell", command=f"echo {number} >> shared.txt")
        stage = Stage(tmp_path, write, shared, "Done.", sessions=sessions_of(config))
        if number == 1:
            subprocess.run(["git", "init", "-q"], cwd=stage.workspace, check=True)
        stage.run("Go", mode="auto")
    found = asyncio.run(hotspots_of(config, stage.workspace, ["new1.py", "new2.py", "shared.txt"]))
    assert [(each.path, each.sessions) for each in found] == [("shared.txt", 2)]
