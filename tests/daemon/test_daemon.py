"""The daemon as a user meets it: real processes that are started, stopped, killed and found again."""

from __future__ import annotations

import json
import os
import select
import signal
import stat
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mainspring.disk.shared_files import LocalFiles
from mainspring.goals.schedules import Schedule, Schedules
from tests.cli.conftest import Machine, lines
from tests.cli.conftest import machine as plain_machine

__all__ = ["plain_machine"]
TOKEN = "xyzzy-Plugh-4242-token"
DONE = "<promise>DONE</promise>"
FREE = ("--mode", "auto")
# Works until it is let go, and says how often it was begun.
PATIENT = f"echo begun >> begun; until [ -e go ]; do read -t 0.05 < <(:); done; echo {DONE!r}"


@pytest.fixture
def machine(plain_machine: Machine) -> Iterator[Machine]:
    yield plain_machine
    plain_machine.run("daemon", "stop")


def engine(machine: Machine, code: str = f"echo {DONE!r}") -> str:
    path = machine.workspace.parent / "engine.sh"
    path.write_text(f"#!/bin/bash\ncat > /dev/null\n{code}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return f"exec:{path}"


def configure(machine: Machine, text: str) -> None:
    machine.home.mkdir(exist_ok=True)
    (machine.home / "config.toml").write_text(text)


def status(machine: Machine) -> dict[str, Any]:
    return json.loads(machine.run("daemon", "status", "--json").stdout)


def until_true(condition: Callable[[], Any]) -> Any:
    """Asks again and again."""
    deadline = time.monotonic() + 90
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not come true"
    return found


def state(machine: Machine, session: str) -> str:
    rows = lines(machine.run("goal", "list", "--json").stdout)
    return next(row["goal_state"] for row in rows if row["id"] == session)


def bodies(machine: Machine, session: str, kind: str) -> list[dict[str, Any]]:
    return [event["body"] for event in machine.events(session) if event["kind"] == kind]


def begin(machine: Machine, *options: str) -> str:
    """A goal in the daemon's hands."""
    begun = machine.run("goal", "start", "--background", "reach it", *FREE, *options)
    assert begun.returncode == 0, begun.stderr
    return begun.stdout.strip()


def at_work(machine: Machine, session: str) -> int:
    """Waits until the engine of a goal works, and gives the pid of the goal's process."""
    until_true((machine.workspace / "begun").exists)
    (run,) = until_true(lambda: status(machine)["goals"])
    assert run["id"] == session
    return run["pid"]


def begun(machine: Machine) -> int:
    return len((machine.workspace / "begun").read_text().splitlines())


def kill(pid: int) -> None:
    handle = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        until_true(lambda: select.select([handle], [], [], 0.1)[0])
    finally:
        os.close(handle)


def test_it_starts_once_says_who_runs_and_stops(machine: Machine) -> None:
    assert machine.run("daemon", "status").returncode == 3
    started = machine.run("daemon", "start")
    assert started.returncode == 0, started.stderr
    found = status(machine)
    assert found["running"]
    assert str(found["pid"]) in started.stdout
    fields = Path(f"/proc/{found['pid']}/stat").read_text().rpartition(")")[2].split()
    assert fields[3] == str(found["pid"]), "it leads a session of its own"
    assert fields[4] == "0", "it has no terminal"
    for again in (machine.run("daemon", "start"), machine.run("daemon", "run")):
        assert again.returncode == 3
        assert f"process {found['pid']}" in again.stderr
    stopped = machine.run("daemon", "stop")
    assert (stopped.returncode, stopped.stdout) == (0, "The daemon is stopped.\n")
    assert not status(machine)["running"]
    assert "started: version" in machine.run("daemon", "logs").stdout
    assert "not running" in machine.run("daemon", "stop").stdout


def test_a_daemon_that_cannot_start_says_why(machine: Machine) -> None:
    configure(machine, "[daemon]\nmax_running = 0\n")
    started = machine.run("daemon", "start")
    assert started.returncode != 0
    assert "max_running" in started.stderr


def test_a_goal_in_the_background_is_begun_at_once_and_done_by_the_daemon(machine: Machine) -> None:
    session = begin(machine, "--engine", engine(machine))
    until_true(lambda: state(machine, session) == "done")
    assert status(machine)["running"]
    (last,) = until_true(lambda: status(machine)["last"])
    assert (last["id"], last["state"], last["exit_code"]) == (session, "done", 0)


def test_a_sleeping_goal_does_not_keep_another_one_from_starting(machine: Machine) -> None:
    configure(machine, "[daemon]\nmax_running = 1\n")
    asleep = begin(machine, "--engine", engine(machine, "echo '<wait_seconds>3000</wait_seconds>'"))
    until_true(lambda: bodies(machine, asleep, "WaitStarted"))
    assert "running, waiting" in machine.run("goal", "list").stdout
    other = machine.workspace.parent / "other"
    other.mkdir()
    (other / "engine.sh").write_text(f"#!/bin/bash\ncat > /dev/null\necho {DONE!r}\n")
    (other / "engine.sh").chmod(0o755)
    session = begin(machine, "--engine", f"exec:{other}/engine.sh", "-C", str(other))
    until_true(lambda: state(machine, session) == "done")
    assert state(machine, asleep) == "running"


def test_a_killed_daemon_leaves_its_goal_at_work_and_the_next_one_finds_it(machine: Machine) -> None:
    session = begin(machine, "--engine", engine(machine, PATIENT))
    pid = at_work(machine, session)
    kill(status(machine)["pid"])
    assert not status(machine)["running"]
    assert state(machine, session) == "running"
    assert machine.run("daemon", "start").returncode == 0
    (found,) = status(machine)["goals"]
    assert (found["id"], found["pid"]) == (session, pid)
    (machine.workspace / "go").touch()
    until_true(lambda: state(machine, session) == "done")
    assert begun(machine) == 1
    assert len(bodies(machine, session, "IterationStarted")) == 1


def test_a_killed_goal_is_resumed(machine: Machine) -> None:
    configure(machine, "[daemon]\ncrash_wait_s = 0\n")
    session = begin(machine, "--engine", engine(machine, PATIENT))
    kill(at_work(machine, session))
    (machine.workspace / "go").touch()
    until_true(lambda: state(machine, session) == "done")
    assert len(bodies(machine, session, "GoalEnded")) == 1


def test_after_a_reboot_it_goes_on_with_what_was_running(machine: Machine) -> None:
    session = begin(machine, "--engine", engine(machine, PATIENT))
    goal = at_work(machine, session)
    kill(status(machine)["pid"])
    kill(goal)
    for lock in machine.home.rglob("owner.lock"):
        if lock.stat().st_size:
            owner = json.loads(lock.read_text())
            lock.write_text(json.dumps({**owner, "scope": "another boot"}))
    assert state(machine, session) == "interrupted"
    (machine.workspace / "go").touch()
    assert machine.run("daemon", "start").returncode == 0
    until_true(lambda: state(machine, session) == "done")


def test_stopping_interrupts_goals_on_record_and_the_next_start_resumes_them(machine: Machine) -> None:
    session = begin(machine, "--engine", engine(machine, PATIENT))
    at_work(machine, session)
    stopped = machine.run("daemon", "stop")
    assert f"{session} was interrupted" in stopped.stdout
    assert bodies(machine, session, "GoalPaused")[-1]["by"] == "signal"
    assert state(machine, session) == "interrupted"
    (machine.workspace / "go").touch()
    assert machine.run("daemon", "start").returncode == 0
    until_true(lambda: state(machine, session) == "done")


def test_what_a_person_paused_stays_paused(machine: Machine) -> None:
    session = begin(machine, "--engine", engine(machine, PATIENT))
    at_work(machine, session)
    assert machine.run("goal", "pause", session).returncode == 0
    ran = machine.run("daemon", "stop")
    assert ran.returncode == 0
    assert machine.run("daemon", "run", "--once").returncode == 0
    assert state(machine, session) == "paused"
    assert begun(machine) == 1


def test_a_goal_that_cannot_be_resumed_is_left_alone_and_said(machine: Machine) -> None:
    configure(machine, "[daemon]\ncrash_wait_s = 0\n")
    schedule(machine, "@yearly", "--engine", engine(machine))
    session = machine.run("goal", "fire", Schedules(LocalFiles(machine.home)).all()[0].id).stdout.strip()
    (machine.workspace.parent / "engine.sh").unlink()
    ran = machine.run("daemon", "run", "--once")
    assert ran.stderr.count(f"{session}: resumed") == 3, ran.stderr
    assert f"{session}: left alone, its process ended 3 times" in ran.stderr
    assert state(machine, session) == "interrupted"


def test_a_blocked_goal_goes_on_when_its_question_is_answered(machine: Machine) -> None:
    call = {"calls": [{"name": "shell", "arguments": {"command": "touch made"}}]}
    case = {"contains": "Turn 2 of", "replies": [{"text": DONE}]}
    model = machine.serve(call, {"text": "made"}, cases=[case])
    begun = machine.run(
        "goal", "start", "--background", "--mode", "ask", "--sandbox", "none", "--model", model, "go"
    )
    session = begun.stdout.strip()
    until_true(lambda: state(machine, session) == "blocked")
    assert not (machine.workspace / "made").exists()
    answered = machine.run("approve", session)
    assert answered.returncode == 0, answered.stderr
    until_true(lambda: state(machine, session) == "done")
    assert (machine.workspace / "made").exists()
    assert len(bodies(machine, session, "CallStarted")) == 1


def schedule(machine: Machine, cron: str, *options: str, ago: timedelta | None = None) -> Schedule:
    """A schedule that was made some time ago."""
    made = machine.run("goal", "schedule", cron, "tidy up", "--yes", *FREE, *options)
    assert made.returncode == 0, made.stderr
    schedules = Schedules(LocalFiles(machine.home))
    kept = schedules.all()[-1]
    if ago is not None:
        schedules.remove(kept)
        at_us = int((datetime.now(UTC) - ago).timestamp() * 1e6)
        kept = schedules.add(msgspec.structs.replace(kept, scheduled_us=at_us))
    return kept


def hours_ago(hours: int) -> str:
    """A schedule that came so many hours ago, and comes once a day."""
    return f"0 {(datetime.now(UTC) - timedelta(hours=hours)).hour} * * *"


def test_a_schedule_that_was_missed_is_caught_up_with_once(machine: Machine) -> None:
    kept = schedule(machine, hours_ago(2), "--engine", engine(machine), ago=timedelta(days=5))
    ran = machine.run("daemon", "run", "--once", TZ="UTC")
    assert ran.returncode == 0, ran.stderr
    assert f"{kept.name}: started" in ran.stderr
    (row,) = lines(machine.run("goal", "list", "--json").stdout)
    assert row["goal_state"] == "done"
    assert bodies(machine, row["id"], "GoalSet")[0]["by"] == kept.name
    assert "started" not in machine.run("daemon", "run", "--once", TZ="UTC").stderr.replace(
        "started: version", ""
    )
    (listed,) = lines(machine.run("goal", "schedules", "--json", TZ="UTC").stdout)
    assert (listed["last"]["outcome"], listed["last"]["how"]) == ("started", "late")
    assert listed["last"]["session"] == row["id"]
    assert "late" in machine.run("goal", "schedules").stdout


def test_each_run_of_a_schedule_is_a_goal_of_its_own(machine: Machine) -> None:
    kept = schedule(machine, "@yearly", "--engine", engine(machine))
    first, second = (machine.run("goal", "fire", kept.id).stdout.strip() for _ in range(2))
    assert first != second
    assert machine.run("daemon", "run", "--once").returncode == 0
    assert {state(machine, first), state(machine, second)} == {"done"}


def test_without_catching_up_a_missed_time_is_only_on_record(machine: Machine) -> None:
    options = ("--engine", engine(machine), "--catch-up", "no")
    schedule(machine, hours_ago(2), *options, ago=timedelta(hours=20))
    ran = machine.run("daemon", "run", "--once", TZ="UTC")
    assert "missed" in ran.stderr
    assert not machine.run("goal", "list").stdout
    (listed,) = lines(machine.run("goal", "schedules", "--json").stdout)
    assert listed["last"]["outcome"] == "missed"


def test_a_daemon_killed_between_intent_and_beginning_begins_no_second_goal(machine: Machine) -> None:
    kept = schedule(machine, hours_ago(2), "--engine", engine(machine), ago=timedelta(hours=20))
    assert machine.run("daemon", "run", "--once", TZ="UTC").returncode == 0
    path = machine.home / "schedules-handled.json"
    record = json.loads(path.read_text())
    handled = record["handled"][kept.id]
    began = handled["session"]
    path.write_text(
        json.dumps({**record, "handled": {kept.id: {**handled, "outcome": "starting", "session": ""}}})
    )
    assert machine.run("daemon", "run", "--once", TZ="UTC").returncode == 0
    (row,) = lines(machine.run("goal", "list", "--json").stdout)
    assert row["id"] == began
    assert json.loads(path.read_text())["handled"][kept.id]["session"] == began


def test_a_schedule_records_the_consent_of_a_person(machine: Machine) -> None:
    run = engine(machine)
    refused = machine.run("goal", "schedule", "@daily", "tidy up", "--engine", run)
    assert refused.returncode == 2
    assert "--yes" in refused.stderr
    kept = schedule(machine, "@daily", "--engine", run, "--check", "test -e 'a b'", "--max-iterations", "4")
    assert kept.mode == "auto"
    assert "@" in kept.by
    assert kept.arguments == (
        "--engine", run, "--check", "test -e 'a b'", "--max-iterations", "4",
    )  # fmt: skip
    session = machine.run("goal", "fire", kept.id).stdout.strip()
    (given,) = bodies(machine, session, "GoalSet")
    assert given["checks"]["commands"] == ["test -e 'a b'"]
    assert given["rules"]["max_iterations"] == 4
    assert bodies(machine, session, "ModeChosen")[0]["mode"] == "auto"
    assert "deleted" in machine.run("goal", "unschedule", kept.id).stdout
    assert not machine.run("goal", "schedules", "--json").stdout


def test_the_cost_limit_of_a_goal_is_the_budget_that_yolo_needs_and_is_remembered(machine: Machine) -> None:
    model = machine.serve({"text": DONE})
    options = ("--model", model, "--mode", "yolo", "--max-cost-usd", "1", "--allow-unpriced")
    begun = machine.run("goal", "start", "--background", "reach it", *options)
    assert begun.returncode == 0, begun.stderr
    until_true(lambda: state(machine, begun.stdout.strip()) == "done")


def test_what_was_scheduled_is_hidden_from_agents(machine: Machine) -> None:
    kept = schedule(machine, "@yearly", "--engine", engine(machine))
    path = machine.home / "schedules.json"
    look = {"calls": [{"name": "read", "arguments": {"path": str(path)}}]}
    ran = machine.run(
        "run", "go", "--json", "--mode", "auto", "--model", machine.serve(look, {"text": "done"})
    )
    (ended,) = [event["body"] for event in lines(ran.stdout) if event["kind"] == "CallEnded"]
    assert ended["outcome"] in ("refused", "error")
    assert kept.id not in json.dumps(ended)


@pytest.mark.parametrize(
    "words",
    [
        (f"deploy with {TOKEN}",),
        ("tidy up", "--model", f"openai-compatible@http://me:{TOKEN}@localhost:1#test"),
        ("log in at https://me:pa55word@example.com",),
    ],
)
def test_a_secret_is_not_kept_in_a_schedule_and_not_shown_from_an_old_one(
    machine: Machine, words: tuple[str, ...]
) -> None:
    refused = machine.run("goal", "schedule", "@daily", *words, "--yes", "--no-cost-cap", DEPLOY_TOKEN=TOKEN)
    assert refused.returncode == 2
    assert "hold a secret" in refused.stderr
    assert TOKEN not in refused.stderr + refused.stdout
    assert not (machine.home / "schedules.json").exists()
    Schedules(LocalFiles(machine.home)).add(Schedule(cron="@daily", goal=f"deploy with {TOKEN}", folder="/"))
    for option in ((), ("--json",)):
        listed = machine.run("goal", "schedules", *option, DEPLOY_TOKEN=TOKEN)
        assert listed.returncode == 0, listed.stderr
        assert "deploy with __secret_DEPLOY_TOKEN_" in listed.stdout
        assert TOKEN not in listed.stdout


def test_a_schedule_that_costs_money_needs_a_cap(machine: Machine) -> None:
    model = machine.serve({"text": DONE})
    configure(machine, f'[prices."{model}"]\ninput = 1.0\noutput = 2.0\n')
    words = ("goal", "schedule", "@daily", "tidy up", "--yes", "--model", model)
    refused = machine.run(*words)
    assert refused.returncode == 2
    assert "--max-cost-usd" in refused.stderr
    assert machine.run(*words, "--no-cost-cap").returncode == 0
    assert machine.run(*words, "--max-cost-usd", "2").returncode == 0
    assert [each.max_cost_usd for each in Schedules(LocalFiles(machine.home)).all()] == [None, 2.0]


def test_damaged_schedules_are_a_problem_that_is_said_and_stop_nothing_else(machine: Machine) -> None:
    machine.home.mkdir()
    (machine.home / "schedules.json").write_text("{")
    session = begin(machine, "--engine", engine(machine))
    until_true(lambda: state(machine, session) == "done")
    assert "schedules.json" in status(machine)["problem"]


def test_the_unit_runs_the_daemon_in_this_home(machine: Machine) -> None:
    config = machine.workspace / "config"
    printed = machine.run("daemon", "unit", XDG_CONFIG_HOME=str(config))
    assert "daemon run" in printed.stdout
    assert f'Environment="MAINSPRING_HOME={machine.home}"' in printed.stdout
    assert "systemctl --user" in printed.stderr
    assert not config.exists()
    assert machine.run("daemon", "unit", "--install", XDG_CONFIG_HOME=str(config)).returncode == 0
    assert (config / "systemd/user/mainspring.service").read_text() == printed.stdout


def test_a_sleeping_daemon_uses_almost_no_time(machine: Machine) -> None:
    schedule(machine, "@yearly", "--engine", engine(machine))
    assert machine.run("daemon", "start").returncode == 0
    pid = status(machine)["pid"]

    def looked() -> tuple[str, float]:
        """Whether it sleeps, and the time that it has used."""
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return fields[0], (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def is_asleep() -> bool:
        state, used_s = looked()
        machine.run("daemon", "status")
        return state == "S" and looked() == (state, used_s)

    until_true(is_asleep)
    (_, before_s), began = looked(), time.monotonic()
    for _ in range(5):
        machine.run("daemon", "status")
    assert looked()[1] - before_s <= max(0.02, 0.001 * (time.monotonic() - began))


def test_a_full_log_begins_again(machine: Machine) -> None:
    folder = machine.home / "daemon"
    folder.mkdir(parents=True)
    (folder / "daemon.log").write_text("old\n" * 400_000)
    assert machine.run("daemon", "run", "--once").returncode == 0
    assert (folder / "daemon.log").stat().st_size < 10_000
    assert (folder / "daemon.log.1").stat().st_size > 1 << 20


def test_schedules_that_share_their_next_time_are_both_listed(machine: Machine) -> None:
    kept = [schedule(machine, "@yearly", "--engine", engine(machine)) for _ in range(2)]
    shown = machine.run("daemon", "status")
    assert "Traceback" not in shown.stderr
    assert shown.returncode == 3
    first, second = status(machine)["next"]
    assert first["at"] == second["at"]
    assert [first["schedule"], second["schedule"]] == sorted(each.id for each in kept)
