"""Waits through the real command: killed and resumed, stopped, and what a provider's limit becomes."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from mainspring.cli.turn import _print_event
from mainspring.events import Recorded, StatusDelta
from tests.cli.conftest import Machine, lines, until

FREE = ("--mode", "yolo", "--max-cost-usd", "1", "--allow-unpriced", "--sandbox", "none")


def waits(**arguments: Any) -> dict[str, Any]:
    return {"calls": [{"name": "wait", "arguments": arguments}]}


def bodies(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event["body"] for event in events if event["kind"] == kind]


def limited(retry_after_s: float) -> dict[str, Any]:
    return {"kind": "status", "status": 429, "retry_after": retry_after_s}


def configure(machine: Machine, *more: str) -> None:
    """Every wait that a provider asks for is a durable one."""
    machine.home.mkdir(exist_ok=True)
    text = "\n".join(["[retry]", "longest_wait_s = 0", "rate_limit_waits_s = [0]", *more])
    (machine.home / "config.toml").write_text(text)


@pytest.mark.parametrize("wanted", [{"file": "made"}, {"command": "test -e made", "every_s": 5}])
def test_a_wait_is_killed_and_goes_on_with_what_happened_meanwhile(
    machine: Machine, wanted: dict[str, Any]
) -> None:
    model = machine.serve(waits(**wanted), {"text": "done"})
    run = machine.start("run", "--json", "--model", model, *FREE, "go")
    seen = until(run, "WaitStarted")
    run.kill()
    run.communicate(timeout=60)
    (machine.workspace / "made").touch()
    session = seen[0]["body"]["session"]
    resumed = machine.run("resume", session, *FREE)
    assert resumed.returncode == 0, resumed.stderr
    assert "◷ woken, met" in resumed.stderr
    events = machine.events(session)
    assert len(bodies(events, "WaitStarted")) == 1
    (ended,) = bodies(events, "WaitEnded")
    assert ended["cause"] == "met"
    (result,) = bodies(events, "CallEnded")
    assert result["outcome"] == "ok"
    assert len(machine.seen) == 2
    again = machine.run("resume", session, "and now?", *FREE)
    assert len(bodies(machine.events(session), "WaitEnded")) == 1, again.stderr


def test_a_background_process_that_ended_meanwhile_is_told_late(machine: Machine) -> None:
    start = {"command": "until [ -e go ]; do sleep 0.02; done; echo over; exit 5", "background": True}
    model = machine.serve(
        {"calls": [{"name": "shell", "arguments": start}]}, waits(processes=["p1"]), {"text": "done"}
    )
    run = machine.start("run", "--json", "--model", model, *FREE, "go")
    seen = until(run, "WaitStarted")
    run.kill()
    run.communicate(timeout=60)
    session = seen[0]["body"]["session"]
    (machine.workspace / "go").touch()
    folder = Path(bodies(seen, "ProcessStarted")[0]["folder"])
    while not (folder / "exit.json").exists():
        pass
    assert machine.run("resume", session, *FREE).returncode == 0
    events = machine.events(session)
    (ended,) = bodies(events, "WaitEnded")
    assert ended["late_s"] > 0
    result = bodies(events, "CallEnded")[-1]
    assert "exit code 5" in result["output"]
    assert "over" in result["output"]
    assert "note from process" not in str(machine.seen[-1].json()["messages"])


def test_ctrl_c_ends_a_wait_at_once(machine: Machine) -> None:
    model = machine.serve(waits(seconds=600), {"text": "done"})
    run = machine.start("run", "--json", "--model", model, *FREE, "go")
    until(run, "WaitStarted")
    run.send_signal(signal.SIGINT)
    events = lines(run.communicate(timeout=60)[0])
    assert run.returncode == 130
    assert [body["cause"] for body in bodies(events, "WaitEnded")] == ["cancelled"]
    assert [body["ending"] for body in bodies(events, "TurnEnded")] == ["interrupted"]


def test_a_limit_of_the_provider_is_waited_for_and_the_step_is_tried_again(machine: Machine) -> None:
    configure(machine)
    model = machine.serve({"text": "Here I am again."}, faults=[limited(1)])
    ran = machine.run("run", "--model", model, "go")
    assert (ran.returncode, ran.stdout) == (0, "Here I am again.\n"), ran.stderr
    assert f"◷ waiting for {model} to answer again at 20" in ran.stderr
    assert len(machine.seen) == 2
    events = machine.events(machine.only_session()["id"])
    assert [body["cause"] for body in bodies(events, "WaitEnded")] == ["met"]


def test_a_limit_that_is_waited_for_survives_kill_9_without_a_request(machine: Machine) -> None:
    configure(machine)
    model = machine.serve({"text": "Here I am again."}, faults=[limited(3)])
    run = machine.start("run", "--json", "--model", model, "go")
    seen = until(run, "WaitStarted")
    run.kill()
    run.communicate(timeout=60)
    session = seen[0]["body"]["session"]
    resumed = machine.run("resume", session)
    assert (resumed.returncode, resumed.stdout) == (0, "Here I am again.\n"), resumed.stderr
    assert len(machine.seen) == 2
    events = machine.events(session)
    assert (len(bodies(events, "WaitStarted")), len(bodies(events, "WaitEnded"))) == (1, 1)


def test_ctrl_c_ends_the_wait_for_a_provider(machine: Machine) -> None:
    configure(machine)
    model = machine.serve({"text": "never"}, faults=[limited(3600)])
    run = machine.start("run", "--json", "--model", model, "go")
    until(run, "WaitStarted")
    run.send_signal(signal.SIGINT)
    events = lines(run.communicate(timeout=60)[0])
    assert run.returncode == 130
    assert [body["cause"] for body in bodies(events, "WaitEnded")] == ["cancelled"]


def test_a_turn_that_ended_as_waiting_is_not_resumed_before_its_time(machine: Machine) -> None:
    configure(machine, "[waits]", "max_quota_wait_s = 0")
    model = machine.serve({"text": "never"}, faults=[limited(3600)])
    assert machine.run("run", "--model", model, "go").returncode == 3
    resumed = machine.run("resume", machine.only_session()["id"])
    assert resumed.returncode == 3
    assert "Resume at 20" in resumed.stderr
    assert len(machine.seen) == 1


def test_a_turn_that_ended_as_waiting_is_resumed_at_its_time(machine: Machine) -> None:
    configure(machine, "[waits]", "max_quota_wait_s = 0")
    model = machine.serve({"text": "Here I am again."}, faults=[limited(2)])
    assert machine.run("run", "--model", model, "go").returncode == 3
    configure(machine)
    resumed = machine.run("resume", machine.only_session()["id"])
    assert (resumed.returncode, resumed.stdout) == (0, "Here I am again.\n"), resumed.stderr
    assert "◷ woken, met" in resumed.stderr
    assert len(machine.seen) == 2


def test_another_model_or_a_new_message_is_not_held_up_by_a_limit(machine: Machine) -> None:
    configure(machine, "[waits]", "max_quota_wait_s = 0")
    model = machine.serve({"text": "At last."}, faults=[limited(3600)])
    assert machine.run("run", "--model", model, "go").returncode == 3
    session = machine.only_session()["id"]
    assert machine.run("resume", session, "try again").stdout == "At last.\n"
    second = machine.serve({"text": "never"}, faults=[limited(3600)])
    assert machine.run("resume", session, "more", "--model", second).returncode == 3
    third = machine.serve({"text": "At last."}, {"text": "Me neither."})
    assert machine.run("resume", session, "--model", third).stdout == "Me neither.\n"


def test_only_programs_that_no_agent_can_write_are_asked_about_jobs(machine: Machine, tmp_path: Path) -> None:
    real, planted = tmp_path / "bin", machine.workspace / "bin"
    for folder, said in ((planted, "touch planted"), (real, "echo 'COMPLETED|0:0|Unknown'")):
        folder.mkdir()
        (folder / "sacct").write_text(f"#!/bin/sh\n{said}\n")
        (folder / "sacct").chmod(0o755)
    path = f"{planted}:{real}:{machine.environment()['PATH']}"
    model = machine.serve(waits(slurm_jobs=["17"]), {"text": "done"})
    ran = machine.run("run", "--model", model, *FREE, "go", PATH=path)
    assert ran.returncode == 0, ran.stderr
    assert "Slurm job 17 ended: COMPLETED" in ran.stderr
    assert not (machine.workspace / "planted").exists()


def test_the_status_of_a_wait_is_shown_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    _print_event(Recorded(0, 0, StatusDelta(text="waiting for p1: 60 s so far, 58 min left", wait="w")))
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "◷ waiting for p1: 60 s so far, 58 min left\n")
