"""`ps` and `stop`: the background processes of all sessions, also of those that nobody runs now; `stop` also
ends a running turn."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from mainspring.app.operations.messages import stop
from mainspring.app.operations.processes import LiveProcess, list_processes, stop_process
from mainspring.cli.config import load_config, load_config_or_defaults
from mainspring.cli.json_output import json_line
from mainspring.cli.server_option import with_server
from mainspring.documents.figures import when
from mainspring.secrets.screen import plain

_LINE = 60


@click.command("ps")
@click.argument("session", default="")
@click.option("--json", "is_json", is_flag=True, help="Print one process per line as JSON.")
def ps_command(session: str, *, is_json: bool) -> None:
    """List the live background processes of SESSION, or of all sessions, with what outside engines left
    running for a goal (`goal stop` ends that)."""
    rows = asyncio.run(list_processes(load_config_or_defaults(), session))
    for row in rows:
        click.echo(json_line(_fields(row)) if is_json else _line(row))
    if not rows and not is_json:
        click.echo("No background processes.", err=True)


@click.command("stop")
@click.argument("session")
@click.argument("handle", default="")
@with_server("stop")
def stop_command(session: str, handle: str) -> None:
    """End the running turn of SESSION, or its background process HANDLE with all that it started.

    A turn that was stopped can be continued with `mainspring resume`; `mainspring goal stop` ends a goal.
    """
    if not handle:
        done = asyncio.run(stop(session, config=load_config()))
        click.echo(f"stopped: {done.owner}. Continue it with: mainspring resume {done.session}", err=True)
        return
    stopped = asyncio.run(stop_process(load_config(), session, handle))
    said = "stopped" if stopped.was_alive else "had ended already"
    code = "outcome unknown" if stopped.exit_code is None else f"exit code {stopped.exit_code}"
    click.echo(f"{handle} {said}: {code}")
    if stopped.set_aside:
        names = plain(", ".join(stopped.set_aside))
        click.echo(f"Protected, so it was set aside or put back: {names}", err=True)


def _fields(row: LiveProcess) -> dict[str, Any]:
    return {
        "handle": row.handle,
        "session": row.session,
        "pid": row.pid,
        "since": when(row.started_us),
        "state": row.state,
        "stays": row.stays,
        "command": row.command,
    }


def _line(row: LiveProcess) -> str:
    stays = " (stays)" if row.stays else ""
    command = plain(row.command.splitlines()[0] if row.command else "?")[:_LINE]
    since, handle = when(row.started_us), row.handle or "-"
    return f"{row.session}  {handle:<4} {row.pid:>8}  {since}  {row.state:<7}  {command}{stays}"
