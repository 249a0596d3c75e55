"""`import`: sessions that `export` wrote, and session files of other agents."""

from __future__ import annotations

import asyncio
import shlex
import sys
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import click

from mainspring.app.operations.imports import Imported, file_lines, import_session
from mainspring.cli.config import load_config
from mainspring.cli.streams import shows_progress
from mainspring.errors import UsageError
from mainspring.events.counts import plural
from mainspring.secrets.screen import plain

_SOON_S = 0.5


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--blobs", type=click.Path(path_type=Path), help="Folder with the blobs, when they are not in the file."
)
@click.option("-C", "folder", type=click.Path(path_type=Path), help="Its workspace; here by default.")
@click.option("--salvage", "is_salvaged", is_flag=True, help="Of a damaged export, import what is whole.")
@click.option(
    "--trust",
    "is_trusted",
    is_flag=True,
    help="Let it go on as its journal says: mode, engine, folder, commands.",
)
def import_command(
    file: Path, blobs: Path | None, folder: Path | None, *, is_salvaged: bool, is_trusted: bool
) -> None:
    """Import the session in FILE (- is standard input): one that `export` wrote, checking every hash, or a
    session file of Claude Code or Codex. What it had open ends, and its mode, engine, machine and caps
    count only where they allow less than is usual here."""
    is_piped = str(file) == "-"
    reading = partial(_import, blobs, folder, is_salvaged=is_salvaged, is_trusted=is_trusted)
    try:
        imported = reading(sys.stdin.buffer if is_piped else _told(file))
    except FileNotFoundError as error:
        raise UsageError(f"There is no file {file}.", remedy="Check the path.") from error
    except OSError as error:
        raise UsageError(
            f"{file} cannot be read: {error.strerror}.", remedy="Give a file that `mainspring export` wrote."
        ) from error
    if imported.agent:
        left = f", {plural(imported.left_out, 'line')} left out" if imported.left_out else ""
        click.echo(f"{plural(imported.events, 'event')} from {imported.agent}{left}", err=True)
    for seq in imported.unreadable:
        click.echo(f"Event {seq} could not be read; `mainspring show` marks it as unreadable.", err=True)
    if imported.missing:
        click.echo(f"{plural(imported.missing, 'event')} at the end are missing.", err=True)
    _tell_next(imported, folder)
    click.echo(imported.session)


def _tell_next(imported: Imported, folder: Path | None) -> None:
    """What became of what it was doing, and what is needed to go on."""
    if imported.had_open_work:
        way = "." if imported.runs_commands else ", and goes on when you resume it."
        click.echo(f"It was at work; that ended here{way}", err=True)
    if imported.runs_commands:
        why = "Going on with its goal, fix or tasks would run commands from its journal, and is refused."
        click.echo(f"{why} If it is yours: mainspring trust session {imported.session}", err=True)
    if imported.elsewhere:
        way = f"mainspring fork {imported.session} -C {shlex.quote(str(folder or '.'))}"
        click.echo(plain(f"It works in {imported.elsewhere}. To go on in another folder: {way}"), err=True)


def _told(file: Path) -> Iterator[bytes]:
    """The lines of a file; one that takes long says how far it is, to who looks on."""
    size, done, next_s = max(file.stat().st_size, 1), 0, time.monotonic() + _SOON_S
    is_told = False
    for line in file_lines(file):
        yield line
        done += len(line)
        if (now_s := time.monotonic()) >= next_s and shows_progress():
            is_told, next_s = True, now_s + _SOON_S
            click.echo(f"\rimporting {done / size:4.0%}", nl=False, err=True)
    if is_told:
        click.echo("\r", nl=False, err=True)


def _import(
    blobs: Path | None, folder: Path | None, lines: Iterable[bytes], *, is_salvaged: bool, is_trusted: bool
) -> Imported:
    importing = import_session(
        load_config(),
        lines,
        here=Path.cwd(),
        workspace=folder,
        blobs=blobs,
        is_salvaged=is_salvaged,
        is_trusted=is_trusted,
    )
    return asyncio.run(importing)
