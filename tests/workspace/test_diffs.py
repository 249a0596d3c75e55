"""Diffs as git reads them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from mainspring.events import FileChange, FileState
from mainspring.workspace.diffs import unified

STATE = FileState()


@pytest.mark.parametrize("odd", ["\x0c", "\x0b", "\x1c", "\x85", "\u2028", "\r", "\r\n"])
def test_a_diff_of_lines_with_odd_characters_can_be_applied(tmp_path: Path, odd: str) -> None:
    before, after = f"one{odd}still one\ntwo\nthree", f"one{odd}still one\n2{odd}\nthree"
    change = FileChange(path="a.txt", kind="modified", before=STATE, after=STATE)
    diff = "".join(unified(change, before.encode(), after.encode()))
    (tmp_path / "a.txt").write_bytes(before.encode())
    subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=diff.encode(), check=True)
    assert (tmp_path / "a.txt").read_bytes() == after.encode()
