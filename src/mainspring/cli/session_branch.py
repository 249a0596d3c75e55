"""`--branch`: work on a git branch of the session's own. What works with git is loaded when there is one."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from mainspring.cli.config import load_config
from mainspring.errors import UsageError
from mainspring.events import Event
from mainspring.secrets.screen import plain
from mainspring.session.session import Session


async def begin_branch(folder: Path, goal: str) -> Sequence[Event]:
    """Starts a branch for the goal, or says why the work happens on the user's own."""
    try:
        return [await _branches().begin_branch(load_config(), folder, goal)]
    except UsageError as error:
        click.echo(plain(f"No branch was made: {error.message}"), err=True)
        return []


async def commit_branch(session: Session) -> None:
    """Commits what the session did, when it has a branch; a refusal is said and loses nothing."""
    if await session.journal.last("BranchMoved") is None:
        return
    try:
        made = await _branches().commit_branch(load_config(), session)
    except UsageError as error:
        click.echo(plain(f"Nothing was committed: {error.message}"), err=True)
        return
    if made is not None:
        click.echo(import_module("mainspring.documents.lines").as_text(made), err=True)


def _branches() -> Any:
    return import_module("mainspring.app.operations.branches")
