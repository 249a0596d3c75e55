"""Background processes through the real command: killed, resumed, listed, stopped; and what doctor says."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from tests.cli.conftest import Machine, lines, until

FREE = ("--mode", "yolo", "--max-cost-usd", "1", "--allow-unpriced", "--sandbox", "none")
HANGING = {"name": "shell", "arguments": {"command": "sleep 300"}}


def background(command: str, **options: Any) -> dict[str, Any]:
    return {"name": "shell", "arguments": {"command": command, "background": True, **options}}


def process(action: str, **options: Any) -> dict[str, Any]:
    return {"name": "process", "arguments": {"action": action, "handle": "p1", **options}}


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def killed_beside(machine: Machine, *calls: dict[str, Any], then: tuple[dict[str, Any], ...] = ()) -> str:
    """A session that was killed with -9 in its second step, after its first had made these calls."""
    model = machine.serve({"calls": list(calls)}, {"calls": [HANGING]}, *then, {"text": "done"})
    run = machine.start("run", "--json", "--model", model, *FREE, "go")
    seen = until(run, "CallEnded")
    seen += until(run, "CallStarted")
    run.kill()
    run.communicate(timeout=60)
    return seen[0]["body"]["session"]


def of_kind(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event["body"] for event in events if event["kind"] == kind]


def test_a_process_survives_kill_9_and_is_adopted_again_with_output_and_exit_code(machine: Machine) -> None:
    script = "echo before; read line; echo after $line; exit 6"
    then = ({"calls": [process("send", text="adoption\n")]}, {"calls": [process("output", wait_s=60)]})
    session = killed_beside(machine, background(script), then=then)
    (row,) = lines(machine.run("ps", "--json").stdout)
    assert (row["handle"], row["session"], row["state"]) == ("p1", session, "running")
    assert row["command"] == script
    assert is_alive(row["pid"])
    resumed = machine.run("resume", session, *FREE)
    assert resumed.returncode == 0, resumed.stderr
    events = machine.events(session)
    output = of_kind(events, "CallEnded")[-1]
    assert output["output"].startswith("p1: exited with code 6")
    assert output["output"].endswith("before\nafter adoption")
    assert output["exit_code"] == 6
    assert [(body["handle"], body["exit_code"]) for body in of_kind(events, "ProcessEnded")] == [("p1", 6)]
    assert machine.run("ps", "--json").stdout == ""


def test_an_end_during_the_crash_is_told_to_the_model_once(machine: Machine) -> None:
    session = killed_beside(machine, background("read line; exit 7"))
    assert machine.run("ps").stdout.startswith(session)
    stopped = machine.run("stop", session, "p1")
    assert (stopped.returncode, stopped.stdout) == (0, "p1 stopped: exit code 143\n")
    assert machine.run("stop", session, "p1").stdout == "p1 had ended already: exit code 143\n"
    assert machine.run("resume", session, *FREE).returncode == 0
    messages = machine.seen[-1].json()["messages"]
    notes = [message for message in messages if "[note from process]" in str(message["content"])]
    assert len(notes) == 1
    assert "p1 has ended with exit code 143 (stopped by a person)" in str(notes[0]["content"])
    assert machine.run("resume", session, "more", *FREE).returncode == 0
    again = machine.seen[-1].json()["messages"]
    assert sum("[note from process]" in str(message["content"]) for message in again) == 1


def test_stop_ends_a_child_that_left_its_session_while_the_session_runs(machine: Machine) -> None:
    script = "setsid sleep 300 & echo $! > child.new; mv child.new child; sleep 300"
    wait = {"name": "shell", "arguments": {"command": "until [ -e child ]; do sleep 0.02; done"}}
    model = machine.serve({"calls": [background(script)]}, {"calls": [wait]}, {"calls": [HANGING]})
    run = machine.start("run", "--json", "--model", model, *FREE, "go")
    seen = until(run, "CallEnded")
    until(run, "CallEnded")
    child = int((machine.workspace / "child").read_text())
    assert is_alive(child)
    assert machine.run("stop", seen[0]["body"]["session"], "p1").returncode == 0
    assert not is_alive(child)
    run.terminate()
    run.communicate(timeout=60)


def test_nothing_is_left_after_a_normal_end_but_what_is_to_stay(machine: Machine) -> None:
    tree = "(setsid sleep 300 & echo $! > child); sleep 300"
    wait = {"name": "shell", "arguments": {"command": "until [ -s child ]; do sleep 0.02; done"}}
    calls = [background(tree), background("sleep 300", stay=True)]
    model = machine.serve({"calls": calls}, {"calls": [wait]}, {"text": "done"})
    assert machine.run("run", "--model", model, *FREE, "go").returncode == 0
    assert not is_alive(int((machine.workspace / "child").read_text()))
    session = machine.only_session()["id"]
    (row,) = lines(machine.run("ps", session, "--json").stdout)
    assert (row["stays"], row["command"]) == (True, "sleep 300")
    assert machine.run("stop", session, row["handle"]).returncode == 0
    assert not is_alive(row["pid"])
    ended = of_kind(machine.events(session), "ProcessEnded")
    assert [body["reason"] for body in ended] == ["ended with its session"]
    nothing = machine.run("resume", session, *FREE)
    assert "Nothing to continue" in nothing.stderr


def test_what_is_not_there_cannot_be_stopped(machine: Machine) -> None:
    assert machine.run("ps").stderr == "No background processes.\n"
    model = machine.serve({"text": "done"})
    machine.run("run", "--model", model, "go")
    session = machine.only_session()["id"]
    for handle in ("p1", "../secrets", ".."):
        refused = machine.run("stop", session, handle)
        assert refused.returncode == 2
        assert "has no background process" in refused.stderr


def test_doctor_names_the_rung_the_gaps_and_the_keys_but_no_values(machine: Machine) -> None:
    value = "not-a-key-but-looks-like-one-4711"
    done = machine.run("doctor", "--json", ANTHROPIC_API_KEY=value)
    found = json.loads(done.stdout)
    assert found["keys"] == ["anthropic"]
    assert value not in done.stdout
    assert [rung["name"] for rung in found["rungs"]] == ["bwrap", "landlock", "container", "none"]
    for rung in found["rungs"]:
        assert rung["holds"] if rung["is_available"] else rung["why_not"] and rung["remedy"]
    names = {check["name"] for check in found["checks"]}
    assert names >= {"system", "python", "git", "rg", "data folder", "prices"}
    assert done.returncode == (0 if found["ok"] else 1)
    assert value not in machine.run("doctor", ANTHROPIC_API_KEY=value).stdout


def test_doctor_says_what_is_missing_and_ends_with_1(machine: Machine, tmp_path: Path) -> None:
    done = machine.run("doctor", MAINSPRING_HOME="/proc/nowhere", PATH=str(tmp_path))
    assert done.returncode == 1
    assert "✗ git: not found. To fix it: apt-get install git" in done.stdout
    assert "· rg: not found" in done.stdout
    assert "✗ data folder" in done.stdout
    assert "✗ bwrap" in done.stdout


def test_doctor_names_the_entries_of_path_that_commands_do_not_reach(machine: Machine) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o777)
        path = f"{folder}:relative/bin:{os.environ['PATH']}"
        done = json.loads(machine.run("doctor", "--json", PATH=path).stdout)
    found = [check["found"] for check in done["checks"] if check["name"] == "PATH"]
    assert [sum(entry in each for each in found) for entry in (folder, "relative/bin")] == [1, 1]
    assert done["ok"]
