"""`artifacts`: which files a goal made, by content, iteration and the command that made them."""

from __future__ import annotations

import click
import msgspec

from mainspring.approvals.screen import plain_name
from mainspring.cli.render import when
from mainspring.config import load_config
from mainspring.errors import JournalError, UsageError
from mainspring.events import ArtifactsChanged
from mainspring.goals.artifacts import KIND, Artifact, Artifacts
from mainspring.journal.file import JournalFile
from mainspring.journal.shelf import Shelf

_SHOWN = 100


@click.command("artifacts")
@click.argument("session", default="")
@click.option("--json", "is_json", is_flag=True, help="Print one artifact per line as JSON.")
@click.option("--all", "is_all", is_flag=True, help="Also what was there before, and what is gone.")
def artifacts_command(session: str, *, is_json: bool, is_all: bool) -> None:
    """List what the goal of SESSION (by default the newest) made: path, size, hash, iteration, command."""
    shelf = Shelf(load_config().home)
    name = shelf.find(session) if session else _newest(shelf)
    file = shelf.file(name)
    try:
        artifacts = _read(file)
    finally:
        file.close()
    rows = sorted(artifacts.all, key=lambda row: row.path) if is_all else artifacts.made
    shown = rows if is_all or is_json else rows[:_SHOWN]
    for row in shown:
        click.echo(msgspec.json.encode(row) if is_json else plain_name(_line(row)))
    if len(shown) < len(rows):
        click.echo(f"{len(rows) - len(shown):,} more: mainspring artifacts {name} --all", err=True)
    if not rows and not is_json:
        click.echo(f"Session {name} has made no artifacts.", err=True)


def _read(file: JournalFile) -> Artifacts:
    artifacts, after = Artifacts(), 0
    while page := file.read(after=after, kinds=(KIND,)):
        for recorded in page:
            if isinstance(recorded.event, ArtifactsChanged):
                listing = recorded.event.listing
                artifacts.apply(recorded.event, file.get(listing) if listing else None)
        after = page[-1].seq
    return artifacts


def _newest(shelf: Shelf) -> str:
    for row in shelf.sessions():
        try:
            file = shelf.file(row.id)
        except JournalError:
            continue  # a damaged session is not the one that was meant
        try:
            if file.last(KIND) is not None:
                return row.id
        finally:
            file.close()
    raise UsageError("No session has artifacts yet.", remedy="`mainspring sessions` lists the sessions.")


def _line(row: Artifact) -> str:
    sha256 = row.sha256[:12] or "-"
    gone = " (gone)" if row.is_deleted else ""
    moved = f" (was {row.renamed_from})" if row.renamed_from else ""
    since = when(row.mtime_us) if row.mtime_us else "-"
    line = f"{row.path}{moved}{gone}  {row.size:,} B  {sha256}  {since}  iteration {row.iteration}"
    return f"{line}  {row.made_by}".rstrip()
