"""Work that Temporal gives out, as people use it: its real server, a real Postgres, real workers."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from mainspring.goals.cron import next_after, parse_cron
from tests.cli.conftest import Machine
from tests.cli.conftest import machine as plain_machine
from tests.shared_store import FREE, Shared, ended, until_true
from tests.temporal import Temporal, temporal

__all__ = ["plain_machine"]
DONE = {"text": "done"}
SECRET_TASK = "count the purple elephants"


class Dispatched(Shared):
    """A machine whose work Temporal gives out, in a namespace of its own."""

    server: Temporal
    namespace = ""
    started: list[subprocess.Popen[str]]

    def begin(self) -> None:
        super().begin()
        self.server = temporal()
        self.namespace = self.server.new_namespace()
        self.point_to(self.server.address)

    def start(self, *words: str, **extra: Any) -> subprocess.Popen[str]:
        self.started.append(super().start(*words, **extra))
        return self.started[-1]

    def point_to(self, address: str) -> None:
        named = f'[temporal]\naddress = "{address}"\nnamespace = "{self.namespace}"\n'
        (self.home / "config.toml").write_text(self.settings + named)

    def other_home(self, path: Path) -> str:
        """Another machine with the same settings."""
        path.mkdir()
        shutil.copy(self.home / "config.toml", path)
        return str(path)

    def workflows(self, query: str = "") -> list[dict[str, Any]]:
        """All of the namespace that the query finds."""
        words = ("workflow", "list", "--namespace", self.namespace, "--query", query)
        return self.server.ask(*words, unless="invalid search attribute") or []

    def found(self, session: str, query: str) -> bool:
        return any(each["execution"]["workflowId"] == session for each in self.workflows(query))

    def history(self, session: str) -> dict[str, Any]:
        """That of the newest run of its workflow."""
        return self.server.ask("workflow", "show", "--namespace", self.namespace, "-w", session)

    def schedule(self, name: str) -> dict[str, Any] | None:
        """A schedule of ours, if it has it."""
        words = ("schedule", "describe", "--namespace", self.namespace, "-s", f"mainspring-schedule-{name}")
        return self.server.ask(*words, unless="not found")

    def order(self, word: str, name: str) -> None:
        words = ("schedule", word, "--namespace", self.namespace, "-s", f"mainspring-schedule-{name}")
        self.server.ask(*words, is_json=False)

    def signal(self, session: str, name: str) -> None:
        self.server.ask(
            "workflow", "signal", "--namespace", self.namespace, "-w", session, "--name", name, is_json=False
        )


@pytest.fixture
def shared(plain_machine: Machine) -> Iterator[Dispatched]:
    plain_machine.__class__ = Dispatched
    assert isinstance(plain_machine, Dispatched)
    plain_machine.started = []
    plain_machine.begin()
    yield plain_machine
    for process in plain_machine.started:
        process.kill()
        process.communicate()


def engine(shared: Dispatched, code: str) -> str:
    path = shared.workspace.parent / "engine.sh"
    path.write_text(f"#!/bin/bash\ncat > /dev/null\n{code}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return f"exec:{path}"


def goal(shared: Dispatched, code: str, *options: str) -> str:
    words = ("--mode", "auto", "--queue", "default", *options, "--engine", engine(shared, code))
    begun = shared.run("goal", "start", *words, "reach it")
    assert begun.returncode == 0, begun.stderr
    return begun.stdout.strip()


def owner_of(shared: Shared, session: str) -> int:
    """The process that went on with a session last."""
    events = reversed(shared.events(session))
    return next(event["body"]["pid"] for event in events if event["kind"] == "SessionResumed")


def test_a_session_and_a_goal_that_sleeps_end_and_temporal_knows_only_their_ids(shared: Dispatched) -> None:
    session = shared.queue(SECRET_TASK, shared.serve(DONE))
    code = "echo begun >> begun; [ $(wc -l < begun) -gt 1 ] && echo '<promise>DONE</promise>'; true"
    sleeper = goal(shared, code, "--wait-seconds", "4")
    assert [row["worker"] for row in shared.fleet()["sessions"]] == ["", ""]
    worker = shared.start("worker", "--temporal", "--capacity", "2")
    until_true(lambda: shared.states() == {session: "done", sleeper: "done"})
    until_true(lambda: len(shared.workflows("ExecutionStatus = 'Completed'")) == 2)
    said = ended(worker)
    assert f"{sleeper}: sleeps" in said
    assert said.count("resumed by process") == 3
    assert (shared.workspace / "begun").read_text() == "begun\nbegun\n"
    assert shared.found(session, "MainspringState = 'done'")
    histories = [json.dumps(shared.history(each)) for each in (session, sleeper)]
    assert SECRET_TASK not in "".join(histories)
    assert "TIMER_FIRED" in histories[1]
    assert "sound" in shared.run("verify", session).stdout


def test_a_killed_worker_and_a_restart_of_temporal_lose_and_repeat_nothing(
    shared: Dispatched, tmp_path: Path
) -> None:
    slow = {"calls": [{"name": "shell", "arguments": {"command": "echo once >> begun; sleep 600"}}]}
    session = shared.queue("work for long", shared.serve(slow, DONE))
    first = shared.start("worker", MAINSPRING_HOME=shared.other_home(tmp_path / "first"))
    until_true((shared.workspace / "begun").exists)
    owner = owner_of(shared, session)
    first.kill()
    first.communicate()
    os.kill(owner, signal.SIGKILL)
    shared.server.stop()
    shared.server.start()
    second = shared.start("worker", MAINSPRING_HOME=shared.other_home(tmp_path / "second"))
    until_true(lambda: shared.states() == {session: "done"})
    until_true(lambda: shared.found(session, "ExecutionStatus = 'Completed'"))
    ended(second)
    assert (shared.workspace / "begun").read_text() == "once\n"


@pytest.mark.proof
def test_a_restart_of_temporal_leaves_work_alone_and_a_drained_worker_gives_it_back(
    shared: Dispatched,
) -> None:
    slow = {
        "calls": [
            {
                "name": "shell",
                "arguments": {"command": "echo once >> begun; until [ -e go ]; do sleep 0.2; done"},
            }
        ]
    }
    session = shared.queue("work for long", shared.serve(slow, slow, DONE))
    worker = shared.start("worker")
    until_true((shared.workspace / "begun").exists)
    owner = owner_of(shared, session)
    shared.server.stop()
    shared.server.start()
    assert owner_of(shared, session) == owner
    said = ended(worker)
    assert f"{session}: interrupted" in said
    (shared.workspace / "go").touch()
    other = shared.start("worker")
    until_true(lambda: shared.states() == {session: "done"})
    ended(other)


@pytest.mark.proof
def test_an_answer_wakes_a_session_stop_ends_a_goal_and_many_hints_leave_a_small_history(
    shared: Dispatched, tmp_path: Path
) -> None:
    effect = {"calls": [{"name": "shell", "arguments": {"command": "echo once >> effects"}}]}
    limits = ("--mode", "ask", "--max-cost-usd", "1", "--allow-unpriced")
    left = shared.run("run", "--queue", "default", "--model", shared.serve(effect, DONE), *limits, "do it")
    session = left.stdout.strip()
    sleeper = goal(shared, "true", "--wait-seconds", "86400")
    worker = shared.start("worker")
    until_true(lambda: shared.found(session, "MainspringState = 'blocked'"))
    until_true(lambda: shared.found(sleeper, "MainspringState = 'asleep'"))
    first = shared.history(session)["events"][0]["workflowExecutionStartedEventAttributes"]

    def continued() -> bool:
        shared.signal(session, "say")
        history = shared.history(session)
        assert len(history["events"]) <= 300
        assert len(json.dumps(history)) <= 300_000
        begun = history["events"][0]["workflowExecutionStartedEventAttributes"]
        assert begun["firstExecutionRunId"] == first["firstExecutionRunId"]
        return "continuedExecutionRunId" in begun

    until_true(continued)
    until_true(lambda: shared.found(session, "MainspringState = 'blocked'"))
    assert shared.states()[session] == "blocked"
    answered = shared.run("approve", session, MAINSPRING_HOME=shared.other_home(tmp_path / "phone"))
    assert "a worker of the queue default goes on" in answered.stderr
    until_true(lambda: shared.states()[session] == "done")
    assert (shared.workspace / "effects").read_text() == "once\n"
    assert shared.run("goal", "stop", sleeper).returncode == 0
    until_true(lambda: shared.found(sleeper, "ExecutionStatus = 'Completed'"))
    assert shared.found(sleeper, "MainspringState = 'stopped'")
    until_true(lambda: not shared.workflows("ExecutionStatus = 'Running'"))
    said = ended(worker)
    assert said.count(f"{session}: resumed") == 2


@pytest.mark.proof
def test_a_session_that_crashes_three_times_is_set_aside_until_it_is_retried(shared: Dispatched) -> None:
    session = goal(shared, "echo begun >> begun; [ -e go ] && echo '<promise>DONE</promise>' || sleep 600")
    worker = shared.start("worker")
    begun = shared.workspace / "begun"
    for number in (1, 2, 3):
        until_true(lambda wanted=number: begun.exists() and len(begun.read_text().splitlines()) == wanted)
        os.kill(owner_of(shared, session), signal.SIGKILL)
    until_true(lambda: shared.found(session, "MainspringState = 'set aside'"))
    (row,) = [row for row in shared.fleet()["sessions"] if row["is_set_aside"]]
    assert (row["session"], "ended 3 times without progress" in row["detail"]) == (session, True)
    (shared.workspace / "go").touch()
    assert shared.run("fleet", "retry", session).returncode == 0
    until_true(lambda: shared.states() == {session: "done"})
    assert ended(worker).count("resumed by process") == 4


@pytest.mark.proof
def test_a_place_in_a_queue_is_a_task_queue_and_can_be_changed(shared: Dispatched) -> None:
    session = shared.queue("needs a card", shared.serve(DONE), "--labels", "gpu")
    plain = shared.start("worker")
    able = shared.start("worker", "--queue", "night", "--labels", "slurm,gpu")
    until_true(lambda: len(shared.fleet()["workers"]) == 2)
    until_true(lambda: shared.found(session, "TaskQueue = 'default:gpu'"))
    assert shared.run("fleet", "move", session, "--queue", "night", "--labels", "gpu").returncode == 0
    until_true(lambda: shared.states() == {session: "done"})
    assert f"{session}: resumed" in ended(able)
    assert session not in ended(plain)


def test_what_temporal_did_not_hear_of_is_given_out_by_a_worker_that_looks(shared: Dispatched) -> None:
    shared.point_to("127.0.0.1:1")
    session = shared.queue("do it", shared.serve(DONE))
    refused = shared.run("worker")
    assert (refused.returncode, "Temporal at 127.0.0.1:1" in refused.stderr) == (1, True), refused.stderr
    diagnosed = shared.run("doctor")
    assert "Temporal at 127.0.0.1:1" in diagnosed.stdout
    shared.point_to(shared.server.address)
    worker = shared.start("worker")
    until_true(lambda: shared.states() == {session: "done"})
    ended(worker)
    assert shared.server.address in shared.run("doctor").stdout


CRONS = (
    "30 4 13 * fri",
    "*/7 3-5 * jan,jul mon",
    "0 0 29 2 *",
    "15 6 1,15 * sat",
    "@weekly",
    "5,50 */6 * * 7",
    "0 9-17/4 * * tue-thu",
)


def test_what_is_scheduled_is_a_schedule_of_temporal_until_it_is_forgotten(shared: Dispatched) -> None:
    words = (
        "--yes",
        "--queue",
        "default",
        *FREE,
        "--engine",
        engine(shared, "echo '<promise>DONE</promise>'"),
    )
    kept: list[str] = []
    for cron in CRONS:
        made = shared.run("goal", "schedule", cron, SECRET_TASK, *words, "--json", TZ="Europe/Berlin")
        assert made.returncode == 0, made.stderr
        kept.append(json.loads(made.stdout)["id"])
    worker = shared.start("worker", TZ="Europe/Berlin")
    for cron, schedule in zip(CRONS, kept, strict=True):
        told = until_true(lambda schedule=schedule: shared.schedule(schedule)) or {}
        assert SECRET_TASK not in json.dumps(told)
        times = [datetime.fromisoformat(each) for each in told["info"]["futureActionTimes"]]
        assert times == next_times(cron, times[0], len(times))
    [name, *_] = kept
    for count in (1, 2):
        shared.order("trigger", name)
        until_true(lambda count=count: [*shared.states().values()] == ["done"] * count)
    until_true(lambda: len(shared.workflows("ExecutionStatus = 'Completed'")) == 2 * 2)
    begun = [
        each["execution"]["workflowId"] for each in shared.workflows("WorkflowType = 'mainspring-schedule'")
    ]
    assert len(begun) == 2
    assert SECRET_TASK not in json.dumps([shared.history(each) for each in begun])
    assert shared.run("goal", "unschedule", name).returncode == 0
    until_true(lambda: shared.schedule(name) is None)
    assert ended(worker).count(f"schedule {name}: started") == 2


def next_times(cron: str, first: datetime, count: int) -> list[datetime]:
    """As many times as that of a schedule, from the first one."""
    times: list[datetime] = []
    while len(times) < count:
        before = times[-1] if times else first - timedelta(seconds=1)
        following = next_after(parse_cron(cron), before, ZoneInfo("Europe/Berlin"))
        assert following is not None
        times.append(following)
    return times


def test_without_its_package_or_address_people_are_told_what_to_do(
    shared: Dispatched, tmp_path: Path
) -> None:
    (tmp_path / "temporalio.py").write_text("raise ModuleNotFoundError('no', name='temporalio')\n")
    for words in (("worker",), ("run", "--queue", "default", "--model", "x", "task")):
        started = shared.start(*words, PYTHONPATH=str(tmp_path))
        _, said = started.communicate(timeout=60)
        assert (started.returncode, "pip install 'mainspring[temporal]'" in said) == (2, True), said
    assert shared.states() == {}
    shared.point_to("")
    refused = shared.run("worker", "--temporal")
    assert (refused.returncode, "mainspring config set temporal.address" in refused.stderr) == (2, True)
