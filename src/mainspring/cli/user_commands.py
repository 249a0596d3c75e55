"""`commands`: what people wrote to be said by name, here and for all their work."""

from __future__ import annotations

from pathlib import Path

import click

from mainspring.app.operations.trust import command_subject, entry_of, list_user_commands
from mainspring.cli.config import load_config_or_defaults
from mainspring.cli.json_output import json_line
from mainspring.secrets.screen import plain


@click.command("commands")
@click.option("-C", "folder", type=click.Path(path_type=Path), default=Path(), help="The workspace.")
@click.option("--json", "is_json", is_flag=True, help="Print one command per line as JSON.")
def commands_command(folder: Path, *, is_json: bool) -> None:
    """List the commands that you or a project wrote as Markdown files, and those that cannot be used. Each is
    given to an agent by its name: `mainspring run "/NAME ARGUMENTS"`, or /NAME in a chat."""
    config = load_config_or_defaults()
    commands, broken = list_user_commands(config, folder.expanduser().resolve())
    for each in commands.values():
        subject = command_subject(each)
        waits = (
            "  (not approved: mainspring trust add)"
            if subject and entry_of(config, subject).state != "trusted"
            else ""
        )
        line = f"/{' '.join(filter(None, (each.name, each.hint)))}: {each.description}  ({each.path}){waits}"
        click.echo(json_line(each) if is_json else plain(line))
    for each in broken:
        click.echo(
            json_line(each) if is_json else plain(f"not used: {each.path}: {each.problem}"), err=not is_json
        )
    if not (commands or broken or is_json):
        places = f".mainspring/commands or .claude/commands of a project, or in {config.folder}/commands"
        click.echo(f"No commands: they are Markdown files in {plain(places)}.", err=True)
