"""Linked worktrees of a repository, each on a branch of its own, and bringing such a branch into another one.

git itself keeps a list of them; one whose folder is gone, or was made only in part, is made anew.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from mainspring.errors import UsageError
from mainspring.events.counts import plural
from mainspring.system import lock
from mainspring.workspace.branches import current_branch, identity, tip_of
from mainspring.workspace.git import Git, GitFailed

_TESTS = re.compile(r"(^|/)(tests?|spec|__tests__)/|(^|/)(test_[^/]*|conftest)\.py$|[._](test|spec)\.\w+$")
_BUILD = re.compile(
    r"(^|/)(\.github|\.gitlab|\.circleci)/|(^|/)(Makefile|Dockerfile|pyproject\.toml|setup\.(py|cfg)|package\.json"
    r"|go\.mod|Cargo\.toml|requirements[^/]*\.txt|[^/]*\.lock|[^/]*-lock\.\w+|\.gitlab-ci\.yml)$"
)


def add_worktree(git: Git, folder: Path, branch: str, commit: str) -> None:
    """Makes a worktree with nothing in it but a commit, on a new branch; what is left of an earlier one that
    nobody has worked in is removed."""
    with _alone(git):
        _drop(git, folder)
        drop_branch(git, branch)
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        git.run("worktree", "add", "--quiet", "-b", branch, str(folder), commit)


def drop_worktree(git: Git, folder: Path) -> None:
    """Removes a worktree; its branch stays."""
    with _alone(git):
        _drop(git, folder)


def unsaved_in(folder: Path, environment: Mapping[str, str]) -> str:
    """What would be lost with a worktree, whose branch stays; empty when nothing would."""
    git = Git(folder, environment)
    top = git.text("rev-parse", "--show-toplevel", check=False)
    if not top or Path(top) != folder.resolve():
        return "its repository is gone, so whether all in it was committed is unknown"
    try:
        changed = [
            each for each in git.run("status", "--porcelain", "-z", "--no-renames").split(b"\0") if each
        ]
        held = git.text("for-each-ref", "--count=1", "--contains=HEAD")
    except GitFailed as error:
        return f"what is in it is unknown: {error.message}"
    if changed:
        return f"{plural(len(changed), 'file')} with changes that were not committed"
    return "" if held else "commits that are on no branch"


def drop_left(folder: Path, environment: Mapping[str, str]) -> None:
    """Removes a worktree whose repository may be gone; its branch stays."""
    common = Git(folder, environment).text(
        "rev-parse", "--path-format=absolute", "--git-common-dir", check=False
    )
    if common and (folder / ".git").is_file():
        drop_worktree(Git(Path(common), environment), folder)
    else:
        shutil.rmtree(folder)


@contextmanager
def _alone(git: Git) -> Generator[None]:
    """While no other process or thread of ours changes the list: git reads entries that are half written, and
    removes them."""
    handle = os.open(git.folder / git.text("rev-parse", "--git-common-dir"), os.O_RDONLY)
    try:
        lock(handle)
        yield
    finally:
        os.close(handle)


def _drop(git: Git, folder: Path) -> None:
    git.run("worktree", "remove", "--force", "--force", str(folder), check=False)
    if folder.exists():
        shutil.rmtree(folder)
    git.run("worktree", "prune")


def drop_branch(git: Git, branch: str) -> None:
    git.run("update-ref", "-d", f"refs/heads/{branch}")


def merge_branch(git: Git, branch: str, base: str) -> str:
    """Brings a branch into `base`, on which HEAD must be, and gives the commit. Files that would have to be
    merged by hand, or that have changes here, are left as they are, and named."""
    if current_branch(git) != base:
        raise UsageError(f"HEAD is not on {base}.", remedy=f"Run: git switch {base}")
    ours, made = tip_of(git, base), tip_of(git, branch)
    common = git.text("merge-base", ours, made, check=False)
    if common == made:  # somebody has done it, perhaps a process that died before it could say so
        return ours
    if common != ours:
        made = _merged(git, branch, base)
    try:
        git.run("merge", "--ff-only", "--quiet", "--no-stat", made)
    except GitFailed as error:
        raise UsageError(
            f"{branch} cannot be brought into {base}: {error.message}",
            remedy="Commit or stash what you have changed, and try again.",
        ) from error
    return made


def _merged(git: Git, branch: str, base: str) -> str:
    """A commit that has both, when they can be put together without a person."""
    answer = git.run("merge-tree", "--write-tree", "--name-only", base, branch, fine=(0, 1)).decode()
    tree, _, rest = answer.partition("\n")
    if conflicts := [line for line in rest.partition("\n\n")[0].splitlines() if line]:
        raise UsageError(
            f"{base} has moved on, and both change {', '.join(conflicts)}.", remedy=f"Run: git merge {branch}"
        )
    message = f"Merge {branch}"
    parents = ("-p", tip_of(git, base), "-p", tip_of(git, branch))
    return git.run("commit-tree", tree, *parents, "-m", message, env=identity(git)).decode().strip()


def risks_between(git: Git, base: str, tip: str) -> tuple[str, ...]:
    """What a person should look at in a change: what it deletes, tests, and what builds the project."""
    listed = git.run("diff-tree", "-r", "-z", "--name-status", "--no-renames", base, tip).decode(
        "utf-8", "replace"
    )
    fields = listed.split("\0")
    changed = dict(zip(fields[1::2], fields[::2], strict=False))
    deleted = sum(status == "D" for status in changed.values())
    found = [f"deletes {plural(deleted, 'file')}"] if deleted else []
    found += ["changes tests"] if any(_TESTS.search(path) for path in changed) else []
    found += ["changes how it is built"] if any(_BUILD.search(path) for path in changed) else []
    return tuple(found)
