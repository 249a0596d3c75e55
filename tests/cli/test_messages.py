"""A session that runs in one terminal is told things from another."""

from __future__ import annotations

import subprocess
from typing import Any

from tests.cli.conftest import Machine, until

YOLO = ("--mode", "yolo", "--max-cost-usd", "1", "--allow-unpriced")
WAIT = "while [ ! -e go ]; do sleep 0.05; done"


def started(machine: Machine, *replies: dict[str, Any]) -> tuple[subprocess.Popen[str], str]:
    """A run whose first command waits for the file `go`."""
    wait = {"name": "shell", "arguments": {"command": WAIT}}
    model = machine.serve({"calls": [wait]}, *replies)
    run = machine.start("run", "--json", "--model", model, *YOLO, "begin")
    return run, until(run, "CallStarted")[0]["body"]["session"]


def bodies(machine: Machine, session: str, kind: str) -> list[dict[str, Any]]:
    return [event["body"] for event in machine.events(session) if event["kind"] == kind]


def test_what_is_said_and_noted_reaches_the_running_turn_in_order(machine: Machine) -> None:
    run, session = started(machine, {"text": "done"})
    assert machine.run("note", session, "the port is 8080").returncode == 0
    said = machine.run("say", session[:6], "use tabs")
    assert (said.returncode, f"process {run.pid}" in said.stderr) == (0, True)
    (machine.workspace / "go").touch()
    run.communicate(timeout=60)
    assert run.returncode == 0
    asked = str(machine.seen[-1])
    assert 0 < asked.index("the port is 8080") < asked.index("use tabs")
    heard = bodies(machine, session, "UserSaid")[1]
    assert (heard["text"], heard["origin"]["face"]) == ("use tabs", "cli")


def test_stop_without_a_handle_ends_the_turn_and_resume_goes_on(machine: Machine) -> None:
    run, session = started(machine, {"text": "done"})
    stopped = machine.run("stop", session)
    run.communicate(timeout=60)
    assert (stopped.returncode, run.returncode) == (0, 130)
    assert f"mainspring resume {session}" in stopped.stderr
    (ended,) = bodies(machine, session, "TurnEnded")
    assert (ended["ending"], ended["origin"]["face"]) == ("interrupted", "cli")
    assert machine.run("resume", session).returncode == 0


def test_a_session_that_nobody_runs_takes_notes_and_names_the_way_to_go_on(machine: Machine) -> None:
    model = machine.serve({"text": "one"}, {"text": "two"})
    assert machine.run("run", "--model", model, *YOLO, "begin").returncode == 0
    session = machine.only_session()["id"]
    said = machine.run("say", session, "more")
    assert (said.returncode, f"mainspring resume {session}" in said.stderr) == (2, True)
    assert machine.run("stop", session).returncode == 2
    assert machine.run("note", session, "use tabs").returncode == 0
    assert machine.run("resume", session, "more").returncode == 0
    assert "use tabs" in str(machine.seen[-1])
    assert [each["text"] for each in bodies(machine, session, "UserSaid")] == ["begin", "more"]


def test_what_is_said_to_a_process_that_is_killed_is_not_lost_and_not_said_twice(machine: Machine) -> None:
    run, session = started(machine, {"text": "done"}, {"text": "done"})
    assert machine.run("say", session, "use tabs").returncode == 0
    run.kill()
    run.communicate(timeout=60)
    assert machine.run("resume", session).returncode == 0
    assert [each["text"] for each in bodies(machine, session, "UserSaid")] == ["begin", "use tabs"]
