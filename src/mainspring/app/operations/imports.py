"""Brings sessions in: those that an export wrote, and session files of other agents."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

import msgspec

from mainspring import __version__
from mainspring.app.build import DEFAULT_TOOLS
from mainspring.app.imported import unsettled_note
from mainspring.app.known import workspace_at
from mainspring.app.operations.import_settling import is_same_folder, settle_import
from mainspring.app.policies import DEFAULT_MODE
from mainspring.app.records import compose_session, recording, vault_of
from mainspring.app.stores import salvage, sessions_of
from mainspring.catalog import reading
from mainspring.context.prompt import context_message, prompt_parts, system_prompt
from mainspring.disk.scratch import ScratchFolder
from mainspring.disk.shared_files import NO_FILES, NamedFiles
from mainspring.disk.untrusted import read_untrusted_lines
from mainspring.engines.transcripts import Transcript
from mainspring.engines.transcripts.lines import read_transcript
from mainspring.errors import JournalForeign
from mainspring.events import Event, NoteAdded, Origin, PromptSet, SessionStarted
from mainspring.events.counts import plural
from mainspring.journal import last_event
from mainspring.settings import Config
from mainspring.tools.toolbox import Toolbox

_EVENTS_BEFORE = 3
_MAX_LINE_BYTES = 128 << 20  # a blob is one line


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """A session that was brought in. `agent` is empty for one of ours; else so many of the lines in its file
    became `events`, and so many were left out. Of a damaged export some events were `unreadable`, and so many
    are `missing` at its end. With `had_open_work`, what it was in the middle of was ended; with
    `runs_commands`, going on with that is refused. It works `elsewhere` when nobody named that folder."""

    session: str
    agent: str = ""
    events: int = 0
    left_out: int = 0
    unreadable: tuple[int, ...] = ()
    missing: int = 0
    had_open_work: bool = False
    runs_commands: bool = False
    elsewhere: str = ""


def file_lines(file: Path) -> Iterator[bytes]:
    """The lines of a session file, however large it is."""
    return read_untrusted_lines(file, max_line_bytes=_MAX_LINE_BYTES)


async def import_session(
    config: Config,
    lines: Iterable[bytes],
    *,
    here: Path,
    workspace: Path | None = None,
    blobs: Path | None = None,
    is_salvaged: bool = False,
    is_trusted: bool = False,
) -> Imported:
    """Reads what an export wrote, checking every hash, or a session file of Claude Code or Codex, which goes
    on in `workspace`, else where it was, else `here`. Of a damaged export, `is_salvaged` brings what is whole
    as a new session. Unless it `is_trusted`, nothing in it widens what runs here, and what is open ends."""
    files = NO_FILES if is_trusted else unsettled_note()
    imported = await _brought(config, lines, here, workspace, blobs, files, is_salvaged=is_salvaged)
    if is_trusted:
        elsewhere = await _elsewhere(config, imported.session, workspace) if workspace else ""
        return msgspec.structs.replace(imported, elsewhere=elsewhere)
    settled = await settle_import(config, imported.session, place=workspace or here)
    return msgspec.structs.replace(
        imported,
        had_open_work=settled.had_open_work,
        runs_commands=settled.runs_commands,
        elsewhere="" if settled.is_place_named else str(settled.workspace),
    )


async def _elsewhere(config: Config, session: str, wanted: Path) -> str:
    """Where a session works when that is not the folder that was named: an export goes on where it was."""
    store = sessions_of(config)
    async with reading(store, session) as journal:
        started = await last_event(journal, SessionStarted)
    place = Path(vault_of(store, session, config).expand(started.workspace if started else ""))
    return "" if await asyncio.to_thread(is_same_folder, place, wanted) else str(place)


async def _brought(
    config: Config,
    lines: Iterable[bytes],
    here: Path,
    workspace: Path | None,
    blobs: Path | None,
    files: NamedFiles,
    *,
    is_salvaged: bool,
) -> Imported:
    rest = iter(lines)
    first = next(rest, b"")
    transcript = read_transcript(first, rest, first_seq=_EVENTS_BEFORE + 1)
    if transcript is None:
        lines = chain([first], rest)
        if is_salvaged:
            return await _salvaged(config, lines, workspace, blobs, files)
        session = await sessions_of(config).import_lines(lines, blobs_beside=blobs, files=files)
        return Imported(session=session)
    if not transcript.events:
        raise JournalForeign("This session file has no messages.", remedy="Nothing was imported.")
    place = workspace_at(workspace) if workspace else Path(transcript.workspace or here)
    session = await compose_session(
        lambda name: _events(transcript, name, place, config.origin), config, files
    )
    return Imported(
        session=session,
        agent=transcript.agent,
        events=len(transcript.events),
        left_out=transcript.left_out,
    )


async def _salvaged(
    config: Config, lines: Iterable[bytes], workspace: Path | None, blobs: Path | None, files: NamedFiles
) -> Imported:
    store, folder = sessions_of(config), str(workspace_at(workspace)) if workspace else ""
    with ScratchFolder() as scratch, tempfile.TemporaryFile() as kept:
        made = await asyncio.to_thread(salvage, lines, kept, scratch.path, workspace=folder, beside=blobs)
        kept.seek(0)
        whole = chain([msgspec.json.encode(made.header)], kept)
        session = await store.import_lines(whole, blobs_beside=scratch.path, files=files)
    if made.unreadable or made.missing:
        async with recording(session, config) as recorder:
            await recorder.record(NoteAdded(text=_lost(made.unreadable, made.missing), source="repair"))
    return Imported(session=session, unreadable=made.unreadable, missing=made.missing)


def _lost(unreadable: Sequence[int], missing: int) -> str:
    events = ", ".join(map(str, unreadable))
    said = [f"what was recorded as event {events} could not be read"] if events else []
    said += [f"{plural(missing, 'event')} at its end are missing"] if missing else []
    return f"This session was made of a damaged export: {', and '.join(said)}."


def _events(
    transcript: Transcript, session: str, workspace: Path, origin: Origin
) -> Iterator[tuple[int, Event]]:
    """The events of a session that goes on from a transcript."""
    began_us = transcript.events[0][0] or time.time_ns() // 1000
    parent = f"{transcript.agent}:{transcript.session}"
    note = f"What follows was imported from {transcript.agent} (model {transcript.model or 'unknown'})."
    parts = prompt_parts(workspace=workspace, mode=DEFAULT_MODE)
    opening: list[Event] = [
        SessionStarted(
            session=session, workspace=str(workspace), version=__version__, parent=parent, origin=origin
        ),
        PromptSet(
            system=system_prompt(parts), tools=Toolbox(DEFAULT_TOOLS).specs, context=context_message(parts)
        ),
        NoteAdded(text=f"{note} Its tools had other names than yours.", source="import"),
    ]
    yield from ((began_us, event) for event in opening)
    yield from transcript.events
