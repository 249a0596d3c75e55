"""`land`: what becomes of the git branch that a session works on."""

from __future__ import annotations

import asyncio

import click

from mainspring.app.operations import branches
from mainspring.app.operations.branches import HowToLand
from mainspring.app.operations.risk import risk_lines
from mainspring.cli.config import NO_GATEWAY, load_config
from mainspring.cli.json_output import json_line
from mainspring.documents.lines import as_text
from mainspring.secrets.screen import plain


@click.command("land")
@click.argument("session")
@click.option("--merge", "given", flag_value="merge", multiple=True, help="Keep its commits (the default).")
@click.option("--squash", "given", flag_value="squash", multiple=True, help="Make one commit of them.")
@click.option(
    "--discard", "given", flag_value="discard", multiple=True, help="Delete the branch and restore the files."
)
@click.option("--yes", "is_agreed", is_flag=True, help="Agree to what it changes, whatever its risk.")
@click.option("--json", "is_json", is_flag=True, help="Print what landed and its risk as JSON.")
@NO_GATEWAY
def land_command(session: str, given: tuple[HowToLand, ...], *, is_agreed: bool, is_json: bool) -> None:
    """Merge the branch of SESSION into the branch it was started from, or discard it. Before a risky change
    or one of sensitive files lands, you are asked; where nobody can be, the exit code is 3."""
    chosen = dict.fromkeys(given)
    if len(chosen) > 1:
        flags = " and ".join(f"--{how}" for how in chosen)
        raise click.UsageError(f"{flags} cannot be given together: choose one of them.")
    how: HowToLand = given[0] if given else "merge"
    landed = _landed(session, how, is_agreed=is_agreed)
    if is_json:
        click.echo(json_line(landed))
        return
    if landed.risk:
        click.echo(plain("\n".join(risk_lines(landed.risk.risk))), err=True)
    for left in landed.left:
        click.echo(plain(f"! not put back: {left}"), err=True)
    click.echo(as_text(landed.moved))
    if how != "merge":
        again = f"git branch {landed.moved.branch} {landed.tip[:12]}"
        click.echo(f"To restore the branch: {again}", err=True)


def _landed(session: str, how: HowToLand, *, is_agreed: bool) -> branches.Landed:
    """Lands a branch; where its risk needs a person, and one is there, they are asked."""
    config = load_config()
    try:
        return asyncio.run(branches.land(config, session, how, is_agreed=is_agreed))
    except branches.NotAgreed as error:
        click.echo(plain("\n".join(risk_lines(error.told.risk))), err=True)
        question = f"{error.told.why_ask[:1].upper()}{error.told.why_ask[1:]}. Land it?"
        if not config.is_attended or not click.confirm(plain(question), err=True):
            raise
    return asyncio.run(branches.land(config, session, how, is_agreed=True))
