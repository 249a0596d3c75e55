"""`notify`: who is told what happens while nobody looks, and whether that works."""

from __future__ import annotations

import asyncio

import click

from mainspring.app.operations.notifications import channels, deliver_all, problems, try_channel
from mainspring.cli.config import load_config
from mainspring.secrets.screen import plain


@click.group("notify", invoke_without_command=True)
@click.pass_context
def notify_command(context: click.Context) -> None:
    """List the channels of [notify], what each is told, and what was not delivered."""
    if context.invoked_subcommand is not None:
        return
    config = load_config()
    rows = channels(config)
    for row in rows:
        told = ", ".join(row.kinds) if row.always else "only with --notify"
        waiting = f"  ({row.waiting} waiting)" if row.waiting else ""
        click.echo(plain(f"{row.name}  {row.type:<8} {told}{waiting}"))
    for line in problems(config):
        click.echo(plain(f"not delivered: {line}"), err=True)
    if not rows:
        click.echo("No channels yet. See docs/notifications.md for [notify.channels.NAME].", err=True)


@notify_command.command("test")
@click.argument("name")
def test_command(name: str) -> None:
    """Send a message through the channel NAME now."""
    asyncio.run(try_channel(load_config(), name))
    click.echo(f"{name}: sent", err=True)


@notify_command.command("deliver", hidden=True)
def deliver_command() -> None:
    """Send what is on its way until nothing is."""
    asyncio.run(deliver_all(load_config()))
