"""`execs`: commands that were run without an agent, from the journals, without an event loop."""

from __future__ import annotations

import asyncio
import shlex
import sys
from typing import Any

import click

from mainspring.app.operations.commands import CommandRecord, list_commands, load_command, load_output
from mainspring.cli.config import load_config_or_defaults
from mainspring.cli.json_output import json_line
from mainspring.documents.figures import when
from mainspring.secrets.screen import plain

_LINE = 60


@click.group("execs", invoke_without_command=True)
@click.option("--json", "is_json", is_flag=True, help="Print one command per line as JSON.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="How many to list.")
@click.pass_context
def execs_command(context: click.Context, *, is_json: bool, limit: int) -> None:
    """List the commands that were run without an agent, the newest first."""
    if context.invoked_subcommand is not None:
        return
    commands = asyncio.run(list_commands(load_config_or_defaults(), limit=limit))
    for command in commands:
        click.echo(json_line(as_row(command)) if is_json else _line(command))
    if not commands and not is_json:
        click.echo("No commands yet. Run one: mainspring exec -- COMMAND", err=True)


@execs_command.command("show")
@click.argument("id")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON object.")
def show_command(id: str, *, is_json: bool) -> None:  # noqa: A002
    """Show one command with all of its output."""
    config = load_config_or_defaults()
    command = asyncio.run(load_command(config, id))
    stdout, stderr = (data.decode("utf-8", "replace") for data in asyncio.run(load_output(config, command)))
    if is_json:
        click.echo(json_line({**as_row(command), "stdout": stdout, "stderr": stderr}))
    else:
        _show(command, stdout, stderr)


def as_row(command: CommandRecord) -> dict[str, Any]:
    return {
        "id": command.id,
        "state": command.state,
        "argv": command.argv,
        "cwd": command.cwd,
        "template": command.template,
        "label": command.label,
        "start": when(command.started_us),
        "end": when(command.ended_us) if command.ended_us else None,
        "exit_code": command.exit_code,
        "bytes": command.output_bytes,
        "reason": command.reason,
        "stdout_sha256": command.stdout.sha256 if command.stdout else None,
        "stderr_sha256": command.stderr.sha256 if command.stderr else None,
    }


def _line(ran: CommandRecord) -> str:
    code = "" if ran.exit_code is None else ran.exit_code
    line = plain(shlex.join(ran.argv))[:_LINE]
    return f"{ran.id}  {when(ran.started_us)}  {ran.state:<9} {code:>4} {ran.output_bytes:>11,}  {line}"


def _show(command: CommandRecord, stdout: str, stderr: str) -> None:
    for name, value in as_row(command).items():
        shown = shlex.join(command.argv) if name == "argv" else value
        if shown not in (None, ""):
            click.echo(plain(f"{name}: {shown}"))
    for name, blob, text in (("stdout", command.stdout, stdout), ("stderr", command.stderr, stderr)):
        if blob is not None:
            click.echo(f"--- {name}")
            click.echo(plain(text), nl=False)
    sys.stdout.flush()
