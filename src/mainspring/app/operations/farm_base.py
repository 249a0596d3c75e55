"""What the attempts of a farm begin from."""

from __future__ import annotations

from pathlib import Path

from mainspring.app.known import workspace_at
from mainspring.errors import UsageError
from mainspring.settings import Config
from mainspring.workspace.branches import current_branch
from mainspring.workspace.git import Git


def beginning_commit(git: Git, *, is_landing: bool) -> str:
    """The commit that HEAD is at; `UsageError` where there is none, or nothing to land on."""
    commit = git.text("rev-parse", "--verify", "HEAD^{commit}", check=False)
    if not commit:
        raise UsageError(
            f"{git.folder} is no git repository with a commit, so attempts have nothing to begin from.",
            remedy="Run git init and commit, or work in the folder itself: `fix` without --worktree,"
            " or mainspring run --attempts.",
        )
    if is_landing and not current_branch(git):
        raise UsageError(
            "HEAD is detached; --land needs a branch to merge into.",
            remedy="Check a branch out first, or leave --land out.",
        )
    return commit


def uncommitted(config: Config, folder: Path) -> tuple[str, ...]:
    """Tracked files with changes, which no attempt begins with."""
    git = Git(workspace_at(folder), config.environment)
    if not git.text("rev-parse", "--verify", "--quiet", "HEAD^{commit}", check=False):
        return ()
    names = git.run("diff-index", "-z", "--name-only", "--ignore-submodules", "--no-ext-diff", "HEAD")
    return tuple(name.decode("utf-8", "backslashreplace") for name in names.split(b"\0") if name)
