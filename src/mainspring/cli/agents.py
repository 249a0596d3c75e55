"""`agents`: whom a session can give work to."""

from __future__ import annotations

from pathlib import Path

import click

from mainspring.app.operations.agents import agent_of, agent_refusal, list_agents
from mainspring.cli.config import load_config_or_defaults
from mainspring.cli.json_output import json_line
from mainspring.secrets.screen import plain

_folder = click.option("-C", "folder", type=click.Path(path_type=Path), default=Path(), help="The workspace.")


@click.group("agents", invoke_without_command=True)
@click.pass_context
def agents_command(context: click.Context) -> None:
    """Agents that a session can give work to with `delegate`: ours, and Markdown files of yours or a
    project's."""
    if context.invoked_subcommand is None:
        context.invoke(list_command, folder=Path(), is_json=False)


@agents_command.command("list")
@_folder
@click.option("--json", "is_json", is_flag=True, help="Print one agent per line as JSON.")
def list_command(folder: Path, *, is_json: bool) -> None:
    """List agents, with what each may use, and files that cannot be used."""
    config = load_config_or_defaults()
    agents, broken = list_agents(config, folder.expanduser().resolve())
    for each in agents.values():
        waits = "  (not approved: mainspring trust add)" if agent_refusal(config, each) else ""
        line = f"{each.name}: {each.description}  ({each.isolation}; {', '.join(each.tools)}){waits}"
        click.echo(json_line(each) if is_json else plain(line))
    for each in broken:
        text = json_line(each) if is_json else plain(f"not used: {each.path}: {each.problem}")
        click.echo(text, err=not is_json)


@agents_command.command("show")
@click.argument("name")
@_folder
@click.option("--json", "is_json", is_flag=True, help="Print it as JSON.")
def show_command(name: str, folder: Path, *, is_json: bool) -> None:
    """Show what agent NAME is told, and what it may use."""
    config = load_config_or_defaults()
    agent = agent_of(config, folder.expanduser().resolve(), name)
    if is_json:
        click.echo(json_line(agent))
        return
    facts = {
        "file": str(agent.path),
        "tools": ", ".join(agent.tools),
        "not here": ", ".join(agent.unknown_tools),
        "isolation": agent.isolation,
        "model": agent.model or "as its parent",
        "effort": agent.effort or "",
        "steps at most": str(agent.max_turns or ""),
        "tokens at most": str(agent.max_tokens or ""),
        "skills": ", ".join(agent.skills),
        "not usable": agent_refusal(config, agent),
    }
    lines = [
        f"{agent.name}: {agent.description}",
        *(f"  {key}: {value}" for key, value in facts.items() if value),
    ]
    click.echo(plain("\n".join([*lines, "", agent.text])))
