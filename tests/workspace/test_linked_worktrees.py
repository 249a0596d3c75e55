"""Linked worktrees of one repository that several make at once."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mainspring.workspace.git import Git
from mainspring.workspace.linked_worktrees import add_worktree, drop_worktree
from tests.workspace.test_worktrees import git

AT_ONCE, ROUNDS = 8, 4


def test_worktrees_are_made_and_removed_beside_each_other(tmp_path: Path) -> None:
    place = tmp_path / "project"
    place.mkdir()
    git(place, "init", "-q", "-b", "main")
    (place / "file").touch()
    git(place, "add", "-A")
    git(place, "commit", "-qm", "first")
    repository = Git(place, dict(os.environ))
    commit = repository.text("rev-parse", "HEAD")

    def make(number: int) -> None:
        for turn in range(ROUNDS):
            folder = tmp_path / f"{number}-{turn}" / "work"
            add_worktree(repository, folder, f"b{number}-{turn}", commit)
            assert (folder / "file").exists()
            if turn % 2:
                drop_worktree(repository, folder)

    with ThreadPoolExecutor(AT_ONCE) as threads:
        list(threads.map(make, range(AT_ONCE)))
    assert len(git(place, "worktree", "list").splitlines()) == 1 + AT_ONCE * ROUNDS // 2
