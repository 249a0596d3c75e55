"""`docs`: pages about source files, drafted, checked and judged; what a person decides about them."""

from __future__ import annotations

import asyncio
import shutil
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mainspring.cli.allow_home import ALLOW_HOME
from mainspring.cli.config import NO_GATEWAY, load_config, offer_setup
from mainspring.cli.json_output import json_line
from mainspring.cli.options import POSITIVE
from mainspring.cli.streams import shows_progress
from mainspring.documents.figures import money
from mainspring.errors import UsageError
from mainspring.events.counts import plural
from mainspring.secrets.screen import plain

if TYPE_CHECKING:
    from mainspring.app.operations.docs import DocsProgress, DocsRun, DocsStatus, PageRow, WrittenPages
    from mainspring.events import DocsStarted

_OPERATIONS = "mainspring.app.operations.docs"
_STANDINGS = {"person": "needs a person", "unfinished": "not done"}
_SOURCES = {"changed": "the file has changed since", "gone": "the file is gone"}
_PAGES = {
    "older": "the page is of an earlier draft",
    "missing": "the page is not there",
    "foreign": "the page was changed by a person, and is left alone",
}
_BAR = 20
_SHOWN_LEFT_OUT = 10
_folder = click.option(
    "-C", "folder", type=click.Path(path_type=Path, exists=True), default=Path(), help="The project."
)
_json = click.option("--json", "is_json", is_flag=True, help="Print the result as JSON.")


@click.group("docs")
def docs_command() -> None:
    """Write pages about source files: the API from the syntax tree, a summary by a model that is checked and
    judged. What has a verdict is done again only when the file changes."""


@docs_command.command("forge")
@click.argument("paths", nargs=-1)
@_folder
@click.option("--model", default="", help="Model that drafts and judges: `local`, or any other.")
@click.option("--output", default="docs/api", show_default=True, help="Folder of the project for the pages.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["markdown", "site"]),
    default="markdown",
    show_default=True,
    help="Markdown, or HTML with an index.",
)
@click.option("--again", is_flag=True, help="Also redo what was rejected or waits for a person.")
@click.option("--tries", type=click.IntRange(1, 10), default=3, show_default=True, help="Drafts of a page.")
@click.option("--parallel", "at_once", type=click.IntRange(1, 8), help="Files at a time; 4, locally 1.")
@click.option("--max-cost-usd", type=POSITIVE, help="Maximum cost of this run, in US dollars.")
@click.option("--max-tokens", type=click.IntRange(min=1), help="Maximum tokens of this run.")
@click.option("--allow-unpriced", is_flag=True, help="Accept a model of unknown price under a cost limit.")
@NO_GATEWAY
@ALLOW_HOME
@_json
def forge_command(
    paths: tuple[str, ...], folder: Path, at_once: int | None, *, is_json: bool, **given: Any
) -> None:
    """Write a page about each source file under PATHS, or of the whole project.

    Ignored files, hidden files and files with secrets are never sent to a model. A run that was interrupted
    goes on where it was."""
    if not given["model"]:
        offer_setup()
    operations = import_module(_OPERATIONS)
    show = _Progress(is_bar=shows_progress())
    how = operations.DocsHow(at_once=at_once or 0, on_begin=show.begin, on_progress=show.progress, **given)
    run: DocsRun = asyncio.run(operations.forge_docs(load_config(), folder, paths, how))
    show.end()
    if is_json:
        click.echo(json_line(run))
    else:
        _print_run(run)
    sys.exit(_exit_code(run))


def _exit_code(run: DocsRun) -> int:
    if run.stop:
        return 4 if run.stop.is_budget else 1
    return 3 if run.person else 1 if run.rejected else 0


def _print_run(run: DocsRun) -> None:
    for path in run.written:
        click.echo(plain(f"wrote {path}"))
    for path in run.left_alone:
        click.echo(plain(f"left alone, because a person wrote or changed it: {path}"))
    counts = f"{run.approved} approved, {run.rejected} rejected, {run.person} need a person"
    undone = f", {run.undone} not done" if run.undone else ""
    click.echo(f"{counts}{undone}, {money(run.cost_usd)}")
    if run.stop:
        click.echo(plain(f"Stopped: {run.stop.message} {run.stop.remedy}".strip()), err=True)
    if run.person or run.rejected:
        click.echo("See why: mainspring docs status", err=True)


class _Progress:
    """A bar at a terminal, else a line for each page."""

    def __init__(self, *, is_bar: bool) -> None:
        self._is_bar = is_bar
        self._is_drawn = False

    def begin(self, session: str, started: DocsStarted, todo: int) -> None:
        for each in started.left_out[:_SHOWN_LEFT_OUT]:
            click.echo(plain(f"left out: {each}"), err=True)
        if (more := len(started.left_out) - _SHOWN_LEFT_OUT) > 0:
            click.echo(f"left out: {more} more (mainspring show {session})", err=True)
        known = started.files - todo
        same = f"; {known} have a verdict already" if known else ""
        click.echo(f"· session {session}: {plural(todo, 'page')} to write{same}", err=True)

    def progress(self, now: DocsProgress) -> None:
        if now.standing:
            self._clear()
            why = f": {now.why}" if now.why and now.standing != "approved" else ""
            standing = _STANDINGS.get(now.standing, now.standing)
            click.echo(plain(f"{standing:<14} {now.path}{why}"), err=True)
        if self._is_bar:
            filled = _BAR * now.done // max(now.total, 1)
            line = f"[{'█' * filled}{'·' * (_BAR - filled)}] {now.done}/{now.total} {now.path}"
            room = shutil.get_terminal_size().columns - 1
            click.echo(f"\r\033[K{plain(line)[:room]}", nl=False, err=True)
            self._is_drawn = True

    def end(self) -> None:
        self._clear()

    def _clear(self) -> None:
        if self._is_drawn:
            click.echo("\r\033[K", nl=False, err=True)
            self._is_drawn = False


@docs_command.command("status")
@click.argument("paths", nargs=-1)
@_folder
@_json
def status_command(paths: tuple[str, ...], folder: Path, *, is_json: bool) -> None:
    """List the pages: approved, rejected with the reason, or waiting for a person."""
    status: DocsStatus = asyncio.run(import_module(_OPERATIONS).docs_status(load_config(), folder, paths))
    if is_json:
        click.echo(json_line(status))
        return
    for row in status.pages:
        click.echo(plain(_line(row)))
    if not status.pages:
        click.echo("There are no pages under these paths.")


def _line(row: PageRow) -> str:
    notes = [row.why if row.standing != "approved" else "", _SOURCES.get(row.source, "")]
    notes += [_PAGES.get(row.page, "")]
    by = " (a person)" if row.by == "person" else ""
    told = "; ".join(note for note in notes if note)
    standing = f"{_STANDINGS.get(row.standing, row.standing)}{by}"
    return f"{standing:<20} {row.path}" + (f": {told}" if told else "")


@docs_command.command("approve")
@click.argument("paths", nargs=-1, required=True)
@_folder
def approve_command(paths: tuple[str, ...], folder: Path) -> None:
    """Approve the newest drafts about PATHS, and write them."""
    _decide(folder, paths, "approved", "")


@docs_command.command("reject")
@click.argument("paths", nargs=-1, required=True)
@click.option("--why", required=True, help="What is wrong with it; it is on record.")
@_folder
def reject_command(paths: tuple[str, ...], folder: Path, why: str) -> None:
    """Reject the newest drafts about PATHS. A page that was approved before stays as it is; one that is just
    that draft is removed, unless a person changed it."""
    if not why.strip():
        raise UsageError("--why is empty.", remedy="Say what is wrong with the page.")
    _decide(folder, paths, "rejected", why)


def _decide(folder: Path, paths: tuple[str, ...], verdict: str, why: str) -> None:
    judge = import_module(_OPERATIONS).judge_page
    done: WrittenPages = asyncio.run(judge(load_config(), folder, paths, verdict, why))
    for path in paths:
        click.echo(plain(f"{verdict} {path}"))
    for path in done.removed:
        click.echo(plain(f"removed {path}"))
    for path in done.written:
        click.echo(plain(f"wrote {path}"))
    for path in done.left_alone:
        click.echo(plain(f"left alone, because a person wrote or changed it: {path}"))


@docs_command.command("diff")
@click.argument("path")
@_folder
def diff_command(path: str, folder: Path) -> None:
    """Show what the newest draft about PATH changes against the approved page."""
    found: str = asyncio.run(import_module(_OPERATIONS).page_diff(load_config(), folder, path))
    click.echo(plain(found).rstrip() if found else "The newest draft is the approved page.")
