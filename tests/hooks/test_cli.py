"""`hooks list|test|log`, `trust` and `doctor` as a person uses them, and hooks of a goal."""

from __future__ import annotations

import json
from typing import Any

from mainspring.app.operations.trust import approve, brought_by
from mainspring.settings import load_config
from tests.cli.conftest import Machine, machine

__all__ = ["machine"]


def write(machine: Machine, **events: tuple[str, str]) -> None:
    folder = machine.workspace / ".mainspring"
    folder.mkdir(exist_ok=True)
    hooks = {
        event: [{"matcher": matcher, "hooks": [{"type": "command", "command": command}]}]
        for event, (matcher, command) in events.items()
    }
    (folder / "hooks.json").write_text(json.dumps({"hooks": hooks}))


def trust(machine: Machine) -> None:
    config = load_config(machine.environment())
    for entry in brought_by(config, machine.workspace):
        approve(config, entry.subject)


def rows(machine: Machine, *words: str) -> list[dict[str, Any]]:
    ran = machine.run("hooks", *words, "--json")
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


def test_a_person_lists_approves_tries_and_follows_hooks(machine: Machine) -> None:
    write(machine, PreToolUse=("Bash", "grep -q forbidden && { echo no, never >&2; exit 2; } || exit 0"))
    assert [each["state"] for each in rows(machine, "list")] == ["new"]
    shown = machine.run("trust", "show")
    assert "forbidden" in shown.stdout
    trust(machine)
    assert [each["state"] for each in rows(machine, "list")] == ["used"]
    trying = ("test", "pretooluse", "--tool", "shell", "--input")
    (refused,) = rows(machine, *trying, '{"command": "forbidden"}')
    assert (refused["verdict"], refused["reason"], refused["is_refusing"]) == ("denied", "no, never", True)
    (passed,) = rows(machine, *trying, '{"command": "ls"}')
    assert passed["verdict"] == "passed"
    assert rows(machine, "log") == []
    model = machine.serve(
        {"calls": [{"name": "shell", "arguments": {"command": "forbidden"}}]}, {"text": "So."}
    )
    ran = machine.run("run", "Do it.", "--model", model, "--mode", "auto")
    assert ran.returncode == 0, ran.stderr
    (logged,) = rows(machine, "log")
    assert (logged["event"], logged["tool"], logged["verdict"]) == ("PreToolUse", "shell", "denied")
    assert logged["duration_s"] > 0
    assert "1 runs in 1 turns" in machine.run("hooks", "log").stderr
    (check,) = [
        each
        for each in json.loads(machine.run("doctor", "--json").stdout)["checks"]
        if each["name"] == "hooks"
    ]
    assert "1 hook in use" in check["found"]
    assert "ms a turn" in check["found"]


def test_a_wrong_event_or_input_is_an_error_for_people(machine: Machine) -> None:
    for words in (("hooks", "test", "Never"), ("hooks", "test", "Stop", "--input", "[1]")):
        ran = machine.run(*words)
        assert ran.returncode == 2
        assert "Traceback" not in ran.stderr


def test_a_message_that_a_hook_refuses_is_told_with_its_reason(machine: Machine) -> None:
    write(machine, UserPromptSubmit=("", "echo not today >&2; exit 2"))
    trust(machine)
    ran = machine.run("run", "Do it.", "--model", machine.serve({"text": "Never."}), "--mode", "auto")
    assert ran.returncode == 2
    assert "not today" in ran.stderr


def test_hooks_hear_of_iterations_and_of_the_end_of_a_goal(machine: Machine) -> None:
    write(machine, IterationEnded=("", "cat >> told.jsonl"), GoalEnded=("done", "cat >> told.jsonl"))
    trust(machine)
    engine = machine.workspace.parent / "engine.sh"
    engine.write_text("#!/bin/bash\ncat > /dev/null; date +%N > f; echo '<promise>DONE</promise>'\n")
    engine.chmod(0o755)
    ran = machine.run("goal", "start", "reach it", "--engine", f"exec:{engine}")
    assert ran.returncode == 0, ran.stderr
    told = [json.loads(line) for line in (machine.workspace / "told.jsonl").read_text().splitlines()]
    assert [each["hook_event_name"] for each in told] == ["IterationEnded", "GoalEnded"]
    assert (told[0]["iteration"], told[1]["ending"]) == (1, "done")
