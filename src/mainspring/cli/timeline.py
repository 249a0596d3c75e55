"""`diff`, `undo` and `rewind`: what the session did to files, and going back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import click

from mainspring.app.records import recording
from mainspring.approvals.screen import plain
from mainspring.cli.render import change_line
from mainspring.cli.run import newest_here
from mainspring.config import load_config
from mainspring.errors import UsageError
from mainspring.events import AssistantSaid, Blob, Extent, FilesChanged, Recorded, SessionStarted, UserSaid
from mainspring.journal import Reader
from mainspring.journal.file import JournalFile
from mainspring.journal.shelf import Shelf
from mainspring.rewind import WentBack, complete, go_back, last_turn
from mainspring.workspace.diffs import unified

_SCOPES = (
    click.option("--files", "scope", flag_value="files", help="Only the files."),
    click.option("--conversation", "scope", flag_value="conversation", help="Only the conversation."),
    click.option("--both", "scope", flag_value="both", default="both", help="Both (the default)."),
)


@click.command("diff")
@click.argument("session", default="")
@click.option("--step", type=click.IntRange(min=1), help="Only what this step did.")
@click.option("--stat", "is_short", is_flag=True, help="Only the names of files.")
def diff_command(session: str, step: int | None, *, is_short: bool) -> None:
    """Show what each step of SESSION (by default the newest of this folder) did to files."""
    shelf = Shelf(load_config().home)
    file = shelf.file(shelf.find(session or newest_here()))
    try:
        steps: dict[str, int] = {}
        known = 0
        is_told = False
        for recorded in _pages(file, ("AssistantSaid", "FilesChanged")):
            match recorded.event:
                case AssistantSaid() as said:
                    known = max(known, said.step)
                    steps |= {call.call: said.step for call in said.calls}
                case FilesChanged() as changed:
                    numbers = {steps.get(call, 0) for call in changed.calls}
                    if step is None or step in numbers:
                        is_told = True
                        _print_changes(
                            file, recorded.seq, changed, max(numbers, default=0), is_short=is_short
                        )
                case _:
                    pass
    finally:
        file.close()
    if step is not None and step > known:
        raise UsageError(
            f"There is no step {step}: this session has {known}.",
            remedy="Without a step all of them are shown.",
        )
    if not is_told:
        click.echo("No files were changed." if step is None else f"Step {step} changed no files.", err=True)


@click.command("undo")
@click.argument("session", default="")
def undo_command(session: str, scope: Extent) -> None:
    """Take back the last turn of SESSION (by default the newest of this folder): what was said, and what it
    did to files."""
    asyncio.run(_go_back(session or newest_here(), None, scope))


@click.command("rewind")
@click.argument("session")
@click.option("--to", "to_seq", type=click.IntRange(min=1), required=True, help="Number of an event.")
def rewind_command(session: str, to_seq: int, scope: Extent) -> None:
    """Take SESSION back to how it was after an event; `mainspring show` has the numbers."""
    asyncio.run(_go_back(session, to_seq, scope))


for _option in reversed(_SCOPES):
    undo_command = _option(undo_command)
    rewind_command = _option(rewind_command)


async def _go_back(session: str, to_seq: int | None, scope: Extent) -> None:
    said: UserSaid | None = None
    async with recording(session, load_config()) as recorder:
        root = await _workspace(recorder.journal)
        await complete(recorder, root)
        if to_seq is None:
            seq, said = await last_turn(recorder.journal, scope)
            to_seq = seq - 1
        went = await go_back(recorder, root, to_seq, scope)
    if said is not None:
        click.echo(plain(f"» {said.text}"))
    _print_went(recorder.session, went, scope)


def _print_went(session: str, went: WentBack, scope: Extent) -> None:
    for change in went.changes:
        click.echo(plain(change_line(change)))
    for left in went.left:
        click.echo(plain(f"! not put back: {left}"), err=True)
    what = {"files": "Files are", "conversation": "The conversation is", "both": "Conversation and files are"}
    click.echo(f"{what[scope]} as after event {went.to_seq}.", err=True)
    flag = "" if scope == "both" else f" --{scope}"
    click.echo(f"To take this back: mainspring rewind {session} --to {went.before_seq}{flag}", err=True)


async def _workspace(journal: Reader) -> Path:
    started = await journal.last("SessionStarted")
    if started is None or not isinstance(started.event, SessionStarted):
        raise UsageError("This session has no beginning: nothing was recorded in it.")
    return Path(started.event.workspace)


def _print_changes(file: JournalFile, seq: int, changed: FilesChanged, step: int, *, is_short: bool) -> None:
    title = f"step {step}" if changed.calls else "going back"
    doubt = "" if changed.is_certain else ", interrupted: someone else may have made some of this"
    click.echo(f"== {title}, event {seq} ({', '.join(changed.calls) or 'no call'}{doubt})")
    for change in changed.changes:
        click.echo(plain(change_line(change)))
        if is_short:
            continue
        before = _content(file, change.before.blob if change.before else None)
        after = _content(file, change.after.blob if change.after else None)
        for line in unified(change, before, after):
            click.echo(plain(line.rstrip("\n")))
    for note in changed.not_covered:
        click.echo(plain(f"! not covered: {note}"))


def _content(file: JournalFile, blob: Blob | None) -> bytes:
    return file.get(blob) if blob else b""


def _pages(file: JournalFile, kinds: tuple[str, ...]) -> Iterator[Recorded]:
    after = 0
    while page := file.read(after=after, kinds=kinds):
        yield from page
        after = page[-1].seq
