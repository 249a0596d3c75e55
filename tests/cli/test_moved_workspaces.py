"""A session goes on on another machine with its files: those of git, uncommitted ones, and those that were changed."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Machine
from tests.postgres import postgres
from tests.shared_store import FREE, Shared, ended, until_true

DONE = {"text": "done"}
GIT = ("git", "-c", "user.name=ada", "-c", "user.email=ada@example.com")


def shell(command: str) -> dict[str, Any]:
    return {"calls": [{"name": "shell", "arguments": {"command": command}}]}


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(
        [*GIT, *arguments], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def shared(machine: Machine) -> Shared:
    machine.__class__ = Shared
    assert isinstance(machine, Shared)
    machine.begin()
    return machine


@pytest.fixture
def other(shared: Shared, tmp_path: Path) -> dict[str, str]:
    """The environment of another machine, which has the key of the store."""
    home = tmp_path / "other-home"
    home.mkdir(mode=0o700)
    shutil.copy(shared.home / "store.key", home)
    return {"MAINSPRING_HOME": str(home)}


@pytest.fixture
def repository(shared: Shared, tmp_path: Path) -> Path:
    """A clone with a commit that is not pushed, a changed, a deleted, a new and an ignored file."""
    origin, work = tmp_path / "origin.git", shared.workspace
    git(tmp_path, "init", "--quiet", "--bare", "-b", "main", str(origin))
    git(work, "init", "--quiet", "-b", "main")
    for name in ("kept", "changed", "gone", "edited"):
        (work / name).write_text(f"{name} first\n")
    (work / ".gitignore").write_text("out\n")
    git(work, "add", ".")
    git(work, "commit", "--quiet", "-m", "first")
    git(work, "remote", "add", "origin", str(origin))
    git(work, "push", "--quiet", "-u", "origin", "main")
    (work / "local").write_text("not pushed\n")
    git(work, "add", ".")
    git(work, "commit", "--quiet", "-m", "second")
    (work / "changed").write_text("changed by hand\n")
    (work / "gone").unlink()
    (work / "new").write_text("new\n")
    (work / "out").write_text("ignored\n")
    (work / "run.sh").write_text("#!/bin/sh\n")
    (work / "run.sh").chmod(0o755)
    return work


def picture(folder: Path) -> dict[str, str]:
    paths = [path for path in folder.rglob("*") if ".git" not in path.parts and path.is_file()]
    return {str(path.relative_to(folder)): path.read_text() for path in paths}


def begun(shared: Shared) -> str:
    """A session that changed files, was killed while a command ran, and whose machine is gone."""
    change = shell("echo by agent >> edited; mkdir -p a/b; echo deep > a/b/deep; rm kept; echo x >> changed")
    run = shared.run("run", "--model", shared.serve(change, DONE), *FREE, "do it")
    assert run.returncode == 0, run.stderr
    (session,) = shared.states()
    return session


def resumed(shared: Shared, session: str, other: dict[str, str]) -> subprocess.CompletedProcess[str]:
    model = shared.serve({}, {}, shell("cat edited > seen"), DONE)
    return shared.run("resume", session, "go on", "--model", model, *FREE, **other)


def test_a_machine_that_has_nothing_gets_the_files_as_they_were_at_the_last_event(
    shared: Shared, other: dict[str, str], repository: Path
) -> None:
    session = begun(shared)
    before, head = picture(repository), git(repository, "rev-parse", "HEAD")
    status = git(repository, "status", "--porcelain")
    shutil.rmtree(shared.home)
    shutil.rmtree(repository)
    shared.workspace = shared.home.parent
    went_on = resumed(shared, session, other)
    assert went_on.returncode == 0, went_on.stderr
    assert picture(repository) == before | {"seen": "edited first\nby agent\n"}
    assert (repository / "run.sh").stat().st_mode & 0o111
    assert git(repository, "rev-parse", "HEAD") == head
    assert git(repository, "status", "--porcelain") == f"{status}\n?? seen"
    assert git(repository, "branch", "--show-current") == "main"
    (moved,) = [each["body"] for each in shared.events(session) if each["kind"] == "WorkspaceMoved"]
    assert (moved["is_new"], moved.get("left", [])) == (True, [])
    assert not any(each.startswith(".git ") for each in moved.get("lost", []))


def test_a_copy_and_a_fork_of_a_session_have_its_commits_that_are_on_no_remote(
    shared: Shared, other: dict[str, str], repository: Path
) -> None:
    session, head = begun(shared), git(repository, "rev-parse", "HEAD")
    url, shared.url = shared.url, asyncio.run(postgres().new_database())
    assert shared.run("store", "init").returncode == 0
    assert shared.run("store", "copy", "--from", url).returncode == 0
    forked = shared.run("fork", session)
    assert forked.returncode == 0, forked.stderr
    fork = next(iter(shared.states().keys() - {session}))
    shutil.rmtree(shared.home)
    for name in (session, fork):
        shutil.rmtree(repository)
        shared.workspace = shared.home.parent
        went_on = resumed(shared, name, other)
        assert went_on.returncode == 0, went_on.stderr
        assert git(repository, "rev-parse", "HEAD") == head


def test_a_clone_that_is_there_is_brought_up_to_date_and_what_someone_changed_in_it_stays(
    shared: Shared, other: dict[str, str], repository: Path, tmp_path: Path
) -> None:
    session = begun(shared)
    before = picture(repository)
    shutil.rmtree(repository)
    git(tmp_path, "clone", "--quiet", str(tmp_path / "origin.git"), str(repository))
    (repository / "edited").write_text("by somebody else\n")
    went_on = resumed(shared, session, other)
    assert went_on.returncode == 0, went_on.stderr
    after = picture(repository)
    theirs = {"edited": "by somebody else\n", "seen": "by somebody else\n"}
    assert after == {name: text for name, text in (before | theirs).items() if name != "local"}
    assert "edited (someone changed it here)" in went_on.stderr
    again = shared.run("resume", session, "back", "--model", shared.serve({}, {}, {}, {}, DONE), *FREE)
    assert again.returncode == 0, again.stderr
    assert picture(repository) == after


def test_a_folder_without_git_travels_whole_and_what_does_not_is_told(
    shared: Shared, other: dict[str, str]
) -> None:
    work = shared.workspace
    (work / "text").write_text("a\n")
    (work / "bytes").write_bytes(b"\0\xff")
    (work / "link").symlink_to("text")
    (work / ".env").write_text("TOKEN=1\n")
    run = shared.run("run", "--model", shared.serve(shell("echo b >> text"), DONE), *FREE, "do it")
    assert run.returncode == 0, run.stderr
    (session,) = shared.states()
    shutil.rmtree(work)
    shared.workspace = shared.home.parent
    went_on = shared.run("resume", session, "on", "--model", shared.serve({}, {}, DONE), *FREE, **other)
    assert went_on.returncode == 0, went_on.stderr
    assert (work / "text").read_text() == "a\nb\n"
    assert (work / "bytes").read_bytes() == b"\0\xff"
    assert (work / "link").is_symlink()
    assert not (work / ".env").exists()
    assert "not there: .env" in went_on.stderr


def test_a_workspace_that_cannot_be_made_says_why_and_what_to_do(
    shared: Shared, other: dict[str, str], repository: Path, tmp_path: Path
) -> None:
    session = begun(shared)
    events = len(shared.events(session))
    shutil.rmtree(repository)
    shutil.rmtree(tmp_path / "origin.git")
    shared.workspace = shared.home.parent
    refused = resumed(shared, session, other)
    assert refused.returncode == 2
    assert "cannot be made: git clone failed" in refused.stderr
    assert "by hand" in refused.stderr
    assert not repository.exists()
    assert len(shared.events(session)) == events
    assert not list(repository.parent.glob(".workspace-*"))


def test_a_worker_makes_the_workspace_of_what_was_queued_on_another_machine(
    shared: Shared, other: dict[str, str], repository: Path
) -> None:
    session = shared.queue("do it", shared.serve(shell("cat changed local > seen"), DONE))
    shutil.rmtree(repository)
    shared.workspace = shared.home.parent
    worked = shared.run("worker", "--once", **other)
    assert shared.states() == {session: "done"}, worked.stderr
    assert (repository / "seen").read_text() == "changed by hand\nnot pushed\n"


def test_a_worker_of_another_queue_keeps_nobody_from_making_a_workspace(
    shared: Shared, other: dict[str, str], repository: Path
) -> None:
    session = shared.queue("do it", shared.serve(DONE))
    shutil.rmtree(repository)
    shared.workspace = shared.home.parent
    beside = shared.start("worker", "--queue", "night")
    try:
        until_true(lambda: shared.fleet()["workers"])
        worked = shared.run("worker", "--once", **other)
    finally:
        ended(beside)
    assert shared.states() == {session: "done"}, worked.stderr
    assert (repository / "changed").read_text() == "changed by hand\n"
