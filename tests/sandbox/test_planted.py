"""Files that the user's next git, package manager or agent would take orders from."""

from __future__ import annotations

import asyncio
import mmap
import os
import subprocess
from pathlib import Path

import pytest

from mainspring.approvals.dangerous import of_path
from mainspring.sandbox import Command, CommandResult
from mainspring.sandbox.files import Files
from mainspring.sandbox.git_settings import named_paths
from mainspring.sandbox.policy import HELD_NAMES, PROTECTED_NAMES, Confinement
from mainspring.sandbox.policy import policy as make_policy
from mainspring.sandbox.probe import build
from tests.sandbox.test_conformance import folder, report

__all__ = ["folder"]

RUNGS = ("bwrap", "landlock")


def run(name: str, policy: Confinement, script: str) -> CommandResult:
    if not report().rung(name).is_available:
        pytest.skip(f"{name} is not available")
    environment = {"PATH": os.environ["PATH"], "HOME": str(policy.workspace.parent / "home")}

    async def main() -> CommandResult:
        sandbox = build(name, policy, environment)
        try:
            return await sandbox.run(Command(argv=("bash", "-c", script), cwd=policy.workspace, timeout_s=60))
        finally:
            await sandbox.close()

    return asyncio.run(main())


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], cwd=folder, check=True)


@pytest.mark.parametrize("name", RUNGS)
def test_git_goes_to_a_branch_with_other_instructions_which_are_set_aside_and_told(
    name: str, folder: Path
) -> None:
    work = folder / "work"
    work.mkdir()
    git(work, "init", "-q", "-b", "main", ".")
    (work / "AGENTS.md").write_text("ours\n")
    git(work, "add", ".")
    git(work, "commit", "-qm", "ours")
    git(work, "checkout", "-qb", "other")
    (work / "AGENTS.md").write_text("theirs\n")
    (work / "more").write_text("x")
    git(work, "add", ".")
    git(work, "commit", "-qm", "theirs")
    git(work, "checkout", "-q", "main")
    done = run(name, make_policy(work, home=folder), "git checkout -q other")
    assert (done.exit_code, (work / "more").exists()) == (0, True), done.stderr
    assert done.set_aside == ("AGENTS.md",)
    assert done.diff_of_aside.splitlines()[-2:] == ["-ours", "+theirs"]
    assert (work / "AGENTS.md").read_text() == "ours\n"
    assert (work / "AGENTS.md.set-aside").read_text() == "theirs\n"


@pytest.mark.parametrize("name", RUNGS)
def test_what_was_planted_is_told_with_its_content(name: str, folder: Path) -> None:
    work = folder / "work"
    (work / ".husky").mkdir(parents=True)
    script = "mkdir -p sub/.husky; echo run me > sub/.husky/pre-commit; seq 1000 > .yarnrc; mkfifo .npmrc"
    done = run(name, make_policy(work, home=folder), script)
    assert done.set_aside == (".npmrc", ".yarnrc", "sub/.husky")
    assert "+1\n+2\n" in done.diff_of_aside
    assert "more lines]" in done.diff_of_aside.splitlines()[-1]
    done = run(name, make_policy(work, home=folder), "mkdir -p x/.husky; echo run me > x/.husky/pre-commit")
    assert done.diff_of_aside.splitlines()[-1] == "+run me"


@pytest.mark.parametrize("name", RUNGS)
@pytest.mark.parametrize(
    "script",
    [
        "echo 'gitdir: {other}/.git' > .git",
        "git init -q . && ln -s {other} .git/modules",
        "git init -q . && rm -rf .git/info && ln -s {other}/.git/info .git/info",
        "mkdir x && cd x && echo ref: refs/heads/a > HEAD && echo {other}/.git > commondir",
    ],
)
def test_a_repository_elsewhere_that_a_command_points_at_stays_as_it_is(
    name: str, script: str, folder: Path
) -> None:
    """A command cannot write to it, and must not have us do so."""
    work, other = folder / "work", folder / "other"
    work.mkdir()
    git(folder, "init", "-q", str(other))
    git(other, "config", "core.fsmonitor", "ours")
    for part in ("hooks/pre-commit", "info/attributes"):
        (other / ".git" / part).write_text("ours")
    before = {path: path.read_bytes() for path in other.rglob("*") if path.is_file()}
    run(name, make_policy(work, home=folder / "home"), script.format(other=other))
    assert {path: path.read_bytes() for path in other.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("name", RUNGS)
def test_packages_keep_their_own_files(name: str, folder: Path) -> None:
    work = folder / "work"
    work.mkdir()
    script = "mkdir -p node_modules/x; echo a > node_modules/x/AGENTS.md; echo b > node_modules/x/.npmrc"
    assert run(name, make_policy(work, home=folder), script).set_aside == ()
    assert (work / "node_modules/x/AGENTS.md").read_text() == "a\n"


def test_a_file_tool_writes_held_names_and_a_person_is_asked_first(tmp_path: Path) -> None:
    files = Files(make_policy(tmp_path, home=tmp_path / "home"))
    files.write("AGENTS.md", b"asked for")
    assert (tmp_path / "AGENTS.md").read_bytes() == b"asked for"
    for name in (*HELD_NAMES, *PROTECTED_NAMES, "AGENTS.md", ".hg/hgrc", ".git/info/attributes"):
        assert "startup" in of_path(f"/work/sub/{name}", is_write=True), name
        assert "startup" not in of_path(f"/work/sub/{name}", is_write=False)


def test_settings_of_other_version_control_systems_are_refused_to_file_tools(tmp_path: Path) -> None:
    policy = make_policy(tmp_path, home=tmp_path / "home")
    for name in (".hg/hgrc", ".jj/repo/config.toml", ".git/info/attributes", "deep/.git/info/attributes"):
        assert policy.refuses_write(tmp_path / name), name
    for name in (".hg/store/data", "info/attributes", "repo/config.toml", ".git/info/exclude"):
        assert not policy.refuses_write(tmp_path / name), name


def test_a_configuration_names_what_it_includes_and_runs(tmp_path: Path) -> None:
    git_dir = tmp_path / ".git"
    git_dir.mkdir()
    (tmp_path / "clean.py").touch()
    (tmp_path / "pager").touch()
    (git_dir / "config").write_text(
        '[core]\n\tbare = false\n[include]\n\tpath = ../team\n[filter "x"]\n\tclean = python clean.py %f\n'
        '[remote "origin"]\n\turl = pager\n'
    )
    (tmp_path / "team").write_text("[include]\npath = more\n[core]\nhooksPath = hooks-of-team\n")
    (tmp_path / "more").write_text("[include]\npath = team\n")
    named = {path.relative_to(tmp_path).as_posix() for path in named_paths(git_dir)}
    assert named == {"team", "more", "clean.py", "hooks-of-team"}


def test_a_configuration_that_a_mapping_changed_unseen_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that is dirty already is written to without a change of the file's times."""
    monkeypatch.setattr("mainspring.disk.scan.SETTLED_NS", 0)
    config = tmp_path / ".git/config"
    config.parent.mkdir()
    config.write_text("[include]\n\tpath = one\n")
    with config.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        at = mapped.find(b"one")
        for name in (b"two", b"six", b"ten"):
            mapped[at : at + 3] = name
            assert [path.name for path in named_paths(config.parent)] == [name.decode()]
    config.unlink()
    assert list(named_paths(config.parent)) == []
