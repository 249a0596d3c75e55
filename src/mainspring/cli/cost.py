"""`cost`: what was spent."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterable, Sequence
from textwrap import wrap
from typing import get_args

import click
import msgspec

from mainspring.app.operations.cost import CostKey, Costs, Spent, costs
from mainspring.app.operations.cost import today as this_day
from mainspring.cli.config import load_config_or_defaults
from mainspring.cli.json_output import json_line
from mainspring.documents.figures import money
from mainspring.secrets.screen import plain

_WIDE = 10_000
_HEADINGS = ("requests", "input", "cached", "output", "cost", "saved")


@click.command("cost")
@click.argument("session", default="")
@click.option("--today", is_flag=True, help="Only what was spent today (local time).")
@click.option(
    "--by",
    type=click.Choice(get_args(CostKey)),
    default="model",
    show_default=True,
    help="Group rows by this.",
)
@click.option("--json", "is_json", is_flag=True, help="Print one row per line as JSON.")
def cost_command(session: str, *, today: bool, by: CostKey, is_json: bool) -> None:
    """Show what SESSION (by default all of them) has spent. What was reserved and never settled, because the
    run was killed, counts as spent."""
    day = this_day() if today else ""
    found = asyncio.run(costs(load_config_or_defaults(), session=session, by=by, day=day))
    for each in found.unreadable:
        click.echo(f"{each.session} cannot be read whole, so it may have cost more: {each.problem}", err=True)
    if is_json:
        for row in found.rows:
            click.echo(json_line({by: row.key, **msgspec.structs.asdict(row.spent)}))
    elif found.rows:
        _print(by, found)
    else:
        click.echo("Nothing was spent.", err=True)


def _print(by: str, found: Costs) -> None:
    total = found.total
    lines = [(by, *_HEADINGS), *((plain(row.key), *_cells(row.spent)) for row in found.rows)]
    if len(found.rows) > 1:
        lines.append(("total", *_cells(total)))
    for line in _aligned(lines, shutil.get_terminal_size((_WIDE, 0)).columns):
        click.echo(line)
    if total.unsettled:
        held = f"{total.unsettled} ({total.held_tokens:,} tokens)"
        click.echo(f"Requests reserved and not settled, which count as spent: {held}.", err=True)
    if total.unpriced:
        click.echo(f"Requests to models of unknown price, which count as $0: {total.unpriced}.", err=True)


def _cells(spent: Spent) -> tuple[str, ...]:
    counts = (spent.requests, spent.input_tokens, spent.cached_tokens, spent.output_tokens)
    return (*(f"{count:,}" for count in counts), money(spent.usd), _saved(spent))


def _saved(spent: Spent) -> str:
    """What the providers' caches saved; a request that only filled one costs more than it would have."""
    return f"-{money(-spent.saved_usd)}" if spent.saved_usd < 0 else money(spent.saved_usd)


def _aligned(lines: Sequence[tuple[str, ...]], columns: int) -> Iterable[str]:
    """A table; where that is too wide, each row below its name, and with the words of the head where even
    its numbers are."""
    names, *numbers = [max(map(len, column)) for column in zip(*lines, strict=True)]
    is_wide, is_wider = names + sum(numbers) + 2 * len(numbers) > columns, sum(numbers) + 14 > columns
    for number, (name, *cells) in enumerate(lines):
        row = "  ".join(cell.rjust(width) for cell, width in zip(cells, numbers, strict=True))
        if not is_wide:
            yield f"{name.ljust(names)}  {row}"
            continue
        if number > 0:
            yield name
        if not is_wider:
            yield f"  {row}"
        elif number > 0:
            facts = ", ".join(f"{head} {cell}" for head, cell in zip(lines[0][1:], cells, strict=True))
            yield from wrap(facts, columns, initial_indent="  ", subsequent_indent="  ")
