"""`cost`: what was spent, from the journals' index, without reading the journals whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import click
import msgspec

from mainspring.approvals.screen import plain
from mainspring.cli.render import money
from mainspring.config import load_config
from mainspring.journal.fold import Purpose, Spent
from mainspring.journal.shelf import Shelf

_KEYS = ("model", "source", "session", "day")
_HEADINGS = ("requests", "input", "cached", "output", "cost")


@click.command("cost")
@click.argument("session", default="")
@click.option("--today", is_flag=True, help="Only what was spent today (UTC).")
@click.option("--by", type=click.Choice(_KEYS), default="model", show_default=True, help="What a row is.")
@click.option("--json", "is_json", is_flag=True, help="Print one row per line as JSON.")
def cost_command(session: str, *, today: bool, by: str, is_json: bool) -> None:
    """Show what SESSION (by default all of them) has spent. What was reserved and never settled, because the
    run was killed, counts as spent."""
    shelf = Shelf(load_config().home)
    wanted = shelf.find(session) if session else ""
    day = datetime.now(UTC).date().isoformat() if today else ""
    totals: dict[str, Spent] = {}
    for each in shelf.spends():
        if wanted and each.id != wanted:
            continue
        if each.problem:
            click.echo(f"{each.id} cannot be read whole, so it may have cost more: {each.problem}", err=True)
        for purpose, spent in each.spent.items():
            if not day or purpose.day == day:
                key = _key(by, each.id, purpose)
                totals[key] = totals.get(key, Spent()).plus(spent)
    _print(by, totals, is_json=is_json)


def _key(by: str, session: str, purpose: Purpose) -> str:
    match by:
        case "session":
            return session
        case "day":
            return purpose.day
        case "source":
            return purpose.source
        case _:
            return purpose.model


def _print(by: str, totals: dict[str, Spent], *, is_json: bool) -> None:
    rows = sorted(totals.items(), key=lambda row: row[0] if by == "day" else (-row[1].usd, row[0]))
    if is_json:
        for key, spent in rows:
            click.echo(msgspec.json.encode({by: key, **_fields(spent)}))
        return
    if not rows:
        click.echo("Nothing was spent.", err=True)
        return
    total = Spent()
    for spent in totals.values():
        total = total.plus(spent)
    lines = [(by, *_HEADINGS), *((plain(key), *_cells(spent)) for key, spent in rows)]
    if len(rows) > 1:
        lines.append(("total", *_cells(total)))
    for line in _aligned(lines):
        click.echo(line)
    if total.unsettled:
        held = f"{total.unsettled} ({total.held_tokens:,} tokens)"
        click.echo(f"Requests reserved and not settled, which count as spent: {held}.", err=True)
    if total.unpriced:
        click.echo(f"Requests to models of unknown price, which count as $0: {total.unpriced}.", err=True)


def _fields(spent: Spent) -> dict[str, float]:
    return {name: getattr(spent, name) for name in Spent.__struct_fields__}


def _cells(spent: Spent) -> tuple[str, ...]:
    counts = (spent.requests, spent.input_tokens, spent.cached_tokens, spent.output_tokens)
    return (*(f"{count:,}" for count in counts), money(spent.usd))


def _aligned(lines: Sequence[tuple[str, ...]]) -> Iterable[str]:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for first, *rest in lines:
        cells = (cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))
        yield "  ".join((first.ljust(widths[0]), *cells))
