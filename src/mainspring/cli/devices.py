"""`devices`: who may use the server of this machine."""

from __future__ import annotations

from importlib import import_module

import click

from mainspring.app.operations.answers import lasting
from mainspring.app.operations.device_roles import PAIRED_ROLES, SERVICE_ROLES, Role
from mainspring.app.operations.devices import PAIR_WITHIN_S, Access
from mainspring.cli.config import load_config
from mainspring.cli.json_output import json_line
from mainspring.documents.figures import when
from mainspring.secrets.screen import plain


@click.group("devices", invoke_without_command=True)
@click.option("--json", "is_json", is_flag=True, help="Print one device per line as JSON.")
@click.pass_context
def devices_command(context: click.Context, *, is_json: bool) -> None:
    """List the devices that are paired with `mainspring serve`, and what they may do."""
    if context.invoked_subcommand is not None:
        return
    devices = Access(load_config()).devices()
    for device in devices:
        if is_json:
            row = {"id": device.id, "name": device.name, "role": device.role, "paired_us": device.paired_us}
            click.echo(json_line({**row, "until_us": device.until_us}))
        else:
            until = f" until {when(device.until_us)}" if device.until_us else ""
            name = device.person.name if device.person else device.name
            click.echo(f"{device.id}  {when(device.paired_us)}  {device.role:<7} {plain(name)}{until}")
    if not devices and not is_json:
        click.echo("No devices are paired. Pair one: mainspring serve --pair", err=True)


@devices_command.command("pair")
@click.option(
    "--role", type=click.Choice(PAIRED_ROLES), default="steer", show_default=True, help="What it may do."
)
@click.option("--name", default="", help="What to call it.")
@click.option("--address", required=True, help="Address of the server, as `mainspring serve` prints it.")
def pair_command(*, role: Role, name: str, address: str) -> None:
    """Show a code that pairs one device with a server that is running, and its certificate's fingerprint."""
    place = address.partition("/#")[0].rstrip("/")
    if shown := import_module("mainspring.serve.certificate").served_fingerprint(place):
        click.echo(f"certificate SHA-256 {shown}", err=True)
    show_offer(place, Access(load_config()).offer(role, name), role)


@devices_command.command("token")
@click.argument("name")
@click.option(
    "--role", type=click.Choice(SERVICE_ROLES), default="steer", show_default=True, help="What it may do."
)
@click.option("--for", "duration", default="90d", show_default=True, help="How long: 30m, 8h, 7d.")
def token_command(name: str, *, role: Role, duration: str) -> None:
    """Print a token for a program, NAME, which is `service:NAME` to a team's policy. It is shown this once.

    A program sends it as `Authorization: Bearer TOKEN`, and does what its role and the policy allow.
    """
    lasts_us = lasting(duration, now_us=0)
    made = Access(load_config()).add_service(name, role, lasts_us)
    click.echo(made.token)


@devices_command.command("revoke")
@click.argument("name")
def revoke_command(name: str) -> None:
    """Revoke NAME, a device's name or id; what it watches ends at once."""
    device = Access(load_config()).revoke(name)
    click.echo(plain(f"{device.name} is revoked."), err=True)


@devices_command.command("renew")
def renew_command() -> None:
    """Make another token for the server itself: whoever has the old one is out, paired devices stay."""
    token = Access(load_config()).renew()
    click.echo("The server's own token is another one now; pages that used the old one need it:", err=True)
    click.echo(token)


def show_offer(address: str, code: str, role: Role) -> None:
    """A code to pair one device, as a link and as a picture that a phone reads."""
    link = f"{address}/#pair={code}"
    click.echo(f"Open this on the device within {PAIR_WITHIN_S} seconds; it may then {role}:")
    click.echo(link)
    import_module("segno").make(link, micro=False).terminal(compact=True)
