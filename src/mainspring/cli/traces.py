"""`traces`: what sessions did as traces of OpenTelemetry, written to a file or sent to a collector."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import BinaryIO

import click

from mainspring.app.operations.traces import TracesWanted, export_traces
from mainspring.cli.config import load_config
from mainspring.cli.output_file import written
from mainspring.errors import UsageError
from mainspring.events.counts import plural


@click.group("traces")
def traces_command() -> None:
    """Traces for OpenTelemetry, made from the journals of sessions. The daemon sends them by itself when
    `[telemetry] otlp_url` names a collector."""


@traces_command.command("export")
@click.argument("sessions", nargs=-1)
@click.option("--since", default="", metavar="DAY", help="All sessions that changed since, like 2026-01-31.")
@click.option("--to", "url", default="", metavar="URL", help="Send to this collector: http://localhost:4318.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write to this file, which only you can read.",
)
@click.option("--content", "has_content", is_flag=True, help="With texts: messages, arguments, results.")
def export_command(
    *, sessions: tuple[str, ...], since: str, url: str, output: Path | None, has_content: bool
) -> None:
    """Export SESSIONS, with the agents that worked for them, as OTLP JSON: a request on each line.

    Doing it again gives the same ids. Without --to and -o it is printed, and nothing leaves this machine.
    """
    if sessions and since:
        raise UsageError("--since cannot be combined with sessions.", remedy="Leave one of them out.")
    wanted = TracesWanted(sessions=sessions, since=since, has_content=has_content)
    is_written = output is not None or not url
    with written(output, is_private=True) as to:
        write = partial(_write_line, to) if is_written else None
        done = asyncio.run(export_traces(load_config(), wanted, to=url, write=write))
    for each in done.unreadable:
        click.echo(f"{each.session} cannot be read whole: {each.problem}", err=True)
    for said in done.said:
        click.echo(f"the collector says: {said}", err=True)
    click.echo(f"{plural(done.spans, 'span')} of {plural(done.sessions, 'session')}", err=True)
    if done.unreadable or done.said:
        raise SystemExit(1)


def _write_line(to: BinaryIO, line: bytes) -> None:
    to.write(line + b"\n")
