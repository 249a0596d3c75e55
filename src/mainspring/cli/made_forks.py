"""What is told of a session that was made from the history of another."""

from __future__ import annotations

import click

from mainspring.app.operations.forks import Forked
from mainspring.events.counts import plural


def tell_fork(made: Forked) -> None:
    """Its id alone goes to standard output."""
    click.echo(made.session)
    for seq in made.unreadable:
        click.echo(f"Event {seq} could not be read; `mainspring show` marks it as unreadable.", err=True)
    click.echo(
        f'It shares {plural(made.shared_events, "event")}. Go on: mainspring resume {made.session} "…"',
        err=True,
    )
