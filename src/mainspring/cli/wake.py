"""Makes the daemon look at what there is to do."""

from __future__ import annotations

from pathlib import Path

import click

from mainspring.approvals.screen import plain
from mainspring.daemon.place import Place


def wake_daemon(home: Path) -> bool:
    """Makes the daemon look at once; False when none runs. One of another version is mentioned."""
    place = Place(home)
    if told := place.other_version():
        click.echo(plain(told), err=True)
    return place.wake()
