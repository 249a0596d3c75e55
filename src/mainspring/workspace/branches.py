"""A branch of the session's own: begun on a clean tree, committed to file by file, landed when asked.

Commits are made from objects, not by `git add` or `git commit`: only files that this session changed are in
them, as it left them, and no hook, filter or signing program runs. HEAD moves only between two branches at
the same content, so the working tree is never rewritten. In doubt nothing is done, and the reason is said.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Literal

from mainspring.disk.scratch import ScratchFolder
from mainspring.disk.untrusted import read_untrusted
from mainspring.errors import UsageError
from mainspring.events import BranchMoved, FilesChanged, FileState
from mainspring.workspace.git import Git
from mainspring.workspace.restore import RestoreStep, net, state_of

PREFIX = "mainspring/"
_SLUG_LENGTH = 40
_MAX_FILE_BYTES = 1 << 30
FALLBACK_IDENTITY = {
    "GIT_AUTHOR_NAME": "mainspring",
    "GIT_AUTHOR_EMAIL": "mainspring@localhost",
    "GIT_COMMITTER_NAME": "mainspring",
    "GIT_COMMITTER_EMAIL": "mainspring@localhost",
}


def start(git: Git, goal: str) -> BranchMoved:
    """Puts HEAD on a new branch at the same commit. `UsageError` when the tree does not allow it."""
    base, commit = check_start(git)
    branch = _free_name(git, goal)
    git.run("update-ref", f"refs/heads/{branch}", commit, _gone(commit))
    git.run("symbolic-ref", "-m", f"mainspring: begin {branch}", "HEAD", f"refs/heads/{branch}")
    return BranchMoved(action="started", branch=branch, base=base, commit=commit)


def check_start(git: Git) -> tuple[str, str]:
    """The branch and the commit that a new one begins at. `UsageError` when the tree does not allow it."""
    base = current_branch(git)
    if not base:
        raise UsageError(
            "HEAD is detached; --branch needs a branch to merge into.",
            remedy="Check a branch out first, or leave --branch out.",
        )
    if git.run("status", "--porcelain", "-z", "--untracked-files=no", "--ignore-submodules=all"):
        raise UsageError(
            "The working tree has changes that are not committed; it is left alone.",
            remedy="Commit or stash them, or leave --branch out.",
        )
    commit = git.text("rev-parse", "--verify", "HEAD^{commit}", check=False)
    if not commit:
        raise UsageError(
            f"The branch {base} has no commit yet.", remedy="Commit something, or leave --branch out."
        )
    return base, commit


def commit(
    git: Git,
    at: BranchMoved,
    changed: Iterable[FilesChanged],
    message: str,
    *,
    is_secret: Callable[[str], bool],
) -> BranchMoved | None:
    """Commits what the session changed since its branch began; None when the branch has it all. When only
    files that may not be committed changed, the event names them and the commit is the one before."""
    if current_branch(git) != at.branch:
        raise UsageError(
            f"HEAD is no longer on {at.branch}; nothing was committed.", remedy=f"Run: git switch {at.branch}"
        )
    tip = tip_of(git, at.branch)
    root = Path(git.text("rev-parse", "--show-toplevel"))
    prefix = git.text("rev-parse", "--show-prefix")
    steps = net(changed)
    left_out = _left_out(git, at.base, steps, is_secret)
    files = [step for step in steps if step.path not in left_out]
    entries = _entries(git, prefix, files, gone=_gone(tip))
    with ScratchFolder() as scratch:
        apart = {"GIT_INDEX_FILE": str(scratch.path / "index")}
        git.run("read-tree", tip, env=apart)
        top = Git(root, git.environment)
        top.run("update-index", "-z", "--index-info", stdin=entries, env=apart)
        tree = top.run("write-tree", env=apart).decode().strip()
    told = tuple(f"{path} ({why})" for path, why in sorted(left_out.items()))
    if tree == git.text("rev-parse", f"{tip}^{{tree}}"):
        if set(told) <= set(at.left_out):
            return None
        return BranchMoved(action="committed", branch=at.branch, base=at.base, commit=tip, left_out=told)
    made = git.run("commit-tree", tree, "-p", tip, "-m", message, env=identity(git)).decode().strip()
    top.run("update-index", "-z", "--index-info", stdin=entries)
    git.run("update-ref", "-m", "mainspring: checkpoint", f"refs/heads/{at.branch}", made, tip)
    names = git.run("diff-tree", "-r", "-z", "--name-only", "--no-renames", tip, made)
    return BranchMoved(
        action="committed",
        branch=at.branch,
        base=at.base,
        commit=made,
        files=tuple(name.decode("utf-8", "replace") for name in names.split(b"\0") if name),
        left_out=told,
    )


def land(git: Git, at: BranchMoved, how: Literal["merge", "squash"], message: str) -> BranchMoved:
    """Brings the branch into its base, when the base has not moved, and goes back to the base."""
    tip = tip_of(git, at.branch)
    base = _require_landable(git, at)
    if tip == base:
        kept_out = f" Not committed: {', '.join(at.left_out)}." if at.left_out else ""
        raise UsageError(
            f"{at.branch} has no commits of its own, so there is nothing to {how}.{kept_out}",
            remedy="Commit on it what you want to keep, or give it up with --discard.",
        )
    made = tip
    if how == "squash":
        made = git.run(
            "commit-tree", f"{tip}^{{tree}}", "-p", base, "-m", message, env=identity(git)
        ).decode()
    made = made.strip()
    git.run("update-ref", "-m", f"mainspring: {how} {at.branch}", f"refs/heads/{at.base}", made, base)
    _leave(git, at, tip)
    action = "merged" if how == "merge" else "squashed"
    return BranchMoved(action=action, branch=at.branch, base=at.base, commit=made)


def discard(git: Git, at: BranchMoved) -> BranchMoved:
    """Gives the branch up. The files must be as they were when it began: the time machine sees to that."""
    tip = tip_of(git, at.branch)
    base = _require_landable(git, at)
    names = git.run("diff-tree", "-r", "-z", "--name-only", "--no-renames", base, tip)
    kept = git.run("ls-tree", "-r", "-z", "--full-tree", base)
    before = {line.partition(b"\t")[2]: line for line in kept.split(b"\0") if line}
    gone = f"0 {_gone(tip)}\t".encode()
    entries = b"".join(before.get(name, gone + name) + b"\0" for name in names.split(b"\0") if name)
    top = Git(Path(git.text("rev-parse", "--show-toplevel")), git.environment)
    top.run("update-index", "-z", "--index-info", stdin=entries)
    _leave(git, at, tip)
    return BranchMoved(action="discarded", branch=at.branch, base=at.base, commit=tip)


def _require_landable(git: Git, at: BranchMoved) -> str:
    """The commit of the base; `UsageError` when landing would need more than moving names."""
    if current_branch(git) != at.branch:
        raise UsageError(f"HEAD is not on {at.branch}.", remedy=f"Run: git switch {at.branch}")
    base = tip_of(git, at.base)
    if git.text("merge-base", base, at.branch, check=False) != base:
        raise UsageError(
            f"{at.base} has moved on since {at.branch} began.",
            remedy=f"Rebase the branch first: git rebase {at.base}, and try again.",
        )
    places = git.text("worktree", "list", "--porcelain")
    if f"branch refs/heads/{at.base}\n" in places + "\n":
        raise UsageError(
            f"{at.base} is checked out in another worktree.", remedy="Run `mainspring land` there."
        )
    return base


def _leave(git: Git, at: BranchMoved, tip: str) -> None:
    git.run("symbolic-ref", "-m", f"mainspring: leave {at.branch}", "HEAD", f"refs/heads/{at.base}")
    git.run("update-ref", "-d", f"refs/heads/{at.branch}", tip)


def current_branch(git: Git) -> str:
    """The branch that HEAD is on, empty for none."""
    return git.text("symbolic-ref", "--quiet", "HEAD", check=False).removeprefix("refs/heads/")


def tip_of(git: Git, branch: str) -> str:
    """The last commit of a branch."""
    return git.text("rev-parse", "--verify", f"refs/heads/{branch}^{{commit}}")


def _free_name(git: Git, goal: str) -> str:
    slug = re.sub(r"[^a-z0-9]+", "-", goal.lower())[:_SLUG_LENGTH].strip("-") or "work"
    taken = set(git.text("for-each-ref", "--format=%(refname:short)", f"refs/heads/{PREFIX}").splitlines())
    numbered = (f"{PREFIX}{slug}" + (f"-{number}" if number > 1 else "") for number in range(1, 10_000))
    return next(name for name in numbered if name not in taken)


def identity(git: Git) -> Mapping[str, str]:
    """Nothing when the user has an identity, else ours."""
    is_known = all(git.text("config", "--get", key, check=False) for key in ("user.name", "user.email"))
    return {} if is_known else FALLBACK_IDENTITY


def _left_out(
    git: Git, base: str, steps: Iterable[RestoreStep], is_secret: Callable[[str], bool]
) -> dict[str, str]:
    """The files that may not be committed, and why."""
    found: dict[str, str] = {}
    listed = git.run("ls-tree", "-r", "-z", "--name-only", base).split(b"\0")
    tracked = {name.decode("utf-8", "replace") for name in listed} | git.tracked().keys()
    paths = [step.path for step in steps]
    answer = git.run("check-ignore", "-z", "--stdin", stdin=_nul(paths), fine=(0, 1))
    ignored = {name.decode("utf-8", "replace") for name in answer.split(b"\0")}
    attributes = git.run("check-attr", "-z", "--stdin", "filter", stdin=_nul(paths)).split(b"\0")
    filtered = {
        attributes[index].decode("utf-8", "replace"): attributes[index + 2].decode("utf-8", "replace")
        for index in range(0, len(attributes) - 2, 3)
        if attributes[index + 2] not in (b"unspecified", b"unset")
    }
    for step in steps:
        why = _why_not(step, git.folder, is_tracked=step.path in tracked, is_secret=is_secret)
        if step.path in ignored:
            why = "it is ignored"
        elif step.path in filtered:
            why = f"it needs the filter {filtered[step.path]}, which would run a program"
        if why:
            found[step.path] = why
    return found


def _why_not(step: RestoreStep, root: Path, *, is_tracked: bool, is_secret: Callable[[str], bool]) -> str:
    state: FileState | None = step.now
    if any(is_secret(part) for part in Path(step.path).parts):
        return "files of that name hold secrets"
    if step.then is not None and step.then.kind != "folder" and not is_tracked and state is not None:
        return "it was there before, and not tracked"
    if state is not None and state.kind == "other":
        return "it is not a file"
    if _is_in_other_repository(root, step.path):
        return "it belongs to another repository"
    if state is not None and state.kind != "folder":
        if state.blob is None:
            return state.reason
        if state_of(root, RestoreStep(step.path, state, state)) != "now":
            return "someone else changed it since"
    return ""


def _gone(commit: str) -> str:
    """What git writes for nothing, as long as the names of objects are in this repository."""
    return "0" * len(commit)


def _entries(git: Git, prefix: str, steps: Iterable[RestoreStep], *, gone: str) -> bytes:
    """Lines for `update-index`: what each path shall be in the commit."""
    lines: list[bytes] = []
    for step in steps:
        path = f"{prefix}{step.path}".encode()
        state = step.now
        if state is None or state.kind == "folder":
            if state is None and (step.then is None or step.then.kind != "folder"):
                lines.append(f"0 {gone}\t".encode() + path)
            continue
        place = git.folder / step.path
        if state.kind == "link":
            mode, options = "120000", ("--no-filters",)
            data = os.fsencode(place.readlink())
        else:
            mode, options = ("100755" if state.mode & 0o100 else "100644"), ("--path", step.path)
            data = read_untrusted(place, max_bytes=_MAX_FILE_BYTES, root=git.folder)
        name = git.run("hash-object", "-w", "--stdin", *options, stdin=data).decode().strip()
        lines.append(f"{mode} {name}\t".encode() + path)
    return b"".join(line + b"\0" for line in lines)


def _is_in_other_repository(root: Path, path: str) -> bool:
    above = Path(path).parent
    return any((root / part / ".git").exists() for part in (above, *above.parents) if part != Path())


def _nul(paths: Iterable[str]) -> bytes:
    return b"".join(path.encode() + b"\0" for path in paths)
