"""`review`: what is wrong with a change, as the agent `review` finds it."""

from __future__ import annotations

import asyncio
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from mainspring import __version__
from mainspring.cli.config import NO_GATEWAY, load_config
from mainspring.cli.json_output import json_line
from mainspring.cli.options import POSITIVE
from mainspring.events import Severity
from mainspring.events.counts import plural
from mainspring.secrets.screen import plain

if TYPE_CHECKING:
    from mainspring.app.operations.review import ReviewResult

_INCOMPLETE = 3


@click.command("review")
@click.argument("target", metavar="[REF|FILE.diff]", default="")
@click.option(
    "-C", "folder", type=click.Path(path_type=Path, exists=True), default=Path(), help="The project."
)
@click.option("--model", default="", help="Model that reviews; by default the usual one.")
@click.option("--max-cost-usd", type=POSITIVE, help="Maximum cost, in US dollars.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "sarif"]),
    default="text",
    show_default=True,
    help="How the findings are printed; SARIF is version 2.1.0.",
)
@click.option("--json", "is_json", is_flag=True, help="The same as --format json.")
@click.option("--risk", "is_risk", is_flag=True, help="Only its risk, with reasons; no model is asked.")
@click.option(
    "--fail-on",
    type=click.Choice(["high", "medium", "low", "never"]),
    default="low",
    show_default=True,
    help="The least severity of a finding for the exit code 1.",
)
@NO_GATEWAY
def review_command(
    target: str,
    folder: Path,
    model: str,
    max_cost_usd: float | None,
    form: Literal["text", "json", "sarif"],
    fail_on: Severity | Literal["never"],
    *,
    is_json: bool,
    is_risk: bool,
) -> None:
    """Review what is not committed here, what changed since commit REF, or a diff in a file. The agent
    `review` looks at it with a fresh context and only reads. Each finding is verified before it is told: its
    file, its line and the code that it quotes must be there.

    The exit code is 0 without findings, 1 with some, 3 when the change was not reviewed as a whole."""
    if is_risk:
        _print_risk(folder.resolve(), target, is_json=is_json or form == "json")
        return
    run = import_module("mainspring.app.operations.review").review
    found: ReviewResult = asyncio.run(
        run(load_config(), folder.resolve(), target, model=model, max_cost_usd=max_cost_usd)
    )
    if is_json or form == "json":
        click.echo(json_line(found))
    elif form == "sarif":
        sarif_of = import_module("mainspring.documents.sarif").sarif_of
        click.echo(
            json_line(
                sarif_of(
                    found.findings,
                    version=__version__,
                    unverified=found.unverified,
                    not_reviewed=found.not_reviewed,
                )
            )
        )
    else:
        _print_text(found)
    if fail_on != "never" and found.at_least(fail_on):
        raise SystemExit(1)
    if found.not_reviewed:
        raise SystemExit(_INCOMPLETE)


def _print_risk(folder: Path, target: str, *, is_json: bool) -> None:
    risk = import_module("mainspring.app.operations.risk")
    told = asyncio.run(risk.risk_at(load_config(), folder, target))
    click.echo(json_line(told) if is_json else plain("\n".join(risk.risk_lines(told.risk))))
    if told.why_ask and not is_json:
        click.echo(plain(f"A person is asked before such a change of a session lands: {told.why_ask}."))


def _print_text(found: ReviewResult) -> None:
    finding_lines = import_module("mainspring.documents.review_lines").finding_lines
    for number, each in enumerate(found.findings, 1):
        click.echo(plain("\n".join(finding_lines(each, number))))
    if found.unverified:
        click.echo(f"Not verified, so perhaps not there ({len(found.unverified)}):")
        for each in found.unverified:
            click.echo(plain("\n".join(f"  {line}" for line in finding_lines(each))))
    click.echo(plain(found.summary if found.findings else f"No findings. {found.summary}".strip()))
    if found.confidence is not None:
        why = f": {'; '.join(found.reasons)}" if found.reasons else ""
        said = f"The reviewer's own confidence, which is no evidence: {found.confidence} of 100{why}"
        click.echo(plain(said))
    if found.risk is not None:
        risk_lines = import_module("mainspring.app.operations.risk").risk_lines
        click.echo(plain("\n".join(risk_lines(found.risk))))
    for each in found.not_reviewed:
        click.echo(plain(f"not reviewed: {each}"), err=True)
    count = plural(len(found.findings), "finding")
    click.echo(plain(f"({count}, session {found.session}, ${found.cost_usd:.4f})"), err=True)
