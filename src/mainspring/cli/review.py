"""`review`: what is wrong with a change, as the agent `review` finds it."""

from __future__ import annotations

import asyncio
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mainspring.cli.config import load_config
from mainspring.cli.json_output import json_line
from mainspring.cli.options import POSITIVE
from mainspring.secrets.screen import plain

if TYPE_CHECKING:
    from mainspring.app.operations.review import ReviewResult


@click.command("review")
@click.argument("target", metavar="[REF|FILE.diff]", default="")
@click.option(
    "-C", "folder", type=click.Path(path_type=Path, exists=True), default=Path(), help="The project."
)
@click.option("--model", default="", help="Model that reviews; by default the usual one.")
@click.option("--max-cost-usd", type=POSITIVE, help="Maximum cost, in US dollars.")
@click.option("--json", "is_json", is_flag=True, help="Print the findings as JSON.")
def review_command(
    target: str, folder: Path, model: str, max_cost_usd: float | None, *, is_json: bool
) -> None:
    """Review what is not committed here, what changed since commit REF, or a diff in a file. The agent
    `review` looks at it with a fresh context and only reads."""
    run = import_module("mainspring.app.operations.review").review
    found: ReviewResult = asyncio.run(
        run(load_config(), folder.resolve(), target, model=model, max_cost_usd=max_cost_usd)
    )
    if is_json:
        click.echo(json_line(found))
        return
    for each in found.findings:
        click.echo(plain(f"{each.file}:{each.line}: {each.severity}: {each.title}"))
        click.echo(plain("\n".join(f"  {line}" for line in (each.why, each.verified) if line)))
    if found.is_cut:
        click.echo("The change is too long: only its beginning was reviewed.", err=True)
    click.echo(plain(found.summary if found.findings else f"No findings. {found.summary}".strip()))
    click.echo(plain(f"(session {found.session}, ${found.cost_usd:.4f})"), err=True)
