"""Which servers there are: `.mcp.json`, `config.toml`, what is wrong with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mainspring.errors import ConfigError
from mainspring.mcp.edit import add_to_settings, remove_from_settings
from mainspring.mcp.others import OtherProgram, servers_of
from mainspring.mcp.process import confinement_of
from mainspring.mcp.servers import McpServer, list_servers
from mainspring.mcp.settings import McpServerSettings, McpSettings, has_servers
from mainspring.sandbox import Confinement
from mainspring.settings import load_config


def listed(
    folder: Path, content: Any, environment: dict[str, str] | None = None, **user: Any
) -> dict[str, McpServer]:
    text = content if isinstance(content, str) else json.dumps(content)
    (folder / ".mcp.json").write_text(text)
    found = list_servers(folder, McpSettings(servers=user), environment or {})
    assert found.problem is None, found.problem
    return {f"{server.scope}:{server.name}": server for server in found.servers}


def broken(folder: Path, text: str) -> ConfigError:
    (folder / ".mcp.json").write_text(text)
    found = list_servers(folder, McpSettings(), {})
    assert found.problem is not None
    assert not found.servers
    return found.problem


def test_a_file_is_read_as_other_tools_write_it(tmp_path: Path) -> None:
    servers = listed(
        tmp_path,
        {
            "mcpServers": {
                "local": {
                    "command": "node",
                    "args": ["server.js"],
                    "env": {"PORT": 8080, "TOKEN": "${TOKEN}"},
                },
                "web": {
                    "type": "http",
                    "url": "${BASE:-https://example.org}/mcp",
                    "headers": {"X-Key": "${TOKEN}"},
                },
                "old": {"type": "sse", "url": "https://example.org/sse", "timeout": 5000, "alwaysLoad": True},
                "off": {"command": "x", "disabled": True, "someKeyOfOthers": [1]},
            }
        },
        {"TOKEN": "t0ken"},
    )
    assert servers["project:local"].settings.env == {"PORT": "8080", "TOKEN": "t0ken"}
    web = servers["project:web"].settings
    assert (web.kind, web.url, web.headers) == ("http", "https://example.org/mcp", {"X-Key": "t0ken"})
    old = servers["project:old"].settings
    assert (old.kind, old.timeout_s, old.always_load) == ("sse", 5.0, True)
    assert not servers["project:off"].settings.enabled


def test_a_variable_without_a_value_or_default_is_named(tmp_path: Path) -> None:
    server = listed(tmp_path, {"mcpServers": {"a": {"command": "x", "env": {"K": "${MISSING_ONE}"}}}})[
        "project:a"
    ]
    assert "MISSING_ONE" in server.problem


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{\n "mcpServers": {\n  "a": {"command": "x",}\n }\n}', 3),
        ('{\n "mcpServers": {\n  "a": {"command": "x"},\n  "b": {"command": 1}\n }\n}', 4),
        ('{\n "mcpServers": {\n  "a": {"command": "x"},\n  "a": {"command": "y"}\n }\n}', 4),
        ('{\n "mcpServers": {\n  "a": {"type": "carrier-pigeon", "url": "x"}\n }\n}', 3),
        ('{\n\n "mcpServers": []\n}', 3),
    ],
)
def test_a_broken_file_is_told_with_its_line_and_a_remedy(tmp_path: Path, text: str, line: int) -> None:
    error = broken(tmp_path, text)
    assert f"line {line}" in error.message
    assert error.remedy


def test_a_file_that_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / ".mcp.json")
    found = list_servers(tmp_path, McpSettings(), {})
    assert found.problem is not None


def test_names_that_cannot_be_used_are_told(tmp_path: Path) -> None:
    servers = listed(
        tmp_path,
        {"mcpServers": {"n" * 65: {"command": "x"}, "a b": {"command": "x"}, "ok.name": {"command": "x"}}},
    )
    assert "64" in servers[f"project:{'n' * 65}"].problem
    assert servers["project:a b"].problem
    assert not servers["project:ok.name"].problem


def test_of_two_servers_with_one_name_the_users_counts(tmp_path: Path) -> None:
    servers = listed(
        tmp_path,
        {"mcpServers": {"git": {"command": "theirs"}, "a.b": {"command": "x"}, "a_b": {"command": "y"}}},
        git=McpServerSettings(command="mine"),
    )
    assert not servers["user:git"].problem
    assert "git" in servers["project:git"].problem
    assert not servers["project:a.b"].problem
    assert servers["project:a_b"].problem, "both would be mcp__a_b__…"


def test_the_hash_of_a_projects_server_covers_the_code_that_it_names(tmp_path: Path) -> None:
    content = {"mcpServers": {"a": {"command": "python3", "args": ["server.py"]}}}
    (tmp_path / "server.py").write_text("print(1)")
    first = listed(tmp_path, content)["project:a"].subject
    (tmp_path / "server.py").write_text("print(2)")
    second = listed(tmp_path, content)["project:a"].subject
    assert first is not None
    assert second is not None
    assert first.sha256 != second.sha256
    again = listed(tmp_path, json.dumps(content, indent=7))["project:a"].subject
    assert again is not None
    assert again.sha256 == second.sha256, "layout is no content"


def test_a_session_without_servers_looks_at_nothing(tmp_path: Path) -> None:
    assert not has_servers(tmp_path, McpSettings())
    (tmp_path / ".mcp.json").write_text("{}")
    assert has_servers(tmp_path, McpSettings())
    assert not has_servers(tmp_path, McpSettings(project_servers=False))


def test_a_server_is_added_to_the_settings_and_taken_out_again(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    before = '# mine\nmodel = "a"\n\n[mcp.servers.other]\ncommand = "o"\n'
    file.write_text(before)
    given = McpServerSettings(command="npx", args=("-y", 'a"b\\c'), env={"K.1": "välue\n"}, network=False)
    add_to_settings(file, "new.one", given)
    settings = load_config({"MAINSPRING_HOME": str(tmp_path)}).settings
    assert settings.model == "a"
    assert settings.mcp.servers["new.one"] == given
    assert remove_from_settings(file, "new.one")
    assert file.read_text().rstrip() == before.rstrip()
    assert not remove_from_settings(file, "new.one")


def test_the_last_server_is_taken_out_of_the_settings_as_well(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    add_to_settings(file, "only", McpServerSettings(command="x", env={"A": "b"}))
    assert remove_from_settings(file, "only")
    assert load_config({"MAINSPRING_HOME": str(tmp_path)}).settings.mcp.servers == {}


def test_settings_that_are_laid_out_otherwise_are_changed_as_well(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    before = '[mcp]\nservers = { a = { command = "x" } }\n'
    file.write_text(before)
    add_to_settings(file, "b", McpServerSettings(command="y"))
    assert remove_from_settings(file, "a")
    servers = load_config({"MAINSPRING_HOME": str(tmp_path)}).settings.mcp.servers
    assert servers == {"b": McpServerSettings(command="y")}
    file.write_text("[mcp.servers\n")
    with pytest.raises(ConfigError):
        remove_from_settings(file, "b")
    assert file.read_text() == "[mcp.servers\n"


@pytest.mark.parametrize("program", ["claude", "codex", "vscode"])
def test_servers_of_other_programs_are_found(tmp_path: Path, program: OtherProgram) -> None:
    workspace = tmp_path / "work"
    (workspace / ".vscode").mkdir(parents=True)
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".claude.json").write_text(
        json.dumps(
            {
                "mcpServers": {"everywhere": {"command": "a"}},
                "projects": {
                    str(workspace): {"mcpServers": {"here": {"type": "http", "url": "https://h/mcp"}}}
                },
            }
        )
    )
    (tmp_path / ".codex" / "config.toml").write_text(
        '[mcp_servers.here]\nurl = "https://h/mcp"\nbearer_token_env_var = "TOK"\n'
        '[mcp_servers.everywhere]\ncommand = "a"\ntool_timeout_sec = 7\n'
    )
    (workspace / ".vscode" / "mcp.json").write_text(
        '{ // a comment\n "servers": {"here": {"type": "http", "url": "https://h/mcp"}, /* x */ "everywhere": {"command": "a"}}}'
    )
    found = {
        entry.name: entry.settings
        for entry in servers_of(program, home=tmp_path, workspace=workspace, environment={})
    }
    assert found["everywhere"].command == "a"
    assert found["here"].url == "https://h/mcp"
    if program == "codex":
        assert found["here"].headers == {"Authorization": "Bearer ${TOK}"}
        assert found["everywhere"].timeout_s == 7


def test_settings_of_a_server_survive_their_own_form() -> None:
    given = McpServerSettings(url="https://x/", headers={"a": "b"}, transport="sse")
    assert msgspec.convert(msgspec.to_builtins(given), McpServerSettings) == given


@pytest.mark.parametrize("form", ["argument", "shell", "found"])
def test_a_program_below_tmp_is_shown_with_the_project_that_it_belongs_to(tmp_path: Path, form: str) -> None:
    project = tmp_path / "project"
    script = project / "src" / "server"
    script.parent.mkdir(parents=True)
    script.write_text("")
    script.chmod(0o755)
    command, args = {
        "argument": ("/usr/bin/python3", (str(script), "/nowhere/missing", "--x", "it's")),
        "shell": ("sh", ("-c", f"cd x && exec '{script}' y")),
        "found": ("server", ()),
    }[form]
    settings = McpServerSettings(command=command, args=args)
    server = McpServer(name="x", settings=settings, source="", scope="user")
    policy, environment = Confinement(workspace=tmp_path / "work"), {"PATH": f"/usr/bin:{script.parent}"}
    private = str(tmp_path).startswith("/tmp/")
    assert (script.parent in confinement_of(server, policy, environment).readable) == private
    (project / "package.json").write_text("{}")
    assert (project in confinement_of(server, policy, environment).readable) == private
