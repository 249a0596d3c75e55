"""The settings of this process, with who gives its commands."""

from __future__ import annotations

import click
import msgspec

from mainspring import settings
from mainspring.app.private import make_private
from mainspring.events import Origin
from mainspring.settings import FACE, Config
from mainspring.system import host_name, user_name


def load_config() -> Config:
    """The settings, for commands that are given on the command line, or by the daemon through it."""
    config = settings.load_config()
    for folder in make_private(config):
        click.echo(f"{folder} was open to other users of this machine; now it is yours alone.", err=True)
    try:
        user = user_name()
    except OSError:  # Windows, without a terminal
        user = ""
    face = config.variable(FACE) or "cli"
    origin = Origin(user=user, device=host_name(), program="mainspring", face=face)
    return msgspec.structs.replace(config, origin=origin)
