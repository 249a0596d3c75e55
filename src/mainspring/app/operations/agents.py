"""Which agents there are in a folder, and which of them may be used."""

from __future__ import annotations

from pathlib import Path

from mainspring.agents.files import Agent, find_agents
from mainspring.app.agents_beside import agent_folders
from mainspring.app.operations.trust import agent_subject, entry_of
from mainspring.errors import UsageError
from mainspring.settings import Config
from mainspring.workspace.skills import Broken


def list_agents(config: Config, workspace: Path) -> tuple[dict[str, Agent], list[Broken]]:
    """The agents that a person wrote for all their work, those of the project, and ours; and those that
    cannot be used."""
    return find_agents(agent_folders(workspace, config), workspace)


def agent_of(config: Config, workspace: Path, name: str) -> Agent:
    """The agent of this name."""
    agents, _ = list_agents(config, workspace)
    if name not in agents:
        raise UsageError(f"There is no agent {name!r}.", remedy=f"The agents here are {', '.join(agents)}.")
    return agents[name]


def agent_refusal(config: Config, agent: Agent) -> str:
    """Why an agent may not be used; empty when it may."""
    subject = agent_subject(agent)
    if subject is None or (state := entry_of(config, subject).state) == "trusted":
        return ""
    how = "changed since it was approved" if state == "changed" else "does more than read or names its model"
    return (
        f"The agent {agent.name} comes with this project and {how}; a person must approve it first:"
        f" mainspring trust add {agent.name}"
    )
