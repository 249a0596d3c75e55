"""`keys`: the keys of providers, typed without an echo or read from standard input, and never shown."""

from __future__ import annotations

import getpass
import sys

import click

from mainspring.app.operations.keys import KeyStatus, add_key, find_status, list_keys, remove_key
from mainspring.cli.config import load_config, load_config_or_defaults
from mainspring.cli.json_output import json_line
from mainspring.cli.streams import is_person_there
from mainspring.errors import UsageError
from mainspring.secrets.screen import plain

_MAX_CHARS = 1 << 16
_PLACES = {"keyring": "the OS keyring", "file": "keys.json in the settings folder"}


@click.group("keys")
def keys_command() -> None:
    """Store, list and remove the keys of providers. A variable of the environment comes before a stored key;
    commands of an agent see neither."""


@keys_command.command("add")
@click.argument("provider")
@click.option("--stdin", "is_piped", is_flag=True, help="Read the key from standard input.")
def add_command(provider: str, *, is_piped: bool) -> None:
    """Store the key of PROVIDER: in the keyring of the operating system where one works (needs
    `pip install "mainspring[keyring]"`), else in a file that only you can read."""
    config = load_config()
    known = find_status(config, provider)
    added = add_key(config, provider, _read_piped() if is_piped else ask_key(known))
    click.echo(f"stored the key of {known.title} in {_PLACES[added.stored or 'file']}", err=True)
    if added.origin == "environment":
        names = " or ".join(known.variables)
        click.echo(f"note: {names} is set in the environment, and comes first", err=True)


@keys_command.command("list")
@click.option("--json", "is_json", is_flag=True, help="Print one provider per line as JSON.")
@click.option("--all", "is_all", is_flag=True, help="Also list providers without a key.")
def list_command(*, is_json: bool, is_all: bool) -> None:
    """List which providers have a key, and where it comes from."""
    every = list_keys(load_config_or_defaults())
    shown = [each for each in every if is_all or each.origin or each.stored]
    for each in shown:
        click.echo(json_line(each) if is_json else plain(f"{each.name:<14} {describe(each)}"))
    if not shown and not is_json:
        click.echo("No keys yet. Store one: mainspring keys add PROVIDER (--all lists them)", err=True)


@keys_command.command("remove")
@click.argument("provider")
def remove_command(provider: str) -> None:
    """Remove the stored key of PROVIDER. Variables of the environment stay as they are."""
    config = load_config()
    place = remove_key(config, provider)
    click.echo(f"removed the key of {find_status(config, provider).title} from {_PLACES[place]}", err=True)


def ask_key(known: KeyStatus) -> str:
    """A key as a person types it, which is not echoed."""
    if not is_person_there():
        raise UsageError(
            "A key is typed at a terminal, or read from standard input.",
            remedy=f"Write it there: … | mainspring keys add {known.name} --stdin",
        )
    where = f"; get one at {known.key_page}" if known.key_page else ""
    return getpass.getpass(f"Key of {known.title} (not shown{where}): ", stream=sys.stderr)


def describe(key: KeyStatus) -> str:
    """Where a key comes from, in words."""
    if key.origin == "environment":
        also = f"; the one stored in {_PLACES[key.stored]} is not used" if key.stored else ""
        return f"from the environment ({' or '.join(key.variables)}){also}"
    if key.origin:
        return f"from {_PLACES[key.origin]}"
    if key.stored:
        return f"stored in {_PLACES[key.stored]}, but {key.problem}"
    page = f"; get a key at {key.key_page}" if key.key_page else ""
    return f"none: mainspring keys add {key.name}, or set {' or '.join(key.variables)}{page}"


def _read_piped() -> str:
    if sys.stdin.isatty():
        raise UsageError("--stdin reads the key from a pipe or file.", remedy="Leave it out to type the key.")
    text = sys.stdin.read(_MAX_CHARS)
    return text.strip()
