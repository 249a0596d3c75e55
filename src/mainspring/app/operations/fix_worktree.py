"""A fix that is tried in a git worktree: made before its session, removed after it; its branch stays."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import msgspec

from mainspring.app.operations.branches import NotAgreed
from mainspring.app.operations.farm_base import beginning_commit
from mainspring.app.operations.fix_record import Fix
from mainspring.app.operations.risk import risk_of_branch
from mainspring.app.private import worktree_folder
from mainspring.app.records import recording
from mainspring.disk.ids import new_id
from mainspring.errors import UsageError
from mainspring.events import BranchMoved, FixStarted
from mainspring.settings import Config
from mainspring.workspace.branches import PREFIX, current_branch
from mainspring.workspace.git import Git
from mainspring.workspace.linked_worktrees import add_worktree, drop_branch, drop_worktree, merge_branch


def worktree_of(config: Config, place: Path, started: FixStarted, *, is_landing: bool) -> FixStarted:
    """Where the work shall happen; nothing is made yet."""
    git = Git(place, config.environment)
    base, tag = beginning_commit(git, is_landing=is_landing), new_id()
    cache = worktree_folder(config, "fixes", tag)
    return msgspec.structs.replace(
        started,
        root=str(place),
        folder=str(cache / git.text("rev-parse", "--show-prefix")),
        branch=f"{PREFIX}fix-{tag}",
        base=base,
        base_branch=current_branch(git),
    )


async def make_worktree(config: Config, started: FixStarted) -> None:
    git = Git(Path(started.root), config.environment)
    await asyncio.to_thread(add_worktree, git, _tree(started, git), started.branch, started.base)


async def sweep(config: Config, fix: Fix) -> None:
    """Removes the worktree of a fix that is over, and its branch when there is nothing on it."""
    started = fix.started
    git = Git(Path(started.root), config.environment)
    tree = _tree(started, git)
    if tree.exists():
        await asyncio.to_thread(drop_worktree, git, tree)
        with suppress(OSError):
            tree.parent.rmdir()
    if fix.ended and fix.ended.commit in ("", started.base):
        await asyncio.to_thread(drop_branch, git, started.branch)


async def land_fix(config: Config, fix: Fix, *, is_agreed: bool) -> None:
    """Brings the branch of a fix into the one that it began from. Where its risk needs a person, it must be
    `is_agreed`: else `NotAgreed`."""
    started, ended = fix.started, fix.ended
    if ended is None or not ended.commit or ended.commit == started.base:
        raise UsageError("There is nothing to land: the fix changed no file.")
    if not started.base_branch:
        raise UsageError("HEAD was detached when the fix began.", remedy=f"Run: git merge {started.branch}")
    git = Git(Path(started.root), config.environment)
    async with recording(fix.session, config) as recorder:
        told = await risk_of_branch(config, recorder, git.folder, started.base, ended.commit)
        if told.why_ask and not is_agreed:
            raise NotAgreed(fix.session, told, f"mainspring fix --resume {fix.session} --land --yes")
        commit = await asyncio.to_thread(merge_branch, git, started.branch, started.base_branch)
        await recorder.record(
            BranchMoved(
                action="merged",
                branch=started.branch,
                base=started.base_branch,
                commit=commit,
                files=ended.files,
                risk=told.risk.score,
            )
        )
        await asyncio.to_thread(drop_branch, git, started.branch)


def _tree(started: FixStarted, git: Git) -> Path:
    """The worktree, of which the session may work in a folder only."""
    prefix, folder = git.text("rev-parse", "--show-prefix"), Path(started.folder)
    return folder.parents[len(Path(prefix).parts) - 1] if prefix else folder
