"""What a crafted journal can do to files, branches and jobs of whoever imports it: nothing."""

from __future__ import annotations

import hashlib
import os
import subprocess

import pytest

from mainspring.events import (
    AssistantSaid,
    Blob,
    BranchMoved,
    Event,
    FileChange,
    FilesChanged,
    FileState,
    JobEnded,
    JobPlanned,
    JobSubmitted,
    ModeChosen,
    Text,
    TurnEnded,
    TurnStarted,
    UserSaid,
)
from tests.cli.test_imported import Attack, attack, call

__all__ = ["attack"]
EMPTY = hashlib.sha256(b"").hexdigest()


def turn(*events: Event, number: int = 1) -> tuple[Event, ...]:
    return (
        UserSaid(text="hi"),
        TurnStarted(turn=number),
        AssistantSaid(step=number, parts=(Text(text="done"),)),
        *events,
        TurnEnded(turn=number, ending="done", steps=1),
    )


def was_there(*paths: str) -> FilesChanged:
    """As if the session had removed executable files."""
    blob = Blob(sha256=EMPTY, size=0, media_type="text/plain")
    state = FileState(kind="file", size=0, mode=0o755, blob=blob)
    return FilesChanged(changes=tuple(FileChange(path=each, kind="deleted", before=state) for each in paths))


@pytest.mark.parametrize("back", [("undo",), ("undo", "--files"), ("rewind", "--to", "2")])
def test_going_back_writes_no_file_of_an_imported_journal(attack: Attack, back: tuple[str, ...]) -> None:
    folder = attack.machine.workspace
    marks = [attack.mark, folder.parent / "other", folder / "mark", folder / ".git" / "hooks" / "pre-commit"]
    removed = was_there("../other", str(attack.mark), "mark", ".git/hooks/pre-commit")
    attack.bring(*turn(removed), blobs=[b""])
    word, *options = back
    went = attack.machine.run(word, "theirs", *options)
    assert "files that were changed before the session was imported" in went.stdout + went.stderr
    assert not [mark for mark in marks if mark.exists()]
    attack.machine.run("sessions", "delete", "theirs", "--yes")
    attack.machine.run("import", str(attack.folder / "theirs.jsonl"), "--trust")
    attack.machine.run("undo", "theirs", "--files")
    assert [mark for mark in marks if mark.exists()] == marks[2:]


def test_an_imported_branch_is_not_landed_given_up_or_committed_to(attack: Attack) -> None:
    folder = attack.machine.workspace
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in ("init -q -b mine", "commit -q --allow-empty -m one", "branch main"):
        subprocess.run([*git, *words.split()], check=True)
    commit = subprocess.check_output([*git, "rev-parse", "HEAD"], text=True).strip()
    started = BranchMoved(action="started", branch="mine", base="main", commit=commit)
    attack.bring(started, *turn(was_there(".git/hooks/pre-commit")), blobs=[b""])
    for options in ((), ("--squash",), ("--discard",)):
        refused = attack.machine.run("land", "theirs", "--yes", *options)
        assert (refused.returncode, "has no branch to merge" in refused.stderr) == (2, True), refused
    assert attack.machine.run("resume", "theirs", "go on").returncode == 0
    assert subprocess.check_output([*git, "branch", "--format=%(refname:short)"], text=True) == "main\nmine\n"
    assert not [each for each in attack.machine.events("theirs")[6:] if each["kind"] == "BranchMoved"]


def test_a_fork_of_what_an_import_had_open_runs_nothing_of_it(attack: Attack) -> None:
    mark = attack.machine.workspace / "mark"
    attack.bring(ModeChosen(mode="yolo"), *call(f"touch {mark}"))
    for at in (6, 7, 8, 9):
        fork = attack.machine.run("fork", "theirs", "--at", str(at)).stdout.split()[0]
        assert attack.machine.run("resume", fork).returncode == 0
        (ended,) = [each["body"] for each in attack.machine.events(fork) if each["kind"] == "CallEnded"]
        assert (ended["outcome"], ended["output"][:8]) == ("abandoned", "Not run:")
    assert not mark.exists()


def test_no_job_of_an_imported_journal_is_asked_about_or_cancelled(attack: Attack) -> None:
    log, tool = attack.folder / "log", attack.folder / "bin" / "ssh"
    tool.parent.mkdir()
    tool.write_text(f"#!/bin/sh\necho $* >> {log}\nexit 1\n")
    tool.chmod(0o755)
    with (attack.machine.home / "config.toml").open("a") as file:
        file.write('[jobs.big]\nkind = "slurm"\nhost = "login"\n')
    path = {"PATH": f"{tool.parent}:{os.environ['PATH']}"}
    planned = JobPlanned(job="j1", name="ms-yours-j1", call="c1", host="big", command="sleep 9")
    there, ended = JobSubmitted(job="j1", remote="4711"), JobEnded(job="j1", state="done")
    for inherited, order in (
        (0, (planned, there)),
        (9, (planned, there)),
        (0, (planned, ended, planned, there)),
    ):
        attack.bring(*call("true"), *order, parent_seq=inherited, parent="another" if inherited else "")
        fork = attack.machine.run("fork", "theirs", "--at", "9").stdout.split()[0]
        for session in ("theirs", fork):
            for word in ("cancel", "show", "logs"):
                attack.machine.run("jobs", word, session, "j1", **path)
            attack.machine.run("resume", session, **path)
        assert not log.exists(), log.read_text()
        attack.machine.run("sessions", "delete", "theirs", fork, "--yes", "--waiting")
