"""A copy of a workspace: begun with the files as they are, worked in, brought back."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from mainspring.errors import SandboxError
from mainspring.sandbox import Command, CommandResult
from mainspring.sandbox.files import Files
from mainspring.sandbox.ladder import choose
from mainspring.sandbox.policy import policy
from mainspring.workspace.worktrees import Worktree

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}


def git(folder: Path, *words: str) -> str:
    identity = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a"}
    env = {**ENVIRONMENT, **identity, "GIT_COMMITTER_EMAIL": "a@b", "GIT_CONFIG_NOSYSTEM": "1"}
    command = ["git", "-c", "protocol.file.allow=always", *words]
    return subprocess.run(
        command, cwd=folder, env=env, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def repository(tmp_path) -> Path:
    place = tmp_path / "project"
    (place / "src").mkdir(parents=True)
    (place / "src" / "a.py").write_text("one\ntwo\nthree\nfour\nfive\n")
    (place / "b.txt").write_text("b\n")
    (place / ".gitignore").write_text("*.log\n")
    git(place, "init", "-q", "-b", "main")
    git(place, "add", "-A")
    git(place, "commit", "-qm", "first")
    return place


def copied(place: Path, name: str = "child") -> Worktree:
    home = place.parent / "home"
    files = Files(policy(place, home=home, data=home / "data"))
    made = Worktree(place.parent / "copies" / name, place, files, ENVIRONMENT)
    made.make()
    return made


def standing(place: Path) -> tuple[str, str, bytes]:
    """What nobody but the user may move: HEAD, the branches, the index."""
    return (
        git(place, "rev-parse", "HEAD"),
        git(place, "for-each-ref"),
        (place / ".git" / "index").read_bytes(),
    )


def test_changes_are_brought_back_without_touching_head_branches_or_index(repository):
    copy, before = copied(repository), standing(repository)
    (copy.work / "src" / "a.py").write_text("one\ntwo\nthree\nfour\nFIVE\n")
    (copy.work / "new").mkdir()
    (copy.work / "new" / "run.sh").write_text("#!/bin/sh\n")
    (copy.work / "new" / "run.sh").chmod(0o755)
    (copy.work / "b.txt").unlink()
    (copy.work / "noise.log").write_text("ignored")
    (copy.work / ".mainspring-0123456789abcdef").write_text("of a write that a crash broke off")
    changes = copy.changes(is_landing=True)
    assert changes.is_landed
    assert set(changes.files) == {"src/a.py", "new/run.sh", "b.txt"}
    assert b"+FIVE" in changes.diff
    assert (repository / "src" / "a.py").read_text().endswith("FIVE\n")
    assert os.access(repository / "new" / "run.sh", os.X_OK)
    assert not (repository / "b.txt").exists()
    assert not (repository / "noise.log").exists()
    assert standing(repository) == before
    (copy.folder / "store" / "snapshot-index.lock").touch()
    assert copy.changes(is_landing=True).is_landed, "landing again after a crash changes nothing"
    copy.remove()
    assert not copy.folder.exists()


def test_a_dirty_tree_is_what_a_copy_begins_with_and_is_kept(repository):
    (repository / "src" / "a.py").write_text("ONE\ntwo\nthree\nfour\nfive\n")
    (repository / "untracked.txt").write_text("mine\n")
    copy = copied(repository)
    assert (copy.work / "src" / "a.py").read_text().startswith("ONE")
    assert (copy.work / "untracked.txt").read_text() == "mine\n"
    (copy.work / "src" / "a.py").write_text("ONE\ntwo\nthree\nfour\nfive\nsix\n")
    (repository / "b.txt").write_text("changed meanwhile\n")
    changes = copy.changes(is_landing=True)
    assert (changes.is_landed, changes.files) == (True, ("src/a.py",))
    assert (repository / "src" / "a.py").read_text() == "ONE\ntwo\nthree\nfour\nfive\nsix\n"
    assert (repository / "b.txt").read_text() == "changed meanwhile\n"


def test_two_copies_land_one_after_the_other_and_merge_lines(repository):
    first, second = copied(repository, "one"), copied(repository, "two")
    (first.work / "src" / "a.py").write_text("ONE\ntwo\nthree\nfour\nfive\n")
    (second.work / "src" / "a.py").write_text("one\ntwo\nthree\nfour\nFIVE\n")
    assert first.changes(is_landing=True).is_landed
    assert second.changes(is_landing=True).is_landed
    assert (repository / "src" / "a.py").read_text() == "ONE\ntwo\nthree\nfour\nFIVE\n"


def test_a_conflict_changes_nothing_and_shows_both_sides(repository):
    copy = copied(repository)
    (copy.work / "src" / "a.py").write_text("one\ntwo\nTHEIRS\nfour\nfive\n")
    (copy.work / "b.txt").write_text("also\n")
    (repository / "src" / "a.py").write_text("one\ntwo\nOURS\nfour\nfive\n")
    changes = copy.changes(is_landing=True)
    assert not changes.is_landed
    assert changes.conflicts == ("src/a.py",)
    assert b"OURS" in changes.both
    assert b"THEIRS" in changes.both
    assert (repository / "src" / "a.py").read_text() == "one\ntwo\nOURS\nfour\nfive\n"
    assert (repository / "b.txt").read_text() == "b\n"


def test_a_detached_head_and_a_linked_worktree_can_be_copied(repository):
    git(repository, "checkout", "-q", "--detach")
    git(repository, "worktree", "add", "-q", str(repository.parent / "linked"))
    for place in (repository, repository.parent / "linked"):
        copy = copied(place, f"of-{place.name}")
        assert git(copy.work, "log", "--format=%s", "-2").splitlines()[1] == "first"
        (copy.work / "b.txt").write_text("changed\n")
        assert copy.changes(is_landing=True).is_landed
        assert (place / "b.txt").read_text() == "changed\n"


def test_commits_inside_a_copy_stay_there_and_their_files_come_back(repository):
    copy, before = copied(repository), standing(repository)
    assert git(copy.work, "status", "--porcelain") == ""
    (copy.work / "b.txt").write_text("committed\n")
    git(copy.work, "commit", "-qam", "inside")
    git(copy.work, "branch", "-f", "main", "HEAD")
    assert copy.changes(is_landing=True).files == ("b.txt",)
    assert standing(repository) == before
    assert git(repository, "cat-file", "-t", "HEAD") == "commit"


def test_submodules_are_worked_in_and_secrets_are_left_out(repository, tmp_path):
    inner = tmp_path / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    (inner / "x").write_text("x")
    git(inner, "add", "-A")
    git(inner, "commit", "-qm", "x")
    git(repository, "submodule", "--quiet", "add", str(inner), "sub")
    (repository / ".env").write_text("KEY=1")
    (repository / "sub" / ".env").write_text("KEY=2")
    before = standing(repository), standing(inner)
    copy = copied(repository)
    assert (copy.work / "sub" / "x").read_text() == "x"
    assert not (copy.work / ".env").exists()
    assert not (copy.work / "sub" / ".env").exists()
    assert not (copy.work / "sub" / ".git").exists()
    (copy.work / "b.txt").write_text("changed\n")
    (copy.work / "sub" / "x").write_text("y")
    changes = copy.changes(is_landing=True)
    assert (changes.is_landed, changes.files) == (True, ("b.txt", "sub/x"))
    assert (repository / "sub" / "x").read_text() == "y"
    assert git(repository / "sub", "status", "--porcelain", "x") == "M x"
    assert (repository / ".env").read_text() == "KEY=1"
    assert (standing(repository), standing(inner)) == before


def test_a_folder_without_a_repository_is_copied_and_merged_too(tmp_path):
    place = tmp_path / "plain"
    (place / "node_modules").mkdir(parents=True)
    (place / "node_modules" / "big.js").write_text("x")
    (place / "a.txt").write_text("one\n")
    (place / "c.txt").write_text("c\n")
    copy = copied(place)
    assert not (copy.work / "node_modules").exists()
    (copy.work / "a.txt").write_text("two\n")
    (place / "c.txt").write_text("meanwhile\n")
    assert copy.changes(is_landing=True).is_landed
    assert (place / "a.txt").read_text() == "two\n"
    assert (place / "c.txt").read_text() == "meanwhile\n"
    assert not (place / ".git").exists()


def test_what_leads_out_of_the_workspace_is_not_written(repository, tmp_path):
    (repository / ".gitignore").write_text("*.log\nlink\n")
    git(repository, "commit", "-qam", "ignore")
    outside = tmp_path / "outside"
    outside.mkdir()
    copy = copied(repository)
    (repository / "link").symlink_to(outside)
    (copy.work / ".gitignore").write_text("")
    (copy.work / "link").mkdir()
    (copy.work / "link" / "evil").write_text("x")
    changes = copy.changes(is_landing=True)
    assert any(name.startswith("link/evil") for name in changes.left_out)
    assert not list(outside.iterdir())


@pytest.mark.parametrize("rung", ["bwrap", "landlock", "none"])
def test_commits_inside_a_copy_work_in_the_sandbox(repository, rung):
    copy, before = copied(repository), standing(repository)
    home = repository.parent / "home"
    confined = policy(copy.work, home=home, data=home / "data", readable=copy.borrowed)
    line = "echo more >> b.txt && git commit -qam inside && git log --format=%s"

    async def run() -> CommandResult:
        box = await choose(confined, {**ENVIRONMENT, "HOME": str(home)}, name=rung)
        try:
            return await box.run(Command(argv=("bash", "-c", line), cwd=copy.work))
        finally:
            await box.close()

    try:
        done = asyncio.run(run())
    except SandboxError as error:
        pytest.skip(str(error))
    assert done.stdout.decode().splitlines()[::2] == ["inside", "first"], done.stderr
    assert standing(repository) == before


def test_names_that_are_not_utf_8_and_repositories_inside_are_left_out_and_told(repository):
    copy = copied(repository)
    os.symlink(b"b.txt", os.fsencode(copy.work) + b"/bad\xff")
    (copy.work / "inner").mkdir()
    git(copy.work / "inner", "init", "-q")
    (copy.work / "inner" / "x.txt").write_text("x\n")
    (copy.work / "work.txt").write_text("hours of work\n")
    (copy.work / "b.txt").unlink()
    changes = copy.changes(is_landing=True)
    assert changes.is_landed
    assert (repository / "work.txt").read_text() == "hours of work\n"
    assert not (repository / "b.txt").exists()
    assert not (repository / "inner").exists()
    assert sorted(each.split()[0] for each in changes.left_out) == ["bad\\udcff", "inner/"]
    assert all(each.encode() for each in changes.left_out), "it can be recorded"


def test_a_folder_that_became_a_link_brings_nothing_from_behind_it(repository, tmp_path):
    """git still lists what was in it, and hidden secrets are known by where they really lie."""
    secrets = tmp_path / "home" / ".aws"
    secrets.mkdir(parents=True)
    (secrets / "a.py").write_text("aws_secret_access_key = x\n")
    (repository / "src" / "a.py").unlink()
    (repository / "src").rmdir()
    (repository / "src").symlink_to(secrets)
    copy = copied(repository)
    assert (copy.work / "src").is_symlink()
    assert git(copy.work, "ls-files", "src") == "src"
    (copy.work / "b.txt").write_text("changed\n")
    assert copy.changes(is_landing=True).files == ("b.txt",)
