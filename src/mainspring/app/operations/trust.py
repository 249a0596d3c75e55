"""What people approved that projects bring, for every face: servers, hooks, commands that run something, and
agents that may do more than read."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from mainspring.agents.files import Agent, find_agents
from mainspring.app.agents_beside import agent_folders
from mainspring.app.hook_files import list_hook_files
from mainspring.app.plugins import plugin_commands, plugin_folders
from mainspring.approvals.trust import Trusted, TrustFile, TrustState, TrustSubject, changes
from mainspring.checks.linter_facts import linter_rows
from mainspring.checks.programs import subjects
from mainspring.checks.server_facts import server_rows
from mainspring.errors import UsageError
from mainspring.mcp.servers import list_servers
from mainspring.settings import Config
from mainspring.workspace.skills import Broken
from mainspring.workspace.user_commands import UserCommand, find_user_commands


class TrustEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a project brings, whether it was approved, and what changed since."""

    subject: TrustSubject
    state: TrustState
    diff: str = ""


def list_trusted(config: Config) -> tuple[Trusted, ...]:
    return TrustFile(config.home).all()


def trust_of(config: Config, trust_id: str) -> Trusted:
    """The one approval whose id begins so."""
    found = [each for each in list_trusted(config) if each.id.startswith(trust_id)]
    if len(found) != 1:
        raise UsageError(
            f"There is no approval {trust_id!r}."
            if not found
            else f"Several approvals begin with {trust_id!r}.",
            remedy="`mainspring trust list` lists them.",
        )
    return found[0]


def revoke_trust(config: Config, trust_id: str) -> Trusted:
    """Takes an approval back."""
    found = trust_of(config, trust_id)
    TrustFile(config.home).revoke(found.id)
    return found


def entry_of(config: Config, subject: TrustSubject) -> TrustEntry:
    file = TrustFile(config.home)
    state, last = file.state(subject), file.last(subject)
    diff = changes(last.text, subject.text) if last and state == "changed" else ""
    return TrustEntry(subject=subject, state=state, diff=diff)


def brought_by(config: Config, workspace: Path) -> list[TrustEntry]:
    """All that a project brings and would run."""
    found = list_servers(workspace, config.settings.mcp, config.environment)
    servers = [server.subject for server in found.servers if server.subject]
    commands = [command_subject(each) for each in list_user_commands(config, workspace)[0].values()]
    hooks = [each.file.subject for each in list_hook_files(workspace, config)]
    agents, _ = find_agents(agent_folders(workspace, config), workspace)
    written = (*commands, *map(agent_subject, agents.values()))
    plugins = [each.subject for each in plugin_folders(config, workspace) if each.is_projects]
    checks, environment = config.settings.checks, config.environment
    linters = subjects("linter", linter_rows(checks), workspace, environment)
    language_servers = subjects("language-server", server_rows(checks), workspace, environment)
    found = (*servers, *hooks, *written, *plugins, *linters, *language_servers)
    return [entry_of(config, subject) for subject in found if subject]


def command_subject(command: UserCommand) -> TrustSubject | None:
    """What is to be approved of a command: a project's that runs something, whole."""
    if not (command.is_projects and command.runs):
        return None
    return TrustSubject(kind="command", path=str(command.path), name=f"/{command.name}", text=command.whole)


def agent_subject(agent: Agent) -> TrustSubject | None:
    """What is to be approved of an agent: a project's that may do more than read, whole."""
    if not (agent.is_projects and agent.is_widening):
        return None
    return TrustSubject(kind="agent", path=str(agent.path), name=agent.name, text=agent.whole)


def list_user_commands(config: Config, workspace: Path) -> tuple[dict[str, UserCommand], list[Broken]]:
    """The commands that a person wrote for all their work, then those of the project and those of plugins;
    and those that cannot be used."""
    home = Path(config.variable("HOME") or "/")
    folders = {config.folder / "commands": False, home / ".claude" / "commands": False}
    folders |= {workspace / name / "commands": True for name in (".mainspring", ".claude")}
    found, broken = find_user_commands(folders, workspace)
    more, unusable = plugin_commands(config, workspace)
    return {**more, **found}, [*broken, *unusable]


def approve(config: Config, subject: TrustSubject) -> Trusted:
    """Approves what a person saw."""
    by = config.origin.user or "user"
    return TrustFile(config.home).add(subject, now_us=time.time_ns() // 1000, by=by)
