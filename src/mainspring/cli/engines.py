"""`engines`: who can take turns here, where their programs are, and which versions they say they have."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from mainspring.app.operations.engines import EngineStatus, list_engines
from mainspring.cli.config import load_config_or_defaults
from mainspring.cli.json_output import json_line
from mainspring.secrets.screen import plain


@click.command("engines")
@click.option("--json", "is_json", is_flag=True, help="Print one engine per line as JSON.")
def engines_command(*, is_json: bool) -> None:
    """List who can take turns (`--engine NAME`), whether they are installed, and their versions."""
    for listed in asyncio.run(list_engines(load_config_or_defaults(), Path.cwd())):
        click.echo(json_line(listed) if is_json else plain(_line(listed)))
    if not is_json:
        click.echo("acp:COMMAND     any agent that speaks the Agent Client Protocol")
        click.echo("exec:COMMAND    any command that reads a prompt and prints text")


def _line(listed: EngineStatus) -> str:
    head = f"{listed.engine:<15} {listed.title:<14}"
    if not listed.is_installed:
        return f"{head} not installed. {listed.remedy}"
    return f"{head} {listed.version or 'version unknown':<24} {listed.path}".rstrip()
