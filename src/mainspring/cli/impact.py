"""`impact`: what a change reaches, before anybody runs anything."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from mainspring.app.operations.impact import impact_lines, look_at_impact
from mainspring.cli.config import load_config_or_defaults
from mainspring.cli.json_output import json_line
from mainspring.secrets.screen import plain


@click.command("impact")
@click.argument("paths", nargs=-1)
@click.option("--since", default="", metavar="REF", help="Compare with this commit instead of HEAD.")
@click.option("--json", "is_json", is_flag=True, help="Print it as JSON.")
def impact_command(paths: tuple[str, ...], since: str, *, is_json: bool) -> None:
    """Show what the changed source files of this repository, or PATHS, reach: public API with a hint for the
    version, callers, importers and tests. Nothing is run."""
    found = asyncio.run(look_at_impact(load_config_or_defaults(), Path.cwd(), paths, since))
    for line in [json_line(found)] if is_json else impact_lines(found):
        click.echo(line if is_json else plain(line))
