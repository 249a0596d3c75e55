"""`mainspring artifacts`: outputs kept by name and version in the journal of a session."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Machine, lines, until

WAIT = {"calls": [{"name": "shell", "arguments": {"command": "while [ ! -e go ]; do sleep 0.05; done"}}]}


@pytest.fixture
def session(machine: Machine) -> str:
    model = machine.serve({"text": "done"})
    machine.run("run", "--model", model, "begin")
    return machine.only_session()["id"]


def test_an_output_is_kept_in_versions_shown_compared_found_and_exported(
    machine: Machine, session: str, tmp_path: Path
) -> None:
    plan = machine.workspace / "plan.md"
    for text in ("first\n", "first\n", "second\n"):
        plan.write_text(text)
        assert machine.run("artifacts", "save", "plan.md", "--note", "how to begin").returncode == 0
    rows = lines(machine.run("artifacts", "list", session, "--json").stdout)
    assert [(row["version"], row["blob"]["sha256"]) for row in rows] == [
        (1, hashlib.sha256(b"first\n").hexdigest()),
        (2, hashlib.sha256(b"second\n").hexdigest()),
    ]
    assert machine.run("artifacts", session).stdout.count("plan.md  version") == 2
    assert machine.run("artifacts", "show", "plan.md").stdout == "second\n"
    assert machine.run("artifacts", "show", "plan.md", "--version", "1").stdout == "first\n"
    compared = machine.run("artifacts", "diff", "plan.md").stdout.splitlines()
    assert compared[-2:] == ["-first", "+second"]
    for words in ("PLAN", "how to", "seco"):
        (found,) = lines(machine.run("artifacts", "search", words, "--json").stdout)
        assert (found["version"]["session"], found["version"]["version"]) == (session, 2)
    assert machine.run("artifacts", "search", "elsewhere", "--json").stdout == ""
    out = tmp_path / "out"
    assert machine.run("artifacts", "export", str(out)).returncode == 0
    assert (out / "plan.md").read_text() == "second\n"
    assert json.loads((out / "artifacts.json").read_text())[0]["version"] == 2
    (saved, *_) = [each["body"] for each in machine.events(session) if each["kind"] == "ArtifactSaved"]
    assert saved["origin"]["face"] == "cli"
    assert machine.run("verify", session).returncode == 0


@pytest.mark.parametrize("name", ["../out", "/etc/out", "a/../../b", "", "a\nb", "x" * 201])
def test_a_name_that_leads_elsewhere_is_refused(machine: Machine, session: str, name: str) -> None:
    (machine.workspace / "file").write_text("x")
    refused = machine.run("artifacts", "save", "file", "--session", session, f"--name={name or '.'}")
    assert refused.returncode != 0
    assert "cannot be the name" in refused.stderr
    assert not [each for each in machine.events(session) if each["kind"] == "ArtifactSaved"]


def test_a_session_that_another_process_runs_keeps_it_as_well(machine: Machine) -> None:
    model = machine.serve(WAIT, {"text": "done"})
    run = machine.start("run", "--json", "--model", model, "--mode", "auto", "begin")
    try:
        session = until(run, "CallStarted")[0]["body"]["session"]
        (machine.workspace / "figures.csv").write_text("a,b\n1,2\n")
        saved = machine.run("artifacts", "save", "figures.csv", "--session", session, "--json")
        (kept,) = lines(saved.stdout)
        assert (kept["version"], kept["blob"]["media_type"]) == (1, "text/csv")
        (machine.workspace / "go").touch()
        run.communicate(timeout=60)
    finally:
        run.kill()
    assert machine.run("artifacts", "show", "figures.csv").stdout == "a,b\n1,2\n"
    assert machine.run("verify", session).returncode == 0


def test_secrets_are_not_kept(machine: Machine, session: str) -> None:
    (machine.workspace / "log.txt").write_text("the key is sk-planted-0123456789abcdefghij\n")
    key = {"OPENAI_API_KEY": "sk-planted-0123456789abcdefghij"}
    assert machine.run("artifacts", "save", "log.txt", "--session", session, **key).returncode == 0
    assert "0123456789abcdefghij" not in machine.run("artifacts", "show", "log.txt").stdout
