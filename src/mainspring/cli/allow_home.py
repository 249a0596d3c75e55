"""`--allow-home`: whether an agent may work in a folder that holds the home of whoever asks."""

from __future__ import annotations

import click

from mainspring.app.workspaces import AllowHome
from mainspring.cli.streams import is_person_there
from mainspring.secrets.screen import plain


def ask_home(holds: str) -> bool:
    """Asks the person at the terminal whether to work in a folder that holds their home, settings or data."""
    if not is_person_there():
        return False
    click.echo(
        plain(
            f"{holds} An agent that works there can change everything in it but settings, data, keys and what"
            " runs when you log in."
        ),
        err=True,
    )
    return click.confirm("Work there all the same?", default=False, err=True)


def _flag_or_question(_: click.Context, __: click.Parameter, value: bool) -> AllowHome:  # noqa: FBT001 - click's
    return value or ask_home


ALLOW_HOME = click.option(
    "--allow-home",
    is_flag=True,
    callback=_flag_or_question,
    help="Accept a workspace that holds your home folder, or mainspring's settings or data.",
)
"""Without it, the person at the terminal is asked; without a terminal, such a workspace is refused."""
