"""Commits in a linked worktree: they work on every rung, and reach no branch that somebody else stands on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mainspring.app.policies import confinement_of
from mainspring.errors import SandboxError
from mainspring.sandbox import Command, CommandResult, Confinement
from mainspring.sandbox.ladder import choose
from mainspring.sandbox.linked_git import LinkedGit, linked_git
from mainspring.settings import Config, load_config
from tests.workspace.test_worktrees import git

RUNGS = ("bwrap", "landlock", "none")
COMMIT = "echo x > new && git add new && git -c user.name=a -c user.email=a@b commit -qm two"


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    """A worktree on the branch `side`, of a repository whose own is on `main`."""
    main = tmp_path / "main"
    main.mkdir()
    git(main, "init", "-q", "-b", "main")
    (main / "a").write_text("a\n")
    git(main, "add", "-A")
    git(main, "commit", "-qm", "one")
    git(main, "worktree", "add", "-q", "-b", "side", str(tmp_path / "linked"))
    return tmp_path / "linked"


def config_in(folder: Path) -> Config:
    return load_config(
        {"MAINSPRING_HOME": str(folder / "home"), "HOME": str(folder), "PATH": "/usr/bin:/bin"}
    )


def ran(linked: Path, rung: str, line: str, mode: str = "auto") -> CommandResult:
    config = config_in(linked.parent)
    policy = confinement_of(linked, mode, config)  # pyright: ignore[reportArgumentType]

    async def run(policy: Confinement, line: str) -> CommandResult:
        sandbox = await choose(policy, config.environment, name=rung)
        try:
            return await sandbox.run(Command(argv=("bash", "-c", line), cwd=policy.workspace))
        finally:
            await sandbox.close()

    try:
        asyncio.run(run(confinement_of(linked.parent / "main", "auto", config), "true"))
    except SandboxError as error:  # this machine has no such rung
        pytest.skip(error.message)
    return asyncio.run(run(policy, line))


@pytest.mark.parametrize("rung", RUNGS)
def test_a_commit_works(linked: Path, rung: str) -> None:
    result = ran(linked, rung, COMMIT)
    assert result.exit_code == 0, result.stderr
    assert git(linked, "log", "--format=%s", "side") == "two\none"
    assert git(linked, "status", "--porcelain") == ""


@pytest.mark.parametrize("rung", RUNGS[:2])
@pytest.mark.parametrize(
    "line",
    [
        "git update-ref refs/heads/main HEAD~0",
        "git branch -f main HEAD",
        'echo 0 > "$(git rev-parse --git-common-dir)/refs/heads/main"',
        'echo /tmp > "$(git rev-parse --git-dir)/commondir"',
        'echo x > "$(git rev-parse --git-common-dir)/hooks/pre-commit"',
        "git config core.fsmonitor x",
    ],
)
def test_what_runs_programs_and_branches_of_others_stay_as_they_were(
    linked: Path, rung: str, line: str
) -> None:
    main = linked.parent / "main" / ".git"
    own = main / "worktrees" / "linked"
    before = [
        path.read_text() for path in (main / "config", own / "commondir", main / "refs" / "heads" / "main")
    ]
    ran(linked, rung, f"{COMMIT}; {line}")
    after = [
        path.read_text() for path in (main / "config", own / "commondir", main / "refs" / "heads" / "main")
    ]
    assert after == before
    assert not (main / "hooks" / "pre-commit").exists()


@pytest.mark.parametrize("rung", RUNGS[:2])
def test_a_session_that_only_reads_commits_nothing(linked: Path, rung: str) -> None:
    assert ran(linked, rung, COMMIT, mode="plan").exit_code != 0
    assert git(linked, "log", "--format=%s", "side") == "one"


def test_a_repository_that_does_not_point_back_opens_nothing(linked: Path, tmp_path: Path) -> None:
    """As when a `.git` that came with a workspace names a repository of somebody else."""
    other = tmp_path / "other"
    other.mkdir()
    (other / ".git").write_text((linked / ".git").read_text())
    assert linked_git(linked) != LinkedGit()
    assert linked_git(other) == linked_git(tmp_path / "main") == linked_git(tmp_path) == LinkedGit()
    objects = tmp_path / "main" / ".git" / "objects"
    objects.rename(tmp_path / "elsewhere")
    objects.symlink_to(tmp_path / "elsewhere")
    assert not any(each.name in ("objects", "elsewhere") for each in linked_git(linked).writable)
