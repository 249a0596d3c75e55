"""`mcp` and `trust` as a person uses them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mainspring.approvals.trust import TrustFile
from tests.cli.conftest import Machine, lines


def states(machine: Machine) -> dict[str, str]:
    return {row["name"]: row["state"] for row in lines(machine.run("mcp", "list", "--json").stdout)}


def test_a_server_is_added_listed_and_removed(machine: Machine) -> None:
    assert machine.run("mcp", "add", "files", "-e", "ROOT=/x", "--", "python3", "-m", "files").returncode == 0
    assert machine.run("mcp", "add", "web", "https://example.org/mcp", "--header", "K=V").returncode == 0
    assert states(machine) == {"files": "configured", "web": "configured"}
    again = machine.run("mcp", "add", "web", "https://example.org/mcp")
    assert again.returncode == 2
    assert "mcp remove web" in again.stderr
    assert machine.run("mcp", "remove", "web").returncode == 0
    assert states(machine) == {"files": "configured"}
    assert machine.run("mcp", "remove", "web").returncode == 2


def test_a_projects_server_waits_for_a_person_and_is_never_approved_without_a_terminal(
    machine: Machine,
) -> None:
    entry = {"mcpServers": {"theirs": {"command": "sh", "args": ["run.sh"]}}}
    (machine.workspace / ".mcp.json").write_text(json.dumps(entry))
    assert states(machine) == {"theirs": "unapproved"}
    refused = machine.run("trust", "add")
    assert refused.returncode == 2
    assert states(machine) == {"theirs": "unapproved"}
    shown = machine.run("trust", "show").stdout
    assert "theirs" in shown
    assert "run.sh" in shown


def test_who_adds_a_server_to_a_project_has_approved_it_until_it_changes(machine: Machine) -> None:
    assert machine.run("mcp", "add", "mine", "--project", "--", "sh", "run.sh").returncode == 0
    assert states(machine) == {"mine": "configured"}
    (trusted,) = lines(machine.run("trust", "list", "--json").stdout)
    assert trusted["name"] == "mine"
    (machine.workspace / "run.sh").write_text("echo changed")
    assert states(machine) == {"mine": "unapproved"}
    assert "+# run.sh" in machine.run("trust", "show").stdout
    assert machine.run("trust", "revoke", trusted["id"]).returncode == 0
    assert TrustFile(machine.home).all() == ()
    assert machine.run("trust", "revoke", trusted["id"]).returncode == 2


def test_a_broken_file_hides_no_other_server_and_is_an_error(machine: Machine) -> None:
    machine.run("mcp", "add", "mine", "--", "sh")
    (machine.workspace / ".mcp.json").write_text('{\n"mcpServers": {')
    listed = machine.run("mcp", "list")
    assert listed.returncode == 2
    assert "mine" in listed.stdout
    assert "line 2" in listed.stderr


@pytest.mark.parametrize(
    "arguments", [("a b", "--", "x"), ("n" * 65, "--", "x"), ("a", "ftp://x", "--transport", "http")]
)
def test_a_server_that_could_not_work_is_not_added(machine: Machine, arguments: tuple[str, ...]) -> None:
    assert machine.run("mcp", "add", *arguments).returncode == 2
    assert not (machine.home / "config.toml").exists()


def test_servers_of_codex_are_imported_once(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "codex").mkdir()
    (tmp_path / "codex" / "config.toml").write_text('[mcp_servers.one]\ncommand = "a"\nargs = ["b"]\n')
    done = machine.run("mcp", "import", "codex", CODEX_HOME=str(tmp_path / "codex"))
    assert done.stdout == "added one\n"
    again = machine.run("mcp", "import", "codex", CODEX_HOME=str(tmp_path / "codex"))
    assert again.stdout == ""
    assert states(machine) == {"one": "configured"}


def test_nobody_logs_in_without_a_terminal(machine: Machine) -> None:
    machine.run("mcp", "add", "web", "http://127.0.0.1:9/mcp")
    assert machine.run("mcp", "login", "web").returncode == 2
