"""`sessions open-tasks`: what was planned and never finished."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from mainspring.app.operations.open_tasks import OpenPlan, open_tasks
from mainspring.cli.config import load_config_or_defaults
from mainspring.cli.json_output import json_line
from mainspring.documents.figures import when
from mainspring.secrets.screen import plain

_TITLE = 60
_MARKS = {"open": "[ ]", "doing": "[>]", "done": "[x]"}


@click.command("open-tasks")
@click.option(
    "-C", "folder", type=click.Path(path_type=Path, exists=True), default=Path(), help="The project."
)
@click.option("--all", "is_everywhere", is_flag=True, help="Of all projects.")
@click.option("--json", "is_json", is_flag=True, help="Print it as JSON.")
def open_tasks_command(folder: Path, *, is_everywhere: bool, is_json: bool) -> None:
    """List what the plans of this project's sessions left unfinished, the newest session first."""
    found = asyncio.run(open_tasks(load_config_or_defaults(), folder, is_everywhere=is_everywhere))
    lines = [json_line(found)] if is_json else [line for each in found for line in _lines(each)]
    for line in lines or ["Nothing is open: every plan of this project is done."]:
        click.echo(line if is_json else plain(line))


def _lines(plan: OpenPlan) -> list[str]:
    head = f"{plan.session}  {when(plan.updated_us)}  {plan.state}  {plan.title[:_TITLE]}"
    return [head, *(f"  {_MARKS[item.progress]} {item.text}" for item in plan.items)]
