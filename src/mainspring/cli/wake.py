"""Says when the daemon that runs is of another version than this command."""

from __future__ import annotations

import click

from mainspring.app.operations.daemon import other_version
from mainspring.secrets.screen import plain
from mainspring.settings import Config


def say_other_daemon(config: Config) -> None:
    """One line on standard error; nothing when none runs, or one of this version."""
    if told := other_version(config):
        click.echo(plain(told), err=True)
