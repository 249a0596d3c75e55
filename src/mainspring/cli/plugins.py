"""`plugins`: what other people's packages add to mainspring."""

from __future__ import annotations

import click

from mainspring.app.operations.plugins import PluginEntry, list_plugins
from mainspring.cli.config import load_config_or_defaults
from mainspring.cli.json_output import json_line
from mainspring.secrets.screen import plain


@click.group("plugins")
def plugins_command() -> None:
    """What packages add to mainspring. A plugin is code that runs in mainspring itself, with your rights."""


@plugins_command.command("list")
@click.option("--json", "is_json", is_flag=True, help="Print one plugin per line as JSON.")
def list_command(*, is_json: bool) -> None:
    """List the plugins, what each brings, and those that cannot be used."""
    found = list_plugins(load_config_or_defaults())
    for each in found:
        click.echo(json_line(each) if is_json else plain(_line(each)))
    if not found and not is_json:
        click.echo("No plugins are installed.", err=True)


def _line(entry: PluginEntry) -> str:
    head = " ".join(filter(None, (entry.name, entry.version)))
    return f"{head}  {entry.state}  {entry.problem or ', '.join(entry.brings) or 'nothing'}  ({entry.source})"
