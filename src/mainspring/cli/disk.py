"""`sessions delete`, `clean` and `uninstall`: what frees disk space. Each asks first, or is told `--yes`."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from typing import Any

import click

from mainspring.app.operations.cleaning import KEEP_DAYS, find_leftovers, remove_leftovers
from mainspring.app.operations.deletion import Deletion, delete_sessions, plan_deletion
from mainspring.app.operations.uninstall import check_idle, remove_places, written_places
from mainspring.cli.config import load_config
from mainspring.cli.json_output import json_line
from mainspring.cli.streams import is_person_there
from mainspring.documents.figures import when
from mainspring.errors import UsageError
from mainspring.events.counts import plural, readable_bytes
from mainspring.secrets.screen import plain

_DAYS = {"h": 1 / 24, "d": 1.0, "w": 7.0}
_TITLE = 50
_YES = click.option("--yes", "is_agreed", is_flag=True, help="Do not ask for confirmation.")


class Age(click.ParamType[float]):
    """A number of days, as `90d`, `2w` or `12h`."""

    name = "age"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        found = re.fullmatch(r"(\d{1,6}(?:\.\d+)?)([hdw])", str(value))
        if found is None:
            self.fail(f"{value!r} is no age. Write 90d, 2w or 12h.", param, ctx)
        return float(found[1]) * _DAYS[found[2]]


@click.command("delete")
@click.argument("sessions", nargs=-1)
@click.option(
    "--older-than", "days", type=Age(), metavar="AGE", help="All that did not change for 90d, 2w, 12h."
)
@click.option("--waiting", "allows_waiting", is_flag=True, help="Also named ones that wait for a person.")
@click.option("--dry-run", "is_dry", is_flag=True, help="Only show what would be deleted.")
@_YES
def delete_command(
    sessions: tuple[str, ...], days: float | None, *, allows_waiting: bool, is_dry: bool, is_agreed: bool
) -> None:
    """Delete SESSIONS with their history, for ever. What runs, waits, or was forked is kept."""
    if bool(sessions) == (days is not None):
        raise UsageError(
            "Say which sessions to delete.", remedy="Give their ids, or --older-than 90d; not both."
        )
    if allows_waiting and not sessions:
        raise UsageError("--waiting needs the ids of sessions.", remedy="Name them.")
    config = load_config()
    plan = asyncio.run(plan_deletion(config, sessions, older_than_days=days, allows_waiting=allows_waiting))
    for each in plan.sessions:
        title = plain(each.title)[:_TITLE]
        click.echo(f"{each.id}  {when(each.updated_us)}  {readable_bytes(each.bytes):>9}  {title}")
    done = plan
    if plan.sessions and not is_dry:
        _agree(f"Delete {plural(len(plan.sessions), 'session')} for ever?", is_agreed=is_agreed)
        done = asyncio.run(delete_sessions(config, plan))
    _tell_kept(done)
    verb = "Would delete" if is_dry else "Deleted"
    click.echo(f"{verb} {plural(len(done.sessions), 'session')}, {readable_bytes(done.bytes)}.")
    sys.exit(1 if sessions and done.kept else 0)


def _tell_kept(done: Deletion) -> None:
    for each in done.kept:
        hint = " (--waiting deletes it all the same)" if each.is_waiting else ""
        click.echo(plain(f"kept {each.id}: {each.reason}{hint}"), err=True)


@click.command("clean")
@click.option("--dry-run", "is_dry", is_flag=True, help="Only show what would be removed.")
@click.option(
    "--older-than",
    "days",
    type=Age(),
    metavar="AGE",
    default=KEEP_DAYS,
    help="Age of exec records, logs and caches to remove; 30d unless given.",
)
@click.option(
    "--discard-work",
    "discards_work",
    is_flag=True,
    help="Also worktrees with changes that are kept nowhere else.",
)
@click.option("--json", "is_json", is_flag=True, help="Print one removed thing per line as JSON.")
def clean_command(*, is_dry: bool, days: float, discards_work: bool, is_json: bool) -> None:
    """Free disk space: contents kept for workspaces that are gone, old records of `exec`, old logs and
    caches, worktrees of deleted sessions, and what crashes left behind. Sessions stay: `mainspring sessions
    delete` deletes those."""
    config = load_config()
    found = asyncio.run(find_leftovers(config, older_than_days=days))
    if is_dry:
        gone = tuple(each for each in found if discards_work or not each.unsaved)
    else:
        gone = asyncio.run(remove_leftovers(config, found, discards_work=discards_work))
    for each in gone:
        if is_json:
            click.echo(json_line(each))
        else:
            why = ", with ".join(filter(None, (each.why, each.unsaved)))
            click.echo(plain(f"{each.kind:<18} {readable_bytes(each.bytes):>9}  {each.path}  ({why})"))
    for each in found:
        if each not in gone:
            why = f" ({each.unsaved}; --discard-work removes it)" if each.unsaved else ""
            click.echo(plain(f"stays: {each.path}{why}"), err=True)
    if not is_json:
        verb = "Would free" if is_dry else "Freed"
        click.echo(f"{verb} {readable_bytes(sum(each.bytes for each in gone))}.", err=True)


@click.command("uninstall")
@click.option("--keep-settings", is_flag=True, help="Leave config.toml, approvals.toml and the keys.")
@_YES
def uninstall_command(*, keep_settings: bool, is_agreed: bool) -> None:
    """List every place that mainspring wrote to on this machine, and remove it after a yes. The package
    itself is removed with pip, your projects stay as they are."""
    config = load_config()
    asyncio.run(check_idle(config))
    found = asyncio.run(written_places(config))
    places = tuple(each for each in found.places if not (keep_settings and each.kind == "settings"))
    for each in places:
        click.echo(plain(f"{each.kind:<10} {readable_bytes(each.bytes):>9}  {each.path}"))
    for variable in () if keep_settings else found.keyring:
        click.echo(f"key                   {variable} in the OS keyring")
    for workspace in found.workspaces:
        click.echo(plain(f"stays                 {workspace} (a project; also its branches and goal files)"))
    left: tuple[Path, ...] = ()
    if places:
        _agree("Remove all of this, with every session and its history?", is_agreed=is_agreed)
        left = remove_places(config, places)
        for path in left:
            click.echo(plain(f"could not be removed: {path}"), err=True)
        click.echo("Removed." if not left else "Not everything was removed.")
    else:
        click.echo("mainspring has written nothing on this machine.")
    if any(each.kind == "unit" for each in places):
        click.echo("Tell systemd: systemctl --user daemon-reload")
    click.echo(f"Remove the package: {sys.executable} -m pip uninstall mainspring")
    click.echo("What you put elsewhere yourself stays: lines in files of your shell and editors, exports.")
    sys.exit(1 if left else 0)


def _agree(question: str, *, is_agreed: bool) -> None:
    if is_agreed:
        return
    if not is_person_there():
        raise UsageError("What is deleted is gone, so a person must confirm it.", remedy="Pass --yes.")
    click.confirm(question, abort=True, err=True)
