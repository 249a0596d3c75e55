"""`ps` and `stop`: the background processes of all sessions, also of those that nobody runs now.

They are found by their folders and asked through their keepers, so neither command needs to own a journal;
the session itself records the end when it next looks.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from mainspring.approvals.screen import plain
from mainspring.cli.render import when
from mainspring.config import load_config
from mainspring.errors import JournalError, SandboxError, UsageError
from mainspring.journal.shelf import Shelf
from mainspring.processes import FOLDER, Processes, is_alive
from mainspring.sandbox.background import Background, Status
from mainspring.sandbox.held import release

_LINE = 60
_HANDLE = re.compile(r"p[1-9][0-9]*")
_KINDS = ("ProcessStarted", "ProcessEnded")


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A live background process. `state` is `running`, or `left` when only what it started still runs."""

    handle: str
    session: str
    pid: int
    since: str
    state: str
    stays: bool
    command: str


@click.command("ps")
@click.argument("session", default="")
@click.option("--json", "is_json", is_flag=True, help="Print one process per line as JSON.")
def ps_command(session: str, *, is_json: bool) -> None:
    """List the live background processes of SESSION, or of all sessions."""
    shelf = Shelf(load_config().home)
    names = [shelf.find(session)] if session else sorted(shelf.names())
    rows = [row for name in names for row in _rows(shelf, name)]
    for row in rows:
        click.echo(msgspec.json.encode(row) if is_json else _line(row))
    if not rows and not is_json:
        click.echo("No background processes.", err=True)


@click.command("stop")
@click.argument("session")
@click.argument("handle")
def stop_command(session: str, handle: str) -> None:
    """End the background process HANDLE of SESSION, with all that it started."""
    shelf = Shelf(load_config().home)
    name = shelf.find(session)
    folder = shelf.directory(name) / FOLDER / handle
    if not _HANDLE.fullmatch(handle) or not folder.is_dir():
        raise UsageError(
            f"Session {name} has no background process {handle}.", remedy="`mainspring ps` lists them."
        )
    background = Background(folder)
    was_alive = is_alive(background.status())
    status = asyncio.run(background.stop("stopped by a person"))
    if is_alive(status):
        raise SandboxError(
            f"The process {handle} has not ended yet.", remedy=f"Look again with `mainspring ps {name}`."
        )
    aside = release(folder)
    said = "stopped" if was_alive else "had ended already"
    code = "outcome unknown" if status.exit_code is None else f"exit code {status.exit_code}"
    click.echo(f"{handle} {said}: {code}")
    if aside:
        click.echo(f"Protected, so it was set aside or put back: {plain(', '.join(aside))}", err=True)


def _rows(shelf: Shelf, session: str) -> Iterator[Row]:
    live = list(_live(shelf.directory(session) / FOLDER))
    known = _recorded(shelf, session) if live else Processes()
    for background, status in live:
        process = known.get(background.folder.name)
        yield Row(
            handle=background.folder.name,
            session=session,
            pid=status.pid,
            since=when(int(status.started * 1e6)),
            state="running" if status.state == "running" else "left",
            stays=process.started.is_staying if process else False,
            command=process.started.command if process else "",
        )


def _live(folder: Path) -> Iterator[tuple[Background, Status]]:
    found = [path for path in folder.iterdir() if _HANDLE.fullmatch(path.name)] if folder.is_dir() else []
    for path in sorted(found, key=lambda path: int(path.name[1:])):
        background = Background(path)
        try:
            status = background.status()
        except SandboxError:
            continue  # it never started: there is nothing that could live
        if is_alive(status):
            yield background, status


def _recorded(shelf: Shelf, session: str) -> Processes:
    """What the journal says of them. When it cannot be read, they are shown all the same, without words."""
    processes = Processes()
    try:
        file = shelf.file(session)
    except JournalError:
        return processes
    try:
        after = 0
        while page := file.read(after=after, kinds=_KINDS):
            for recorded in page:
                processes.apply(recorded)
            after = page[-1].seq
    except JournalError:
        pass
    finally:
        file.close()
    return processes


def _line(row: Row) -> str:
    stays = " (stays)" if row.stays else ""
    command = plain(row.command.splitlines()[0] if row.command else "?")[:_LINE]
    return f"{row.session}  {row.handle:<4} {row.pid:>8}  {row.since}  {row.state:<7}  {command}{stays}"
