"""Plugins that are folders, in the layout of Claude Code's: approved as they are, added, changed, removed."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from mainspring.app.mcp import usable_servers
from mainspring.app.operations.trust import approve, brought_by
from mainspring.plugins.folders import read_folder
from mainspring.settings import load_config
from tests.cli.conftest import Machine, lines


def write_plugin(folder: Path, name: str = "review-kit") -> Path:
    files = {
        ".claude-plugin/plugin.json": json.dumps(
            {
                "name": name,
                "version": "2.1.0",
                "description": "Reviews",
                "author": {"name": "Somebody"},
                "commands": ["./extra/"],
                "keywords": ["review"],
            }
        ),
        "commands/review.md": "---\ndescription: Reviews changes\n---\nReview: !`echo seen-$1`",
        "extra/short.md": "Be short.",
        "agents/critic.md": "---\nname: critic\ndescription: Finds faults\n---\nFind faults.",
        "skills/reviewing/SKILL.md": "---\nname: reviewing\ndescription: How to review.\n---\nLook twice.",
        "hooks/hooks.json": json.dumps({"hooks": {}}),
        ".mcp.json": json.dumps(
            {"mcpServers": {"kit": {"command": "${CLAUDE_PLUGIN_ROOT}/bin/kit", "args": ["--here"]}}}
        ),
    }
    for path, text in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


def states(machine: Machine) -> dict[str, str]:
    return {each["name"]: each["state"] for each in lines(machine.run("plugins", "list", "--json").stdout)}


def run(machine: Machine, *arguments: str) -> str:
    ran = machine.run(*arguments)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout + ran.stderr


def test_a_projects_folder_is_used_once_it_was_approved_and_no_longer_when_it_changed(
    machine: Machine,
) -> None:
    folder = write_plugin(machine.workspace / ".mainspring" / "plugins" / "review-kit")
    model = machine.serve({"text": "done"})
    assert states(machine) == {"review-kit": "unapproved"}
    assert "plugins trust review-kit" in run(machine, "run", "--model", model, "x")
    assert "reviewing" not in run(machine, "skills")
    assert machine.run("plugins", "trust").returncode == 2  # nobody is at a terminal
    config = load_config(machine.environment())
    (entry,) = brought_by(config, machine.workspace)
    assert "Look twice." in entry.subject.text
    approve(config, entry.subject)
    assert states(machine) == {"review-kit": "ready"}
    assert "reviewing: How to review." in run(machine, "skills")
    assert "/review-kit:review: Reviews changes" in run(machine, "commands")
    assert "/review-kit:short" in run(machine, "commands")
    (server,) = usable_servers(machine.workspace, config).servers
    assert server.settings.command == f"{folder}/bin/kit"
    run(machine, "run", "/review-kit:review it", "--model", model, "--mode", "auto")
    assert b"Review: seen-it" in machine.seen[-1].body
    (folder / "commands" / "review.md").write_text("Review: !`echo other`")
    assert states(machine) == {"review-kit": "unapproved"}
    assert "+Review: !`echo other`" in run(machine, "trust", "show")
    assert "/review-kit" not in run(machine, "commands")


def test_hooks_and_agents_of_a_folder_count_once_it_was_approved(machine: Machine) -> None:
    folder = write_plugin(machine.workspace / ".mainspring" / "plugins" / "review-kit")
    (folder / "deny.sh").write_text("echo not-today >&2; exit 2\n")
    entry = {"type": "command", "command": "sh ${CLAUDE_PLUGIN_ROOT}/deny.sh"}
    hooks = {"hooks": {"PreToolUse": [{"matcher": "Read", "hooks": [entry]}]}}
    (folder / "hooks" / "hooks.json").write_text(json.dumps(hooks))
    model = machine.serve({"calls": [{"name": "read", "arguments": {"path": "."}}]}, {"text": "done"})
    assert "critic" not in run(machine, "agents")
    run(machine, "run", "--model", model, "x")
    assert b"not-today" not in machine.seen[-1].body
    config = load_config(machine.environment())
    (entry,) = brought_by(config, machine.workspace)
    approve(config, entry.subject)
    run(machine, "run", "--model", model, "x")
    assert b"not-today" in machine.seen[-1].body
    assert "critic: Finds faults" in run(machine, "agents")


def test_a_folder_is_added_shown_when_it_changes_and_removed(machine: Machine, tmp_path: Path) -> None:
    source = write_plugin(tmp_path / "source")
    assert machine.run("plugins", "add", str(source)).returncode == 2  # needs a person, or --yes
    assert "Look twice." in run(machine, "plugins", "add", "--yes", str(source))
    assert states(machine) == {"review-kit": "ready"}
    assert "is there already" in run(machine, "plugins", "add", str(source))
    (source / "extra" / "short.md").write_text("Be brief.")
    shown = run(machine, "plugins", "add", "--yes", str(source))
    assert "-Be short." in shown
    assert "Look twice." not in shown, "only what changed"
    copy = machine.home / "plugins" / "review-kit"
    assert (copy / "extra" / "short.md").read_text() == "Be brief."
    (copy / "extra" / "short.md").write_text("Be rude.")
    assert states(machine) == {"review-kit": "unapproved"}
    run(machine, "plugins", "remove", "review-kit")
    assert states(machine) == {}
    assert not copy.exists()
    assert machine.run("plugins", "remove", "review-kit").returncode == 2


def test_a_repository_is_added_without_its_history(machine: Machine, tmp_path: Path) -> None:
    source = write_plugin(tmp_path / "kit.git")
    git = ["git", "-C", str(source), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for arguments in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "x")):
        subprocess.run([*git, *arguments], check=True, capture_output=True)
    run(machine, "plugins", "add", "--yes", f"file://{source}")
    assert states(machine) == {"review-kit": "ready"}
    assert not (machine.home / "plugins" / "review-kit" / ".git").exists()
    failed = machine.run("plugins", "add", "--yes", f"file://{tmp_path}/none.git")
    assert failed.returncode == 2
    assert "git clone failed" in failed.stderr


def test_what_nobody_is_shown_is_no_part_of_a_plugin(tmp_path: Path) -> None:
    """The history of a repository is not in the text that is approved."""
    plugin = write_plugin(tmp_path / "kit")
    assert not read_folder(plugin, is_projects=True).problem
    (plugin / "commands" / ".git").mkdir()
    assert "commands/.git" in read_folder(plugin, is_projects=True).problem
    assert not read_folder(plugin).problem
    for field, place in (
        ("hooks", "commands/.git/h.json"),
        ("commands", "commands/.GIT"),
        ("skills", ".git"),
    ):
        (plugin / ".claude-plugin" / "plugin.json").write_text(json.dumps({"name": "kit", field: place}))
        assert place in read_folder(plugin).problem


@pytest.mark.parametrize("case", ["link", "outside", "json", "name", "empty"])
def test_a_folder_that_is_wrong_is_named_with_what_is(machine: Machine, tmp_path: Path, case: str) -> None:
    source = write_plugin(tmp_path / "source")
    manifest = source / ".claude-plugin" / "plugin.json"
    match case:
        case "link":
            (source / "commands" / "out.md").symlink_to("/etc/hostname")
        case "outside":
            manifest.write_text('{"name": "a", "skills": "../.."}')
        case "json":
            manifest.write_text("{")
        case "name":
            manifest.write_text('{"name": "../evil"}')
        case _:
            source = tmp_path / "empty"
            source.mkdir()
    assert bool(read_folder(source).problem) == (case != "empty")
    ran = machine.run("plugins", "add", "--yes", str(source))
    assert ran.returncode == 2
    assert "is not a plugin that can be used" in ran.stderr
    assert states(machine) == {}


@pytest.mark.parametrize("source", ["./nothing", "../nothing", "/nonexistent/nothing", "~/nothing"])
def test_a_folder_that_is_not_there_is_no_package(machine: Machine, source: str) -> None:
    ran = machine.run("plugins", "add", "--yes", source)
    assert ran.returncode == 2
    assert "There is no " in ran.stderr
    assert "pip" not in ran.stdout + ran.stderr
