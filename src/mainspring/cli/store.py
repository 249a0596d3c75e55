"""`store`: the database that machines share."""

from __future__ import annotations

import asyncio
import sys

import click

from mainspring.app.operations.store import check_store, copy_sessions, migrate_store
from mainspring.cli.config import load_config
from mainspring.cli.json_output import json_line
from mainspring.events.counts import plural

_KEYS = {
    "here": "",
    "none yet": "the store has none; secrets stay on each machine until `mainspring store init` makes one",
    "missing": "this machine does not have that of the store: secrets of its sessions stay here, and those of"
    " other machines cannot be put back. Copy store.key from another machine's settings folder.",
    "another": "this machine has another one than the store. Copy store.key from another machine.",
}


@click.group("store")
def store_command() -> None:
    """Keep sessions in a Postgres database that machines share, instead of files of this machine.

    Name it with `mainspring config set store.url postgresql://user@host:5432/database`, or with the variable
    MAINSPRING_STORE, then run `mainspring store init` once. Everything else works as before.
    """


@store_command.command("init")
def init_command() -> None:
    """Make the tables in an empty database."""
    _migrate()


@store_command.command("migrate")
def migrate_command() -> None:
    """Bring the tables to the version of this program. There is no way back to an older one."""
    _migrate()


def _migrate() -> None:
    done = asyncio.run(migrate_store(load_config()))
    if done.before == done.after:
        click.echo(f"{done.address} is ready; its tables have version {done.after}.")
    elif done.before:
        click.echo(f"{done.address}: the tables went from version {done.before} to {done.after}.")
    else:
        click.echo(f"{done.address}: the tables are made, version {done.after}.")
    if done.key_file:
        click.echo(f"secrets in it are encrypted with {done.key_file}: copy that file to other machines")
    elif _KEYS[done.key]:
        click.echo(f"key: {_KEYS[done.key]}", err=True)


@store_command.command("check")
@click.option("--json", "is_json", is_flag=True, help="Print JSON.")
def check_command(*, is_json: bool) -> None:
    """Check the database and every journal in it; the exit code is 1 when anything is wrong."""
    facts = asyncio.run(check_store(load_config()))
    if is_json:
        click.echo(json_line(facts))
    else:
        counted = f"{plural(facts.sessions, 'session')}, {plural(facts.events, 'event')}"
        click.echo(
            f"{facts.address}: version {facts.version}, {counted}, {facts.round_trip_ms:.1f} ms to ask"
        )
        if _KEYS[facts.key]:
            click.echo(f"key: {_KEYS[facts.key]}")
        for problem in facts.problems:
            click.echo(f"damaged: {problem}")
    sys.exit(1 if facts.problems else 0)


@store_command.command("copy")
@click.argument("sessions", nargs=-1)
@click.option("--from", "source", metavar="PLACE", help="`local` or an address; default: local.")
@click.option("--to", "target", metavar="PLACE", help="`local` or an address; default: the configured store.")
def copy_command(sessions: tuple[str, ...], source: str | None, target: str | None) -> None:
    """Copy SESSIONS (all when none are named) between the files of this machine and a database, verified.
    The exit code is 1 when one was left out."""
    sys.exit(asyncio.run(_copy(sessions, source or "", target or "")))


async def _copy(sessions: tuple[str, ...], source: str, target: str) -> int:
    left_out = 0
    async for copied in copy_sessions(load_config(), sessions, source=source, target=target):
        click.echo(f"{copied.session}: {copied.outcome} ({copied.detail})")
        left_out += copied.outcome == "left out"
    return 1 if left_out else 0
