"""Workers as people use them: real processes that take sessions from a queue in a real Postgres."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from mainspring.catalog import QueuedSession, SessionRow, WorkerRow
from mainspring.catalog.postgres import PostgresSessions
from mainspring.catalog.postgres_queue import PostgresQueue
from mainspring.daemon.worker import Worker
from mainspring.goals.schedules import Schedule, Schedules
from mainspring.journal.postgres.connection import StoreAddress
from mainspring.journal.postgres.files import PostgresFiles
from mainspring.settings import load_config
from tests.cli.conftest import Machine
from tests.cli.conftest import machine as plain_machine
from tests.postgres import execute
from tests.shared_store import FREE, Shared, ended, until_true

__all__ = ["plain_machine"]
DONE = {"text": "done"}


def effect(name: str = "effects") -> dict[str, object]:
    return {"calls": [{"name": "shell", "arguments": {"command": f"echo once >> {name}"}}]}


@pytest.fixture
def shared(plain_machine: Machine) -> Shared:
    plain_machine.__class__ = Shared
    assert isinstance(plain_machine, Shared)
    plain_machine.begin()
    return plain_machine


def engine(shared: Shared, code: str) -> str:
    path = shared.workspace.parent / "engine.sh"
    path.write_text(f"#!/bin/bash\ncat > /dev/null\n{code}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return f"exec:{path}"


def goal(shared: Shared, code: str, *options: str) -> str:
    begun = shared.run(
        "goal", "start", "--mode", "auto", *options, "--engine", engine(shared, code), "reach it"
    )
    assert begun.returncode == 0, begun.stderr
    return begun.stdout.strip()


def owner_of(shared: Shared, session: str) -> int:
    """The process that went on with a session last."""
    events = reversed(shared.events(session))
    return next(event["body"]["pid"] for event in events if event["kind"] == "SessionResumed")


def test_what_is_queued_is_done_by_a_worker_on_another_machine_under_its_limits(
    shared: Shared, tmp_path: Path
) -> None:
    session = shared.queue("do it", shared.serve(effect(), DONE), "--max-steps", "7")
    assert not (shared.workspace / "effects").exists()
    other = {"MAINSPRING_HOME": str(tmp_path / "other-home")}
    worked = shared.run("worker", "--once", **other)
    assert worked.returncode == 0, worked.stderr
    assert (shared.workspace / "effects").read_text() == "once\n"
    assert shared.states() == {session: "done"}
    begun = [event["body"] for event in shared.events(session) if event["kind"] == "TurnStarted"]
    assert [
        (turn["turn"], turn["limits"]["max_steps"], turn["limits"]["max_cost_usd"]) for turn in begun
    ] == [(1, 7, 1.0)]
    assert "sound" in shared.run("verify", session).stdout
    again = shared.run("worker", "--once", **other)
    assert "resumed" not in again.stderr
    assert shared.run("fleet").stdout.startswith("No worker is running.")  # whoever ended is gone


def test_only_a_worker_of_the_queue_with_all_labels_takes_a_session(shared: Shared) -> None:
    model = shared.serve(DONE)
    session = shared.queue("needs a card", model, "--labels", "gpu,slurm")
    for words in ((), ("--labels", "gpu"), ("--labels", "gpu,slurm", "--queue", "other")):
        assert "resumed" not in shared.run("worker", "--once", *words).stderr
    assert shared.run("fleet", "move", session, "--queue", "night").returncode == 0
    (moved,) = shared.fleet()["sessions"]
    assert (moved["queue"], moved["labels"]) == ("night", ["gpu", "slurm"])
    shared.run("worker", "--once", "--queue", "night", "--labels", "slurm,fast,gpu")
    assert shared.states() == {session: "done"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "--labels", "gpu", "x"), "--labels needs --queue"),
        (("run", "--queue", "q", "--attempts", "2", "x"), "--attempts cannot be combined with --queue"),
        (("run", "--queue", "q", "--labels", "a b", "x"), "The label 'a b' is not a word"),
        (("run", "--queue", "q", "--labels", "-._", "x"), "The label '-._' is not a word"),
        (("run", "--queue", "...", "x"), "'...' is no name of a queue"),
        (("run", "--queue", "", "x"), "--queue names no queue"),
        (("run", "--queue", "a:gpu", "x"), "'a:gpu' is no name of a queue"),
        (("worker", "--queue", ""), "'' is no name of a queue"),
        (("worker", "--capacity", "0"), "capacity"),
        (("fleet", "move", "x"), "Nothing is to change"),
    ],
)
def test_what_makes_no_sense_is_refused(shared: Shared, words: tuple[str, ...], said: str) -> None:
    refused = shared.run(*words)
    assert refused.returncode == 2
    assert said in refused.stderr
    assert shared.states() == {}


def test_a_machine_without_a_shared_store_says_what_a_worker_needs(shared: Shared) -> None:
    kept = shared.run("goal", "schedule", "@daily", "go", "--queue", "a", "--yes", *FREE, MAINSPRING_STORE="")
    assert (kept.returncode, "need a store that machines share" in kept.stderr) == (2, True)
    refused = shared.run("worker", MAINSPRING_STORE="")
    assert (refused.returncode, "need a store that machines share" in refused.stderr) == (2, True)


def test_a_worker_that_drains_gives_its_turn_back_and_the_next_one_goes_on(shared: Shared) -> None:
    slow = {"calls": [{"name": "shell", "arguments": {"command": "echo begun >> begun; sleep 600"}}]}
    session = shared.queue("work for long", shared.serve(slow, DONE))
    worker = shared.start("worker")
    until_true((shared.workspace / "begun").exists)
    said = ended(worker)
    assert f"{session}: interrupted" in said
    assert shared.states() == {session: "interrupted"}
    again = shared.run("worker", "--once")
    assert shared.states() == {session: "done"}, again.stderr
    assert (shared.workspace / "begun").read_text() == "begun\n"


def test_a_worker_gives_all_back_when_its_store_was_upgraded_for_newer_ones(shared: Shared) -> None:
    worker = shared.start("worker")
    until_true(lambda: shared.fleet()["workers"])
    execute(StoreAddress(shared.url), "UPDATE mainspring.store SET version = 99")
    _, said = worker.communicate(timeout=120)
    assert "The tables have version 99" in said
    assert worker.returncode == 0
    assert shared.run("worker").returncode == 1


def test_the_work_of_a_killed_worker_and_its_process_is_taken_by_another(
    shared: Shared, tmp_path: Path
) -> None:
    slow = {"calls": [{"name": "shell", "arguments": {"command": "echo $PPID >> begun; sleep 600"}}]}
    session = shared.queue("work for long", shared.serve(slow, DONE))
    worker = shared.start("worker", MAINSPRING_HOME=str(tmp_path / "first"))
    until_true((shared.workspace / "begun").exists)
    (running,) = [row for row in shared.fleet()["sessions"] if row["session"] == session]
    assert running["worker"] == shared.fleet()["workers"][0]["id"]
    owner = next(
        event["body"]["pid"]
        for event in reversed(shared.events(session))
        if event["kind"] == "SessionResumed"
    )
    worker.kill()
    worker.communicate()
    os.kill(owner, signal.SIGKILL)
    again = shared.run("worker", "--once", MAINSPRING_HOME=str(tmp_path / "second"))
    if session not in again.stderr:  # the lease of the killed one had not run out
        other = shared.start("worker", MAINSPRING_HOME=str(tmp_path / "second"))
        until_true(lambda: shared.states() == {session: "done"})
        ended(other)
    assert shared.states() == {session: "done"}
    assert len((shared.workspace / "begun").read_text().splitlines()) == 1


def test_a_session_that_crashes_three_times_is_set_aside_with_its_reason_and_can_be_retried(
    shared: Shared,
) -> None:
    session = goal(shared, "echo begun >> begun; sleep 600", "--queue", "default")
    worker = shared.start("worker")
    begun = shared.workspace / "begun"
    for number in (1, 2, 3):
        until_true(lambda wanted=number: begun.exists() and len(begun.read_text().splitlines()) == wanted)
        os.kill(owner_of(shared, session), signal.SIGKILL)
    (row,) = until_true(lambda: [row for row in shared.fleet()["sessions"] if row["is_set_aside"]])
    said = ended(worker)
    assert said.count("resumed by process") == 3
    assert row["session"] == session
    assert "ended 3 times without progress" in row["detail"]
    assert "resumed" not in shared.run("worker", "--once").stderr
    engine(shared, "echo '<promise>DONE</promise>'")
    assert shared.run("fleet", "retry", session).returncode == 0
    shared.run("worker", "--once")
    assert shared.states() == {session: "done"}


def test_people_take_turns_in_a_queue(shared: Shared) -> None:
    model = shared.serve(DONE, DONE, DONE, DONE)
    first = [shared.queue(f"of one person {number}", model) for number in range(3)]
    session = shared.queue("of another", model)
    execute(
        StoreAddress(shared.url), "UPDATE mainspring.queue SET person = 'ada' WHERE session = $1", session
    )
    said = shared.run("worker", "--once", "--capacity", "1").stderr
    taken = [line.partition(":")[0] for line in said.splitlines() if "resumed by" in line]
    assert sorted(taken) == sorted([*first, session])
    assert taken.index(session) <= 1, taken


def test_a_goal_that_sleeps_gives_its_process_up_and_wakes_in_time(shared: Shared) -> None:
    code = "echo begun >> begun; [ $(wc -l < begun) -gt 1 ] && echo '<promise>DONE</promise>'; true"
    session = goal(shared, code, "--detach", "--wait-seconds", "4")
    worker = shared.start("worker")
    until_true(lambda: shared.states().get(session) == "done")
    said = ended(worker)
    assert f"{session}: sleeps" in said
    assert said.count(f"{session}: resumed") == 2
    assert (shared.workspace / "begun").read_text() == "begun\nbegun\n"


def test_an_answer_from_another_machine_lets_a_worker_go_on(shared: Shared, tmp_path: Path) -> None:
    model = shared.serve(effect(), DONE)
    limits = ("--mode", "ask", "--max-cost-usd", "1", "--allow-unpriced")
    left = shared.run("run", "--queue", "default", "--model", model, *limits, "do it")
    session = left.stdout.strip()
    shared.run("worker", "--once")
    assert shared.states() == {session: "blocked"}
    answered = shared.run("approve", session, MAINSPRING_HOME=str(tmp_path / "phone"))
    assert "a worker of the queue default goes on" in answered.stderr
    assert not (shared.workspace / "effects").exists()
    shared.run("worker", "--once")
    assert shared.states() == {session: "done"}
    assert (shared.workspace / "effects").read_text() == "once\n"


class AnsweredLate(PostgresQueue):
    """A queue whose person answers when the process of a session has ended, before its worker has looked."""

    def __init__(self, shared: Shared, sessions: PostgresSessions) -> None:
        super().__init__(sessions)
        self._shared, self._said = shared, ""

    async def standing(self, sessions: Sequence[str]) -> list[SessionRow]:
        rows = await super().standing(sessions)
        if not self._said and any(row.state == "blocked" for row in rows):
            self._said = (await asyncio.to_thread(self._shared.run, "approve", rows[0].id)).stderr
            assert "a worker of the queue default goes on" in self._said
            rows = await super().standing(sessions)
        return rows


def test_an_answer_that_comes_when_a_process_has_just_ended_is_not_forgotten(shared: Shared) -> None:
    model = shared.serve(effect(), DONE)
    limits = ("--mode", "ask", "--max-cost-usd", "1", "--allow-unpriced")
    session = shared.run("run", "--queue", "default", "--model", model, *limits, "do it").stdout.strip()
    config = load_config(shared.environment())
    sessions = PostgresSessions(StoreAddress(shared.url, 2.0), shared.home / "shared")
    said: list[str] = []

    async def work() -> None:
        queue = AnsweredLate(shared, sessions)
        me = WorkerRow(id="me", queue="default", host="here", pid=1)
        await Worker(config, queue, sessions, me, said.append).run(is_once=True)
        await queue.close()

    asyncio.run(work())
    assert shared.states() == {session: "done"}, said
    assert (shared.workspace / "effects").read_text() == "once\n"


def test_sessions_that_cannot_be_taken_here_hide_none_that_can(shared: Shared, tmp_path: Path) -> None:
    session = shared.queue("behind all others", shared.serve(DONE))
    address = StoreAddress(shared.url)
    for number in range(40):
        execute(
            address,
            "INSERT INTO mainspring.sessions SELECT $1, last_seq, head, time_us FROM mainspring.sessions"
            " WHERE id = $2",
            name := f"elsewhere{number}",
            session,
        )
        execute(
            address,
            "INSERT INTO mainspring.events SELECT $1, seq, time_us, kind, CASE seq WHEN 1 THEN"
            " convert_to(replace(convert_from(body, 'UTF8'), $3, '/not/here'), 'UTF8') ELSE body END, hash"
            " FROM mainspring.events WHERE session = $2 AND kind <> 'WorkspaceKept'",
            name,
            session,
            str(shared.workspace),
        )
        execute(
            address,
            "INSERT INTO mainspring.queue (session, queue, labels, person, options, added)"
            " SELECT $1, queue, labels, person, options, added - interval '1 hour'"
            " FROM mainspring.queue WHERE session = $2",
            name,
            session,
        )
    worked = shared.run("worker", "--once")
    assert worked.returncode == 0, worked.stderr
    assert shared.states()[session] == "done"


def scheduled(shared: Shared, code: str, *options: str, ago: timedelta | None = None) -> Schedule:
    """What was scheduled some time ago for workers, for once a day, two hours ago."""
    cron = f"0 {(datetime.now(UTC) - timedelta(hours=2)).hour} * * *"
    words = ("--yes", "--queue", "default", *options, *FREE, "--engine", engine(shared, code))
    made = shared.run("goal", "schedule", cron, "tidy up", *words)
    assert made.returncode == 0, made.stderr
    assert "daemon" not in made.stderr
    schedules = Schedules(PostgresFiles(StoreAddress(shared.url)))
    (kept,) = schedules.all()
    if ago is not None:
        schedules.remove(kept)
        at_us = int((datetime.now(UTC) - ago).timestamp() * 1e6)
        kept = schedules.add(msgspec.structs.replace(kept, scheduled_us=at_us))
    return kept


def test_what_is_scheduled_for_a_queue_is_begun_by_one_of_its_workers_once(shared: Shared) -> None:
    code = "echo begun >> begun; echo '<promise>DONE</promise>'"
    kept = scheduled(shared, code, "--labels", "gpu", ago=timedelta(days=2))
    assert "queue default" in shared.run("goal", "schedules").stdout
    daemon = shared.run("daemon", "run", "--once", TZ="UTC")
    assert "tidy" not in daemon.stderr + shared.run("goal", "list").stdout
    other = shared.start("worker", "--queue", "other", TZ="UTC")
    workers = [shared.start("worker", "--labels", "gpu", TZ="UTC") for _ in range(2)]
    until_true(lambda: [*shared.states().values()] == ["done"])
    said = [ended(each) for each in workers]
    (session,) = shared.states()
    assert "".join(said).count(f"{kept.name}: started {session} late") == 1
    assert kept.name not in ended(other)
    assert (shared.workspace / "begun").read_text() == "begun\n"
    (listed,) = [json.loads(line) for line in shared.run("goal", "schedules", "--json").stdout.splitlines()]
    assert (listed["last"]["outcome"], listed["last"]["session"]) == ("started", session)


async def queued(shared: Shared, session: str) -> QueuedSession | None:
    queue = PostgresQueue(PostgresSessions(StoreAddress(shared.url), shared.home / "beside"))
    try:
        return await queue.look(session)
    finally:
        await queue.close()


def test_a_worker_killed_before_a_scheduled_goal_was_queued_leaves_that_to_the_next(shared: Shared) -> None:
    kept = scheduled(shared, "echo '<promise>DONE</promise>'", ago=timedelta(days=2))
    worker = shared.start("worker", TZ="UTC")
    until_true(lambda: [*shared.states().values()] == ["done"])
    ended(worker)
    (session,) = shared.states()
    address = StoreAddress(shared.url)
    execute(address, "DELETE FROM mainspring.queue")
    files = PostgresFiles(address)
    record = json.loads(files.read("schedules-handled.json") or b"")
    left = {**record["handled"][kept.id], "outcome": "starting", "session": "", "by": "gone"}
    left["at_us"] -= 3600 * 1_000_000  # so long ago that nobody is at it any more
    files.write("schedules-handled.json", json.dumps({**record, "handled": {kept.id: left}}).encode())
    worker = shared.start("worker", TZ="UTC")
    until_true(lambda: asyncio.run(queued(shared, session)))
    ended(worker)
    assert [*shared.states()] == [session]
