"""The first run: what can answer is found, chosen and kept, and nobody is asked in a pipe."""

from __future__ import annotations

import os
import time
from pathlib import Path

from mainspring.app.operations.setup import detect_choices, needs_setup
from mainspring.settings import load_config
from tests.cli.conftest import Machine, lines
from tests.cli.terminal import Person


def setting(machine: Machine, key: str) -> object:
    (row,) = lines(machine.run("config", "get", key, "--json").stdout)
    return row["value"]


def quiet(machine: Machine, **extra: str) -> dict[str, str]:
    """An environment without servers and engines, whatever this machine has."""
    tools = machine.workspace.parent / "tools"
    tools.mkdir(exist_ok=True)
    return {"PATH": str(tools), **extra}


def served(machine: Machine, *replies: dict[str, str]) -> str:
    machine.serve(*replies)
    return machine.servers[-1].url


def test_a_run_without_a_model_offers_the_set_up_and_goes_on(machine: Machine) -> None:
    url = served(machine, {"text": "hello there"})
    person = Person(machine, "run", "hello", **quiet(machine, OLLAMA_BASE_URL=url))
    person.until("Ollama on this machine")
    person.until("1 to")
    person.type("1")
    person.until("Model")
    person.type("")
    person.until("Done: model = ollama/")
    out = person.process.stdout
    assert out is not None
    assert out.readline() == "hello there\n"
    assert person.ends() == 0
    assert str(setting(machine, "model")).startswith("ollama/")


def test_a_chat_without_a_model_begins_with_the_set_up(machine: Machine) -> None:
    url = served(machine, {"text": "hello there"})
    person = Person(machine, "chat", "--plain", "hello", **quiet(machine, OLLAMA_BASE_URL=url))
    person.until("1 to")
    person.type("1")
    person.until("Model")
    person.type("")
    person.until("Done: model = ollama/")
    out = person.process.stdout
    assert out is not None
    assert any("hello there" in line for line in out)
    person.process.terminate()
    person.ends()


def test_nobody_is_asked_in_a_pipe(machine: Machine) -> None:
    ran = machine.run("run", "hello", **quiet(machine))
    assert ran.returncode == 2
    assert "No model is set" in ran.stderr
    assert machine.run("setup").returncode == 2


def test_an_installed_engine_can_be_chosen(machine: Machine) -> None:
    environment = quiet(machine)
    program = Path(environment["PATH"]) / "claude"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    person = Person(machine, "setup", **environment)
    person.until("1  Claude Code")
    person.until("1 to")
    person.type("7")
    person.until("Please give a number")
    person.type("1")
    assert person.ends() == 0
    assert setting(machine, "engine") == "claude"


def test_a_key_is_stored_and_tried_without_being_shown(machine: Machine) -> None:
    url = served(machine, {"text": "hello there"})
    person = Person(machine, "setup", **quiet(machine, OPENAI_BASE_URL=url))
    person.until("1 to")
    person.type("1")
    person.until("Provider")
    person.type("opnai")
    person.until("There is no provider 'opnai'")
    person.type("openai")
    person.until("Key of OpenAI: ")
    person.type("sk-typed-at-the-terminal")
    person.until("Model")
    person.type("mine/own")
    person.until("does not list")
    person.type("mine/own")
    assert person.ends() == 0
    assert "sk-typed" not in person.seen
    (row,) = lines(machine.run("keys", "list", "--json").stdout)
    assert (row["name"], row["stored"]) == ("openai", "file")
    assert setting(machine, "model") == "mine/own"


def test_leaving_changes_nothing(machine: Machine) -> None:
    person = Person(machine, "setup", **quiet(machine))
    person.until("3  nothing now")
    person.until("1 to")
    person.type("3")
    assert person.ends() == 0
    assert not (machine.home / "config.toml").exists()


def test_it_fits_the_terminal_and_is_left_on_a_line_of_its_own(machine: Machine) -> None:
    person = Person(machine, "setup", **quiet(machine), COLUMNS="60")
    shown = person.until("1 to")
    assert all(len(line) <= 60 for line in shown.split("\r\n"))
    assert "no model yet" in shown
    person.leave()
    assert person.ends() != 0
    assert person.seen.endswith("\n")


def test_set_up_again_it_says_what_works_now(machine: Machine) -> None:
    machine.run("config", "set", "model", "ollama/some")
    person = Person(machine, "setup", **quiet(machine))
    person.until("works with ollama/some.")
    person.until("1 to")
    person.leave()
    person.ends()


def test_servers_that_do_not_answer_are_not_waited_for(machine: Machine) -> None:
    import asyncio
    import socket

    with socket.socket() as silent:  # takes connections and says nothing
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        environment = {**machine.environment(OLLAMA_BASE_URL=url), "PATH": os.devnull}
        config = load_config(environment)
        assert needs_setup(config)
        began = time.monotonic()
        choices = asyncio.run(detect_choices(config))
        assert all(each.provider != "ollama" for each in choices)
        assert time.monotonic() - began < 30
