"""`usage`: who spent what, with exports."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, cast

import click

from mainspring.app.operations.usage import KEYS, UsageFilter, UsageKey, UsageRow, as_csv, usage
from mainspring.cli.config import load_config_or_defaults
from mainspring.cli.json_output import json_line
from mainspring.cli.output_file import written
from mainspring.documents.figures import money
from mainspring.errors import UsageError
from mainspring.secrets.screen import plain

_HEADINGS = ("sessions", "requests", "input", "cached", "output", "cost")


@click.command("usage")
@click.option(
    "--by",
    "names",
    default="person",
    show_default=True,
    help="Keys of a row, with commas between: person, project, model, day, session.",
)
@click.option("--since", default="", metavar="DAY", help="From this day on, like 2026-01-31 (local time).")
@click.option("--until", default="", metavar="DAY", help="Up to this day, and with it.")
@click.option("--person", default="", help="Only what followed the word of this person.")
@click.option("--project", default="", metavar="FOLDER", help="Only work in this folder, or below it.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json", "csv"]),
    default="table",
    show_default=True,
    help="json: a row on each line.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write to this file, which only you can read.",
)
def usage_command(
    *,
    names: str,
    since: str,
    until: str,
    person: str,
    project: str,
    form: Literal["table", "json", "csv"],
    output: Path | None,
) -> None:
    """Show who spent what, over all sessions of this machine, or of the database that machines share.

    A spend belongs to the person who said last what it followed. What was reserved and never settled, because
    a run was killed, counts as spent.
    """
    by = _keys(names)
    folder = str(Path(project).expanduser().resolve()) if project else ""
    wanted = UsageFilter(since=since, until=until, person=person, project=folder)
    found = asyncio.run(usage(load_config_or_defaults(), by, wanted))
    for each in found.unreadable:
        click.echo(f"{each.session} cannot be read whole, so it may have cost more: {each.problem}", err=True)
    match form:
        case "json":
            text = "".join(f"{json_line(row.flat())}\n" for row in found.rows)
        case "csv":
            text = as_csv(by, found.rows)
        case "table":
            text = _table(by, found.rows) if found.rows else ""
    with written(output, is_private=True) as to:
        to.write(text.encode())
    if not found.rows:
        click.echo("Nothing was spent.", err=True)


def _keys(names: str) -> tuple[UsageKey, ...]:
    given = tuple(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
    if not given or not set(given) <= set(KEYS):
        raise UsageError(f"--by {names!r} has something else than keys.", remedy=f"Keys: {', '.join(KEYS)}.")
    return cast("tuple[UsageKey, ...]", given)


def _table(by: Sequence[UsageKey], rows: Sequence[UsageRow]) -> str:
    lines = [(*by, *_HEADINGS), *(_cells(row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    aligned = (
        "  ".join(
            cell.ljust(width) if number < len(by) else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )
    return "".join(f"{line.rstrip()}\n" for line in aligned)


def _cells(row: UsageRow) -> tuple[str, ...]:
    spent = row.spent
    counts = (row.sessions, spent.requests, spent.input_tokens, spent.cached_tokens, spent.output_tokens)
    names = (plain(value) or "-" for value in row.keys.values())
    return (*names, *(f"{count:,}" for count in counts), money(spent.usd))
