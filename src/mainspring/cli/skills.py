"""`skills`: what the agent can read up on in a folder."""

from __future__ import annotations

from pathlib import Path

import click

from mainspring.app.prompt import skills_of
from mainspring.cli.config import load_config_or_defaults
from mainspring.cli.json_output import json_line
from mainspring.secrets.screen import plain


@click.command("skills")
@click.option("-C", "folder", type=click.Path(path_type=Path), default=Path(), help="The workspace.")
@click.option("--json", "is_json", is_flag=True, help="Print one skill per line as JSON.")
def skills_command(folder: Path, *, is_json: bool) -> None:
    """List the skills for work in this folder, and those that cannot be used."""
    skills, broken = skills_of(folder.expanduser().resolve(), load_config_or_defaults())
    for each in skills:
        click.echo(json_line(each) if is_json else plain(f"{each.name}: {each.description}  ({each.path})"))
    for each in broken:
        if is_json:
            click.echo(json_line(each))
        else:
            click.echo(plain(f"not used: {each.path}: {each.problem}"), err=True)
    if not (skills or broken or is_json):
        click.echo("No skills: they lie in skills/ or .agents/skills/ of a project or your home.", err=True)
