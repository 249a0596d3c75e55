"""`goal`: its commands, and the list of goals. What works on goals is loaded once a command wants it, so that
the list does not wait for engines and models.
"""

from __future__ import annotations

import asyncio
from importlib import import_module

import click

from mainspring.app.operations.goal_list import graded_goals, state_of
from mainspring.cli.config import load_config_or_defaults
from mainspring.cli.json_output import json_line
from mainspring.documents.figures import money, when
from mainspring.events.counts import plural
from mainspring.secrets.screen import plain


class _GoalCommands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *_others().list_commands(ctx)])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, cmd_name) or _others().get_command(ctx, cmd_name)


def _others() -> click.Group:
    return import_module("mainspring.cli.goal_commands").goal_command


@click.group("goal", cls=_GoalCommands)
def goal_command() -> None:
    """Work towards a goal for hours or days: within limits, on record, with a report."""


@goal_command.command("list")
@click.option("--json", "is_json", is_flag=True, help="Print one goal per line as JSON.")
def list_command(*, is_json: bool) -> None:
    """List goals, the most recent first."""
    rows = asyncio.run(graded_goals(load_config_or_defaults()))
    if not rows and not is_json:
        click.echo('No goals yet. Begin one: mainspring goal start "…"', err=True)
    for row in rows:
        if is_json:
            click.echo(json_line(row))
        else:
            iterations = plural(row.iterations, "iteration")
            click.echo(
                f"{row.id}  {when(row.updated_us)}  {state_of(row):<18}  {iterations:>14}"
                f"  {money(row.cost_usd):>9}  {plain(row.goal)}"
            )
