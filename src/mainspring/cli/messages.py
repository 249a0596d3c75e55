"""`say` and `note`: tell a session something from another terminal."""

from __future__ import annotations

import asyncio

import click

from mainspring.app.operations.messages import Delivery, note, say
from mainspring.cli.config import load_config
from mainspring.cli.server_option import with_server


@click.command("say")
@click.argument("session")
@click.argument("text")
@with_server("say")
def say_command(session: str, text: str) -> None:
    """Say TEXT to SESSION, which another process runs.

    The running turn hears it between two steps; without one it starts a turn there. Open questions are
    abandoned, as by any new message. When nobody runs the session, `mainspring resume` goes on with it.
    """
    echo_delivery(asyncio.run(say(session, text, config=load_config())), "said")


@click.command("note")
@click.argument("session")
@click.argument("text")
def note_command(session: str, text: str) -> None:
    """Tell SESSION something to know, without asking for anything.

    The process that runs the session gets it; when there is none, it is recorded at once, and the model
    sees it when the session goes on.
    """
    echo_delivery(asyncio.run(note(session, text, config=load_config())), "noted")


def echo_delivery(delivery: Delivery, done: str) -> None:
    if delivery.state == "waiting":
        click.echo(f"left for {delivery.owner}, which has not taken it yet; it is kept until then", err=True)
    else:
        click.echo(f"{done}: {delivery.owner or f'nobody runs session {delivery.session} now'}", err=True)
