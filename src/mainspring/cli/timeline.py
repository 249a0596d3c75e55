"""`diff`, `undo` and `rewind`: what the session did to files, and going back."""

from __future__ import annotations

import asyncio
from importlib import import_module

import click

from mainspring.app.operations.timeline import BackAt, StepChanges, file_changes, go_back_to
from mainspring.cli.blocking import iterate
from mainspring.cli.config import load_config, load_config_or_defaults, newest_here
from mainspring.cli.json_output import json_line
from mainspring.cli.options import with_options
from mainspring.documents.lines import change_line
from mainspring.errors import UsageError
from mainspring.events import Extent
from mainspring.secrets.screen import plain
from mainspring.settings import Config

_scopes = with_options(
    click.option("--files", "is_files", is_flag=True, help="Only the files."),
    click.option("--conversation", "is_conversation", is_flag=True, help="Only the conversation."),
    click.option("--both", "is_both", is_flag=True, help="Both (the default)."),
)


@click.command("diff")
@click.argument("session", default="")
@click.option("--step", type=click.IntRange(min=1), help="Only what this step did.")
@click.option("--stat", "is_short", is_flag=True, help="Only the names of files.")
@click.option("--risk", "is_risk", is_flag=True, help="Only the risk of all that it changed, with reasons.")
@click.option("--json", "is_json", is_flag=True, help="With --risk: print it as JSON.")
def diff_command(session: str, step: int | None, *, is_short: bool, is_risk: bool, is_json: bool) -> None:
    """Show what each step of SESSION (by default the newest of this folder) did to files."""
    config = load_config_or_defaults()
    name = session or newest_here(config)
    if is_json and not is_risk:
        raise UsageError("--json is for the risk.", remedy="Give --risk as well.")
    if is_risk:
        _print_risk(config, name, is_json=is_json)
        return
    is_told = False
    for changes in iterate(file_changes(config, name, step=step, has_diffs=not is_short)):
        is_told = True
        _print_changes(changes)
    if not is_told:
        click.echo("No files were changed." if step is None else f"Step {step} changed no files.", err=True)


@click.command("undo")
@click.argument("session", default="")
@_scopes
def undo_command(session: str, **scopes: bool) -> None:
    """Take back the last turn of SESSION (by default the newest of this folder): what was said, and what it
    did to files."""
    _go_back(session, None, _extent(**scopes))


@click.command("rewind")
@click.argument("session", default="")
@click.option("--to", "to_seq", type=click.IntRange(min=1), required=True, help="Number of an event.")
@_scopes
def rewind_command(session: str, to_seq: int, **scopes: bool) -> None:
    """Take SESSION (by default the newest of this folder) back to how it was after an event; `show` has the
    numbers."""
    _go_back(session, to_seq, _extent(**scopes))


def _extent(*, is_files: bool, is_conversation: bool, is_both: bool) -> Extent:
    if is_both and (is_files or is_conversation):
        raise UsageError("--both contradicts --files and --conversation.", remedy="Give one of them.")
    return "both" if is_files == is_conversation else "files" if is_files else "conversation"


def _go_back(session: str, to_seq: int | None, scope: Extent) -> None:
    config = load_config()
    print_back(asyncio.run(go_back_to(config, session or newest_here(config), to_seq, scope)), scope)


def print_back(back: BackAt, scope: Extent) -> None:
    """Says what going back did, and how to take that back."""
    went = back.went
    if back.said is not None:
        click.echo(plain(f"» {back.said}"))
    for change in went.changes:
        click.echo(plain(change_line(change)))
    for left in went.left:
        click.echo(plain(f"! not put back: {left}"), err=True)
    what = {"files": "Files are", "conversation": "The conversation is", "both": "Conversation and files are"}
    click.echo(f"{what[scope]} as after event {went.to_seq}.", err=True)
    flag = "" if scope == "both" else f" --{scope}"
    click.echo(f"To take this back: mainspring rewind {back.session} --to {went.before_seq}{flag}", err=True)


def _print_risk(config: Config, session: str, *, is_json: bool) -> None:
    risk = import_module("mainspring.app.operations.risk")
    told = asyncio.run(risk.session_risk(config, session))
    if is_json:
        click.echo(json_line(told))
        return
    click.echo(plain("\n".join(risk.risk_lines(told.risk))))
    if told.why_ask:
        click.echo(plain(f"A person is asked before it lands: {told.why_ask}."))


def _print_changes(changes: StepChanges) -> None:
    changed = changes.changed
    title = f"step {changes.step}" if changed.calls else "going back"
    doubt = "" if changed.is_certain else ", interrupted: someone else may have made some of this"
    click.echo(f"== {title}, event {changes.seq} ({', '.join(changed.calls) or 'no call'}{doubt})")
    for number, change in enumerate(changed.changes):
        click.echo(plain(change_line(change)))
        for line in changes.diffs[number] if changes.diffs else ():
            click.echo(plain(line.rstrip("\n")))
    for note in changed.not_covered:
        click.echo(plain(f"! not covered: {note}"))
