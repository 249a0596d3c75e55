"""Worktrees of fixes and farms, and copies of agents, whose sessions were deleted."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from mainspring.app.agents_beside import worktrees_folder
from mainspring.app.operations.cleaning import find_leftovers, remove_leftovers
from mainspring.app.operations.leftovers import Leftover
from mainspring.app.private import WorktreeKind, cache_folder, worktree_folder
from mainspring.sandbox.files import Files
from mainspring.sandbox.policy import policy
from mainspring.settings import Config, load_config
from mainspring.workspace.git import Git
from mainspring.workspace.linked_worktrees import add_worktree
from mainspring.workspace.worktrees import Worktree
from tests.app.operations.test_deletion import config_of, made, turn
from tests.workspace.test_worktrees import git, repository

__all__ = ["repository"]


def tree_of(config: Config, project: Path, tag: str, kind: WorktreeKind = "fixes") -> Path:
    """A worktree that was made two days ago."""
    folder = worktree_folder(config, kind, tag)
    tree = folder if kind == "fixes" else folder / "1"
    add_worktree(
        Git(project, config.environment), tree, f"mainspring/{tag}", git(project, "rev-parse", "HEAD")
    )
    return aged(tree)


def aged(tree: Path) -> Path:
    for path in (*tree.iterdir(), tree):
        time_s = path.stat().st_mtime - 2 * 86400
        os.utime(path, (time_s, time_s))
    return tree


def found(config: Config) -> list[Leftover]:
    return [each for each in asyncio.run(find_leftovers(config)) if each.kind == "worktree"]


def cleaned(config: Config, *, discards_work: bool = False) -> set[Path]:
    gone = asyncio.run(remove_leftovers(config, tuple(found(config)), discards_work=discards_work))
    return {each.path for each in gone}


@pytest.mark.parametrize("kind", ["fixes", "farms"])
def test_a_worktree_of_a_deleted_session_is_removed_and_its_branch_stays(
    tmp_path: Path, repository: Path, kind: WorktreeKind
) -> None:
    config = config_of(tmp_path)
    tree, used = tree_of(config, repository, "gone", kind), tree_of(config, repository, "used", kind)
    made(config, "one", *turn("done"), workspace=str(used / "src"))
    new = tree_of(config, repository, "new", kind)
    (new / "just-now").touch()
    (left,) = found(config)
    assert (left.path, left.unsaved, left.bytes > 0) == (tree, "", True)
    assert cleaned(config) == {tree}
    assert not (tree if kind == "fixes" else tree.parent).exists()
    assert git(repository, "worktree", "list").count("\n") == 2
    assert "mainspring/gone" in git(repository, "branch", "--list")


def test_a_worktree_with_work_that_is_kept_nowhere_else_stays_until_that_is_given_up(
    tmp_path: Path, repository: Path
) -> None:
    config = config_of(tmp_path)
    dirty, loose = tree_of(config, repository, "dirty"), tree_of(config, repository, "loose")
    lost = tree_of(config, repository, "lost")
    (dirty / "src" / "a.py").write_text("changed")
    (dirty / "src" / "new.py").touch()
    git(loose, "checkout", "-q", "--detach")
    git(loose, "commit", "-q", "--allow-empty", "-m", "on no branch")
    (lost / ".git").write_text("gitdir: /nowhere\n")
    for each in (dirty, loose, lost):
        aged(each)
    told = {each.path: each.unsaved for each in found(config)}
    assert told[dirty] == "2 files with changes that were not committed"
    assert told[loose] == "commits that are on no branch"
    assert "its repository is gone" in told[lost]
    assert cleaned(config) == set()
    assert cleaned(config, discards_work=True) == {dirty, loose, lost}
    assert not any(each.exists() for each in (dirty, loose, lost))


def test_worktrees_of_another_data_folder_are_not_ours(tmp_path: Path, repository: Path) -> None:
    (tmp_path / "other").mkdir()
    config = config_of(tmp_path)
    other = load_config({**config.environment, "MAINSPRING_HOME": str(tmp_path / "other")})
    tree = tree_of(other, repository, "theirs")
    unmarked = cache_folder(config) / "fixes" / "0123456789"
    shutil.copytree(tree, unmarked)
    aged(unmarked)
    assert found(config) == []
    usual = load_config({name: config.environment[name] for name in ("HOME", "PATH")})
    assert [each.path for each in found(usual)] == [unmarked]
    assert [each.path for each in found(other)] == [tree]


def test_a_copy_of_an_agent_whose_parent_was_deleted_stays_while_it_has_changes(
    tmp_path: Path, repository: Path
) -> None:
    config = config_of(tmp_path)
    copies = worktrees_folder(config)
    files = Files(policy(repository, home=config.home, data=config.home / "data"))
    for name in ("clean", "dirty"):
        Worktree(copies / name, repository, files, config.environment).make()
    (copies / "dirty" / "work" / "b.txt").write_text("changed")
    git(copies / "dirty" / "work", "commit", "-qam", "in the copy's own repository")
    assert {each.path.name: each.unsaved for each in found(config)} == {
        "clean": "",
        "dirty": "1 file with changes that were not brought back",
    }
    assert cleaned(config) == {copies / "clean"}
    assert cleaned(config, discards_work=True) == {copies / "dirty"}
