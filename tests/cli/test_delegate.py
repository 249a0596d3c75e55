"""`delegate` in a session as people start it: nothing is set up for agents."""

from __future__ import annotations

import json
from typing import Any

from tests.cli.conftest import Machine

PARENT = "Give it away."


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"calls": [{"name": name, "arguments": arguments}]}


def test_a_plain_run_gives_work_away_and_goes_on_with_the_same_first_bytes(machine: Machine) -> None:
    both = {"calls": [*call("delegate", task="RED: write")["calls"]]}
    both["calls"] += call("delegate", task="BLUE: look", agent="explore")["calls"]
    cases = [
        {"contains": PARENT, "replies": [both, {"text": "Both are done."}, {"text": "Still here."}]},
        {"contains": "RED:", "replies": [call("write", path="red.txt", content="red\n"), {"text": "Wrote."}]},
        {"contains": "BLUE:", "replies": [{"text": "Looked."}]},
    ]
    model = machine.serve(cases=cases)
    ran = machine.run("run", "--mode", "auto", "--model", model, PARENT)
    assert (ran.returncode, ran.stdout.strip()) == (0, "Both are done."), ran.stderr
    assert (machine.workspace / "red.txt").read_text() == "red\n"
    sessions = [json.loads(line) for line in machine.run("sessions", "--json").stdout.splitlines()]
    (parent,) = (each["id"] for each in sessions if not each.get("parent"))
    states = [each["body"]["state"] for each in machine.events(parent) if each["kind"] == "ChildEnded"]
    assert states == ["done", "done"]
    resumed = machine.run("resume", parent, "And now?")
    assert resumed.stdout.strip() == "Still here.", resumed.stderr
    seen = [json.loads(request.body) for request in machine.seen]
    own = [body for body in seen if PARENT in json.dumps(body["messages"])]
    assert len({json.dumps([body["tools"], body["messages"][:2]]) for body in own}) == 1
    assert "delegate" in [each["function"]["name"] for each in own[0]["tools"]]
    theirs = [body for body in seen if PARENT not in json.dumps(body["messages"])]
    assert not any("delegate" in json.dumps(body.get("tools", ())) for body in theirs)


def test_a_person_can_switch_delegation_off(machine: Machine) -> None:
    machine.run("config", "set", "work.delegate", "off")
    machine.run("run", "--model", machine.serve({"text": "done"}), "hello")
    assert "delegate" not in json.dumps(json.loads(machine.seen[0].body)["tools"])
