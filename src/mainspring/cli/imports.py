"""`import`: sessions that `export` wrote, and session files of other agents."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import click

from mainspring import __version__, app
from mainspring.app.policies import DEFAULT_MODE
from mainspring.app.records import compose_session
from mainspring.config import load_config
from mainspring.context.prompt import prompt_parts, system_prompt
from mainspring.engines.transcripts import Transcript
from mainspring.engines.transcripts.reading import read_transcript
from mainspring.errors import JournalForeign, UsageError
from mainspring.events import Event, NoteAdded, PromptSet, SessionStarted
from mainspring.journal.shelf import Shelf
from mainspring.journal.transfer import import_journal
from mainspring.tools.toolbox import Toolbox

_EVENTS_BEFORE = 3


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--blobs", type=click.Path(path_type=Path), help="Folder with the blobs, when they lie beside.")
@click.option("-C", "folder", type=click.Path(path_type=Path), help="Workspace, for another agent's session.")
def import_command(file: Path, blobs: Path | None, folder: Path | None) -> None:
    """Bring the session in FILE in (- is standard input): one that `export` wrote, checking every hash, or a
    session file of Claude Code or Codex."""
    try:
        if str(file) == "-":
            session = _import(sys.stdin.buffer, blobs, folder)
        else:
            with file.open("rb") as lines:
                session = _import(lines, blobs, folder)
    except FileNotFoundError as error:
        raise UsageError(f"There is no file {file}.", remedy="Check the path.") from error
    except (IsADirectoryError, PermissionError) as error:
        raise UsageError(
            f"{file} cannot be read: {error.strerror}.", remedy="Give a file that `mainspring export` wrote."
        ) from error
    click.echo(session)


def _import(lines: Iterable[bytes], blobs: Path | None, folder: Path | None) -> str:
    config = load_config()
    rest = iter(lines)
    first = next(rest, b"")
    transcript = read_transcript(first, rest, first_seq=_EVENTS_BEFORE + 1)
    if transcript is None:
        return import_journal(Shelf(config.home), chain([first], rest), blobs_beside=blobs)
    if not transcript.events:
        raise JournalForeign("Nothing was said in this session file.", remedy="Nothing was imported.")
    left = f", {transcript.left_out} lines left out" if transcript.left_out else ""
    click.echo(f"{len(transcript.events)} events from {transcript.agent}{left}", err=True)
    return asyncio.run(compose_session(lambda name: _told(transcript, name, folder), config))


def _told(transcript: Transcript, session: str, folder: Path | None) -> Iterator[tuple[int, Event]]:
    """The events of a session that goes on from a transcript."""
    workspace = app.workspace_at(folder) if folder else Path(transcript.workspace or Path.cwd())
    began_us = transcript.events[0][0] or time.time_ns() // 1000
    origin = f"{transcript.agent}:{transcript.session}"
    note = f"What follows was imported from {transcript.agent} (model {transcript.model or 'unknown'})."
    opening: list[Event] = [
        SessionStarted(session=session, workspace=str(workspace), version=__version__, parent=origin),
        PromptSet(
            system=system_prompt(prompt_parts(workspace=workspace, mode=DEFAULT_MODE)),
            tools=Toolbox(app.DEFAULT_TOOLS).specs,
        ),
        NoteAdded(text=f"{note} Its tools had other names than yours.", source="import"),
    ]
    yield from ((began_us, event) for event in opening)
    yield from transcript.events
