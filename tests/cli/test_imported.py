"""What a session brings along that was exported by somebody else."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Machine

KEY = {"OPENAI_API_KEY": "my-own-key"}


def exported(machine: Machine, model: str, tmp_path: Path) -> str:
    """A session of somebody else, which is imported here."""
    ran = machine.run("run", "hello", "--model", model)
    assert ran.returncode == 0, ran.stderr
    theirs = machine.only_session()["id"]
    machine.run("export", theirs, "-o", str(tmp_path / "s.jsonl"))
    machine.run("sessions", "delete", theirs, "--yes")
    assert machine.run("import", str(tmp_path / "s.jsonl")).stdout == f"{theirs}\n"
    return theirs


def test_an_imported_session_asks_no_address_that_its_user_did_not_name(
    machine: Machine, tmp_path: Path
) -> None:
    model = machine.serve({"text": "one"}, {"text": "two"}, {"text": "three"})
    session = exported(machine, model, tmp_path)
    looks = len(machine.servers[-1].looks)
    refused = machine.run("resume", session, "go on", **KEY)
    assert refused.returncode == 2
    assert f"was imported, and would ask {model}" in refused.stderr
    fork = machine.run("fork", session).stdout.split()[0]
    assert machine.run("resume", fork, "go on", **KEY).returncode == 2
    assert (len(machine.seen), len(machine.servers[-1].looks)) == (1, looks)
    named = machine.run("resume", session, "go on", "--model", model, **KEY)
    assert (named.returncode, named.stdout) == (0, "two\n"), named.stderr
    (machine.home / "config.toml").write_text(f'model = "{model}"\n')
    assert machine.run("resume", session, "go on", **KEY).stdout == "three\n"
