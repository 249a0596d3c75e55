"""What machines with one database share besides journals: answers, orders, grants, schedules and secrets."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mainspring.disk.inbox import Inbox, NoteCommand
from mainspring.goals.schedules import Schedule, Schedules
from mainspring.journal.postgres.connection import StoreAddress
from mainspring.journal.postgres.files import PostgresFiles
from tests.cli.conftest import Machine, lines, until
from tests.postgres import execute
from tests.shared_store import FREE, Shared, until_true

TOKEN = "sk-live-abcdefghij0123456789xyzQ"


def shell(command: str) -> dict[str, Any]:
    return {"calls": [{"name": "shell", "arguments": {"command": command}}]}


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


class Driven:
    """A session that a program on this machine drives line by line."""

    def __init__(self, shared: Shared, model: str) -> None:
        words = ("run", "--input-format", "jsonl", "--json", "--model", model, "--mode", "ask")
        limits = ("--max-cost-usd", "1", "--allow-unpriced")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mainspring", *words, *limits],
            cwd=shared.workspace,
            env=shared.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def say(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"type": "say", "text": text}) + "\n")
        self.process.stdin.flush()

    def until(self, kind: str) -> dict[str, Any]:
        return until(self.process, kind)[-1]["body"]


@pytest.fixture
def driven(shared: Shared) -> Iterator[Driven]:
    model = shared.serve(shell("echo hi > one"), shell("echo hi > two; sleep 600"), {"text": "done"})
    session = Driven(shared, model)
    yield session
    session.process.kill()
    session.process.communicate()


def test_a_running_session_is_answered_told_and_stopped_from_another_machine(
    shared: Shared, driven: Driven, other: dict[str, str]
) -> None:
    driven.say("do it")
    driven.until("ApprovalAsked")
    (session,) = shared.states()
    assert "goes on" in shared.run("approve", session, "--scope", "forever", **other).stderr
    driven.until("ApprovalAsked")
    assert (shared.workspace / "one").exists()
    assert shared.run("note", session, "mind the gap", **other).returncode == 0
    assert "goes on" in shared.run("approve", session, **other).stderr
    until_true((shared.workspace / "two").exists)
    assert shared.run("say", session, "hurry", **other).returncode == 0
    assert shared.run("stop", session, **other).returncode == 0
    assert driven.until("TurnEnded")["ending"] == "interrupted"
    bodies = [event["body"] for event in shared.events(session)]
    assert {"mind the gap", "hurry"} <= {body.get("text") for body in bodies}
    assert shared.run("approvals", "list").stdout == shared.run("approvals", "list", **other).stdout != ""


def test_an_owner_that_has_lost_its_session_leaves_what_is_told_for_the_next(
    shared: Shared, driven: Driven
) -> None:
    driven.say("do it")
    driven.until("ApprovalAsked")
    (session,) = shared.states()
    address = StoreAddress(shared.url)
    execute(address, "UPDATE mainspring.leases SET epoch = epoch + 1 WHERE name = $1", f"session/{session}")
    inbox = Inbox(files := PostgresFiles(address, f"sessions/{session}"))
    left = inbox.leave(NoteCommand("mind the gap"))
    until_true(lambda: f"{left}.json" not in files.names("inbox"))
    _, said = driven.process.communicate(timeout=60)
    assert "no longer the owner" in said
    assert [each.id for each in inbox.waiting()] == [left]
    assert files.names("inbox") == [f"{left}.taken"]


def test_what_one_machine_allowed_for_ever_needs_no_question_on_another(
    shared: Shared, other: dict[str, str]
) -> None:
    limits = ("--mode", "ask", "--max-cost-usd", "1", "--allow-unpriced", "do it")
    first = shared.run("run", "--model", shared.serve(shell("echo hi"), {"text": "done"}), *limits)
    assert first.returncode != 0
    (session,) = shared.states()
    assert shared.run("approve", session, "--scope", "forever").returncode == 0
    second = shared.run("run", "--model", shared.serve(shell("echo hi"), {"text": "done"}), *limits, **other)
    assert (second.returncode, second.stdout) == (0, "done\n")
    (grant, *_) = shared.run("approvals", "list", **other).stdout.split()
    assert shared.run("approvals", "revoke", grant, **other).returncode == 0
    assert not shared.run("approvals", "list").stdout


def test_a_goal_is_paused_from_a_machine_that_cannot_signal_its_process(shared: Shared) -> None:
    host = ["unshare", "-u", "sh", "-c", 'hostname far-away; exec "$@"', "sh"]
    if subprocess.run([*host, "true"], check=False, capture_output=True).returncode:
        pytest.skip("needs the right to have another name for this machine")
    engine = shared.workspace.parent / "engine.sh"
    engine.write_text("#!/bin/bash\ncat > /dev/null\necho begun >> begun; sleep 600\n")
    engine.chmod(0o755)
    words = ("goal", "start", "--mode", "auto", "--engine", f"exec:{engine}", "reach it")
    far = subprocess.Popen(
        [*host, sys.executable, "-m", "mainspring", *words],
        cwd=shared.workspace,
        env=shared.environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        until_true((shared.workspace / "begun").exists)
        (goal,) = shared.states()
        assert shared.run("goal", "pause", goal).stdout == f"{goal}: paused\n"
        _, said = far.communicate(timeout=60)
        assert "Paused by request." in said
    finally:
        far.kill()
    assert shared.states() == {goal: "paused"}


def test_what_was_hidden_on_one_machine_is_put_back_on_another_that_has_the_key(
    shared: Shared, other: dict[str, str]
) -> None:
    begun = shared.run("run", "--model", shared.serve({"text": "noted"}), *FREE, f"remember {TOKEN}")
    assert begun.returncode == 0, begun.stderr
    (session,) = shared.states()
    assert not list(shared.home.parent.rglob("secrets.json"))
    said = next(event["body"]["text"] for event in shared.events(session) if event["kind"] == "UserSaid")
    placeholder = said.removeprefix("remember ")
    assert TOKEN not in said
    write = {"calls": [{"name": "write", "arguments": {"path": "kept.txt", "content": placeholder}}]}
    model = shared.serve({}, write, {"text": "no"}, write, {"text": "done"})
    alone = {"MAINSPRING_HOME": str(shared.home.parent / "without-key")}
    without = shared.run("resume", session, "write it", "--model", model, *FREE, **alone)
    assert not (shared.workspace / "kept.txt").exists(), without.stderr
    resumed = shared.run("resume", session, "write it", "--model", model, *FREE, **other)
    assert resumed.returncode == 0, resumed.stderr
    assert (shared.workspace / "kept.txt").read_text() == TOKEN


def test_the_daemons_of_two_machines_begin_a_scheduled_goal_once(
    shared: Shared, other: dict[str, str]
) -> None:
    engine = shared.workspace.parent / "engine.sh"
    engine.write_text("#!/bin/bash\ncat > /dev/null\necho '<promise>DONE</promise>'\n")
    engine.chmod(0o755)
    schedules = Schedules(PostgresFiles(StoreAddress(shared.url, 2.0)))
    hour_us = 3_600_000_000
    schedules.add(
        Schedule(
            cron="@hourly",
            goal="tidy up",
            folder=str(shared.workspace),
            arguments=("--engine", f"exec:{engine}"),
            mode="auto",
            scheduled_us=time.time_ns() // 1000 - 2 * hour_us,
        )
    )
    schedules.add(Schedule(cron="@hourly", goal="x", folder="/not/here", mode="auto", scheduled_us=hour_us))
    homes = (str(shared.home), other["MAINSPRING_HOME"])
    daemons = [shared.start("daemon", "run", "--once", MAINSPRING_HOME=home) for home in homes]
    said = [daemon.communicate(timeout=120)[1] for daemon in daemons]
    assert len(shared.states()) == 1, said
    assert sum("/not/here is not on this machine" in each for each in said) == 2, said
    for environment in ({}, other):
        (row, missing) = lines(shared.run("goal", "schedules", "--json", **environment).stdout)
        assert (row["last"]["outcome"], row["last"]["session"]) == ("started", *shared.states())
        assert missing["last"] is None
