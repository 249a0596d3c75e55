"""`--branch` and `land`: work on a git branch of the session's own, and what becomes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import click

from mainspring.app.operations import branches
from mainspring.app.operations.branches import HowToLand
from mainspring.cli.config import load_config
from mainspring.documents.lines import as_text
from mainspring.errors import UsageError
from mainspring.events import Event
from mainspring.secrets.screen import plain
from mainspring.session.session import Session


async def begin_branch(folder: Path, goal: str) -> Sequence[Event]:
    """Starts a branch for the goal, or says why the work happens on the user's own."""
    try:
        return [await branches.begin_branch(load_config(), folder, goal)]
    except UsageError as error:
        click.echo(plain(f"No branch was made: {error.message}"), err=True)
        return []


async def commit_branch(session: Session) -> None:
    """Commits what the session did, when it has a branch; a refusal is said and loses nothing."""
    try:
        made = await branches.commit_branch(load_config(), session)
    except UsageError as error:
        click.echo(plain(f"Nothing was committed: {error.message}"), err=True)
        return
    if made is not None:
        click.echo(as_text(made), err=True)


@click.command("land")
@click.argument("session")
@click.option("--merge", "given", flag_value="merge", multiple=True, help="Keep its commits (the default).")
@click.option("--squash", "given", flag_value="squash", multiple=True, help="Make one commit of them.")
@click.option(
    "--discard", "given", flag_value="discard", multiple=True, help="Delete the branch and restore the files."
)
def land_command(session: str, given: tuple[HowToLand, ...]) -> None:
    """Merge the branch of SESSION into the branch it was started from, or discard it."""
    chosen = dict.fromkeys(given)
    if len(chosen) > 1:
        flags = " and ".join(f"--{how}" for how in chosen)
        raise click.UsageError(f"{flags} cannot be given together: choose one of them.")
    how: HowToLand = given[0] if given else "merge"
    landed = asyncio.run(branches.land(load_config(), session, how))
    for left in landed.left:
        click.echo(plain(f"! not put back: {left}"), err=True)
    click.echo(as_text(landed.moved))
    if how != "merge":
        again = f"git branch {landed.moved.branch} {landed.tip[:12]}"
        click.echo(f"To restore the branch: {again}", err=True)
