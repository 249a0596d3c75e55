"""`artifacts`: which files a goal made, by content, iteration and the command that made them."""

from __future__ import annotations

import asyncio

import click

from mainspring.app.operations.artifacts import Artifact, artifacts_of
from mainspring.cli.config import load_config_or_defaults
from mainspring.cli.json_output import json_line
from mainspring.documents.lines import when
from mainspring.secrets.screen import plain_name

_SHOWN = 100


@click.command("artifacts")
@click.argument("session", default="")
@click.option("--json", "is_json", is_flag=True, help="Print one artifact per line as JSON.")
@click.option("--all", "is_all", is_flag=True, help="Also what was there before, and what is gone.")
def artifacts_command(session: str, *, is_json: bool, is_all: bool) -> None:
    """List what the goal of SESSION (by default the newest) made: path, size, hash, iteration, command."""
    found = asyncio.run(artifacts_of(load_config_or_defaults(), session))
    rows = found.all if is_all else found.made
    shown = rows if is_all or is_json else rows[:_SHOWN]
    for row in shown:
        click.echo(json_line(row) if is_json else plain_name(_line(row)))
    if len(shown) < len(rows):
        click.echo(f"{len(rows) - len(shown):,} more: mainspring artifacts {found.session} --all", err=True)
    if not rows and not is_json:
        click.echo(f"Session {found.session} has made no artifacts.", err=True)


def _line(row: Artifact) -> str:
    sha256 = row.sha256[:12] or "-"
    gone = " (gone)" if row.is_deleted else ""
    moved = f" (was {row.renamed_from})" if row.renamed_from else ""
    since = when(row.mtime_us) if row.mtime_us else "-"
    line = f"{row.path}{moved}{gone}  {row.size:,} B  {sha256}  {since}  iteration {row.iteration}"
    return f"{line}  {row.made_by}".rstrip()
