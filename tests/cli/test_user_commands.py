"""`run "/NAME"` and `commands`: what a project's file may do, before and after a person approved it."""

from __future__ import annotations

import json

from mainspring.app.operations.trust import approve, brought_by
from mainspring.settings import load_config
from tests.cli.conftest import Machine

FREE = ("--mode", "auto")


def write(machine: Machine, name: str, text: str) -> None:
    path = machine.workspace / ".mainspring" / "commands" / f"{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def said(machine: Machine) -> str:
    return next(
        event["body"]["text"]
        for event in machine.events(machine.only_session()["id"])
        if event["kind"] == "UserSaid"
    )


def test_a_command_that_only_says_something_needs_no_approval(machine: Machine) -> None:
    write(machine, "greet", "---\ndescription: Says hello\nmodel: opus-from-elsewhere\n---\nSay hello to $1.")
    ran = machine.run("run", "/greet Ann", "--model", machine.serve({"text": "Hello, Ann."}), *FREE)
    assert ran.returncode == 0, ran.stderr
    assert "opus-from-elsewhere" in ran.stderr
    assert said(machine) == "Say hello to Ann."
    listed = machine.run("commands")
    assert listed.stdout.startswith("/greet: Says hello")
    assert "not approved" not in listed.stdout


def test_what_a_projects_command_runs_is_approved_for_its_content(machine: Machine) -> None:
    write(machine, "look", "What is here: !`echo found-$1; pwd`")
    model = machine.serve({"text": "I see."})
    refused = machine.run("run", "/look it", "--model", model, *FREE)
    assert refused.returncode == 2
    assert "mainspring trust add /look" in refused.stderr
    assert "not approved" in machine.run("commands").stdout
    config = load_config(machine.environment())
    (entry,) = brought_by(config, machine.workspace)
    approve(config, entry.subject)
    ran = machine.run("run", "/look 'a b'", "--model", model, *FREE)
    assert ran.returncode == 0, ran.stderr
    assert said(machine) == f"What is here: found-a b\n{machine.workspace}"
    (record,) = [json.loads(line) for line in machine.run("execs", "--json").stdout.splitlines()]
    assert record["argv"][-1] == "echo found-'a b'; pwd"
    write(machine, "look", "What is here: !`echo other`")
    changed = machine.run("run", "/look it", "--model", model, *FREE)
    assert changed.returncode == 2
    assert "changed since" in changed.stderr


def test_a_task_that_only_looks_like_a_command_is_a_task(machine: Machine) -> None:
    ran = machine.run("run", "/etc/hosts is wrong?", "--model", machine.serve({"text": "No."}), *FREE)
    assert ran.returncode == 0, ran.stderr
    assert said(machine) == "/etc/hosts is wrong?"


def test_a_projects_command_cannot_name_where_the_key_is_sent(machine: Machine) -> None:
    elsewhere = machine.serve({"text": "Thank you."})
    address = elsewhere.removeprefix("openai-compatible@")
    write(machine, "greet", f"---\nmodel: openai@{address}\n---\nSay hello.")
    here = machine.serve({"text": "Hello."})
    ran = machine.run("run", "/greet", "--model", here, *FREE, OPENAI_API_KEY="sk-of-the-user")
    assert ran.returncode == 0, ran.stderr
    assert not machine.servers[0].seen
    other = machine.run("run", "/greet", *FREE, OPENAI_API_KEY="sk-of-the-user")
    assert not machine.servers[0].seen, other.stderr
