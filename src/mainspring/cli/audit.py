"""`audit`: the log of commands."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, get_args

import click
from click.core import ParameterSource

from mainspring.app.operations.audit import (
    MOST_DAYS,
    AuditLine,
    ExportFormat,
    audit_lines,
    export_audit,
    prune_audit,
    verify_audit,
)
from mainspring.cli.config import load_config, load_config_or_defaults
from mainspring.cli.json_output import json_line
from mainspring.cli.options import Amount
from mainspring.cli.output_file import written
from mainspring.errors import UsageError
from mainspring.events.counts import plural
from mainspring.secrets.screen import plain

_DEFAULT = ParameterSource.DEFAULT
_DAY_S = 24 * 3600
_MOST_SHOWN = 1_000_000


def _of_show(command: Callable[..., None]) -> Callable[..., None]:
    """The options that say what is shown, for `audit` and `audit show` alike."""
    for option in reversed(
        (
            click.option(
                "-n",
                "count",
                type=click.IntRange(1, _MOST_SHOWN),
                default=20,
                show_default=True,
                help="Last entries.",
            ),
            click.option("--operation", default="", help="Only these, such as `config` or `config set`."),
            click.option("--user", default="", help="Only commands of this person."),
            click.option("--refused", "is_refused", is_flag=True, help="Only what was refused."),
            click.option("--json", "is_json", is_flag=True, help="Print one entry per line as JSON."),
        )
    ):
        command = option(command)
    return command


@click.group("audit", invoke_without_command=True)
@_of_show
@click.pass_context
def audit_command(context: click.Context, **options: Any) -> None:
    """Show, verify and export the log of commands: who gave which, from where, and what was decided.

    Without a command it shows the last entries.
    """
    if context.invoked_subcommand is None:
        context.invoke(show_command, **options)
    elif given := [name for name in options if context.get_parameter_source(name) != _DEFAULT]:
        raise UsageError(
            f"Options of `audit` itself cannot come before `{context.invoked_subcommand}`.",
            remedy=f"Write them behind it, if it has them ({', '.join(given)}).",
        )


@audit_command.command("show")
@_of_show
def show_command(*, count: int, operation: str, user: str, is_refused: bool, is_json: bool) -> None:
    """Show the last entries."""
    found = asyncio.run(_last(count, operation, user, is_refused=is_refused))
    for line in found:
        click.echo(json_line(line) if is_json else plain(_shown(line)))
    if not found and not is_json:
        click.echo("No entry. Commands that only look at something are not logged.", err=True)


@audit_command.command("export")
@click.option(
    "--format", "form", type=click.Choice(get_args(ExportFormat)), default="jsonl", show_default=True
)
@click.option("--since-days", type=Amount(min=0, max=MOST_DAYS), help="Only entries of so many days.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write to this file, which only you can read.",
)
def export_command(*, form: ExportFormat, since_days: float | None, output: Path | None) -> None:
    """Write entries, one per line: JSON, CEF, or JSON in the shape of OCSF."""
    since_us = 0 if since_days is None else int((time.time() - since_days * _DAY_S) * 1e6)
    with written(output, is_private=True) as to:
        asyncio.run(_export(form, since_us, to))


@audit_command.command("verify")
@click.option(
    "--against",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="An earlier export (jsonl): its entries must be the same here.",
)
@click.option("--json", "is_json", is_flag=True, help="Print JSON.")
def verify_command(*, against: Path | None, is_json: bool) -> None:
    """Follow the hash chain of the log; the exit code is 1 when anything was changed, moved or taken away."""
    found = asyncio.run(verify_audit(load_config_or_defaults(), against))
    if is_json:
        click.echo(json_line(found))
    else:
        for problem in found.problems:
            click.echo(f"not sound: {problem}")
        extent = f", {found.first_seq} to {found.last_seq}" if found.entries else ""
        click.echo(f"{plural(found.entries, 'entry')}{extent}; the last has the hash {found.hash}")
    sys.exit(1 if found.problems else 0)


@audit_command.command("prune")
@click.option(
    "--older-than-days", type=Amount(min=0, max=MOST_DAYS), required=True, help="Drop older entries."
)
def prune_command(*, older_than_days: float) -> None:
    """Drop old entries. A checkpoint keeps the hash that they ended with, so the rest can be verified."""
    found = asyncio.run(prune_audit(load_config(), older_than_days))
    if not found.entries:
        click.echo("No entry is that old.", err=True)
    else:
        dropped = plural(found.entries, "entry")
        click.echo(f"dropped {dropped}, up to {found.until} with the hash {found.hash}", err=True)


async def _last(count: int, operation: str, user: str, *, is_refused: bool) -> list[AuditLine]:
    found: deque[AuditLine] = deque(maxlen=count)
    config = load_config_or_defaults()
    async for line in audit_lines(config, operation=operation, user=user, refused=is_refused):
        found.append(line)
    return list(found)


async def _export(form: ExportFormat, since_us: int, output: BinaryIO) -> None:
    async for line in export_audit(load_config_or_defaults(), form, since_us=since_us):
        output.write(line)


def _shown(line: AuditLine) -> str:
    entry, origin = line.entry, line.entry.origin
    who = origin.user or origin.device or origin.token or "unknown"
    place = "/".join(filter(None, (origin.face, origin.device if origin.user else "", entry.address)))
    about = [entry.session and f"session {entry.session}", entry.event and f"event {entry.event}"]
    told = [f"{name}={value}" for name, value in entry.arguments.items()]
    ruled = f"[{entry.decision}: {entry.rule}]" if entry.rule else f"[{entry.kind}]"
    words = [str(line.seq), line.time, who, f"({place})", entry.operation, *filter(None, about), *told, ruled]
    return " ".join([*map(str, words), entry.reason]).rstrip()
