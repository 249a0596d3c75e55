"""What an imported session may not decide: its journal was written elsewhere, perhaps by somebody else, and
nothing in it widens what runs here unless a person said so. How many of its events came from elsewhere stands
in a file beside its journal.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mainspring.approvals import LEVELS, LEVELS_WITH_BUDGET, MODES
from mainspring.disk.shared_files import NO_FILES, NamedFiles, SharedFiles
from mainspring.errors import UsageError
from mainspring.events import ModelChosen
from mainspring.journal import JournalReader

_FILE = "imported.json"
_ALL = 1 << 53
_WORK = (
    ("FixStarted", "FixEnded"),
    ("AttemptsStarted", "AttemptsEnded"),
    ("TasksStarted", "TasksEnded"),
)
"""What goes on when its session is resumed, and runs commands that it recorded when it began."""


class ImportNote(msgspec.Struct, frozen=True):
    """So many events were made elsewhere; where the session works counts once a person here named it. What
    was open has an end on record when it `is_settled`, which earlier versions did not do; `settled_seq` is
    the last of these ends, 0 when that is not known."""

    events: int
    is_place_named: bool = False
    is_settled: bool = False
    settled_seq: int = 0
    format_version: int = 1


def keep_note(files: SharedFiles, note: ImportNote) -> None:
    for name, content in _kept(note).items():
        files.write(name, content)


def import_note(files: SharedFiles) -> ImportNote | None:
    """What is known of the import of a session; None of one that began here, or that a person trusts."""
    data = files.read(_FILE)
    return None if data is None else msgspec.json.decode(data, type=ImportNote)


def unsettled_note() -> NamedFiles:
    """What stands beside an imported journal from its first moment: nobody goes on with it as it is."""
    return _kept(ImportNote(_ALL, is_settled=False))


def note_of_copy(source: SharedFiles) -> NamedFiles:
    """The same for a copy of a session in another store."""
    data = source.read(_FILE)
    return NO_FILES if data is None else {_FILE: data}


def _kept(note: ImportNote) -> NamedFiles:
    return {_FILE: msgspec.json.encode(note)}


def forget_note(files: SharedFiles) -> bool:
    """From here on the journal counts as one that began here; False when it did already."""
    return files.remove(_FILE)


def note_of_fork(source: SharedFiles, *, at: int | None, is_place_named: bool) -> NamedFiles:
    """The same for a session that shares all events with another, or those up to `at`; what is open there has
    no end yet if these are not all that settled it."""
    if (note := import_note(source)) is None:
        return NO_FILES
    if at is not None:
        is_settled = note.is_settled and 0 < note.settled_seq <= at
        note = msgspec.structs.replace(note, events=min(note.events, at), is_settled=is_settled)
    named = note.is_place_named or is_place_named
    return _kept(msgspec.structs.replace(note, is_place_named=named))


def made_elsewhere(files: SharedFiles) -> int:
    """How many of the first events of a journal were made elsewhere, whether or not anybody may go on."""
    note = import_note(files)
    return note.events if note else 0


async def imported_events(files: SharedFiles, journal: JournalReader) -> int:
    """How many of the first events of a journal were made elsewhere. `UsageError` when it works in a folder
    that nobody here chose, or would go on with work whose commands were written elsewhere."""
    note = import_note(files)
    if note is None:
        return 0
    resumed = await journal.last("SessionResumed")
    is_resumed_here = resumed is not None and resumed.seq > note.events
    if not (note.is_settled or is_resumed_here):
        again = f"Do it again: mainspring sessions delete {journal.session}, then import it"
        raise UsageError(
            f"The import of {journal.session} was broken off, or made by an earlier version.",
            remedy=f"{again}; {_trusted(journal.session)}",
        )
    if not (note.is_place_named or is_resumed_here):
        raise UsageError(
            f"The session {journal.session} was imported, and works in a folder that nobody here chose.",
            remedy=f"Name it: mainspring fork {journal.session} -C FOLDER; {_trusted(journal.session)}",
        )
    for kinds in _WORK:
        await _check_work(journal, note, kinds)
    return note.events


async def check_goal_is_ours(files: SharedFiles, journal: JournalReader) -> None:
    """`UsageError` when a goal was set elsewhere: its checks and what measures it would run here unasked."""
    if note := import_note(files):
        await _check_work(journal, note, ("GoalSet",))


async def has_work(journal: JournalReader, note: ImportNote) -> bool:
    """Whether something other than a goal would go on with commands that were written elsewhere."""
    return any([await _is_theirs(journal, note, kinds) for kinds in _WORK])


async def _is_theirs(journal: JournalReader, note: ImportNote, kinds: Sequence[str]) -> bool:
    """Whether the last event of these kinds, the first of which begins something, is such a beginning."""
    last = await journal.last(*kinds)
    return last is not None and last.seq <= note.events and last.kind == kinds[0]


async def _check_work(journal: JournalReader, note: ImportNote, kinds: Sequence[str]) -> None:
    if await _is_theirs(journal, note, kinds):
        raise UsageError(
            f"The session {journal.session} was imported, and going on would run commands from its journal.",
            remedy=f"Read it: mainspring show {journal.session}; {_trusted(journal.session)}",
        )


def _trusted(session: str) -> str:
    return f"if its journal can be trusted: mainspring trust session {session}"


def narrower(imported: str, usual: str) -> str:
    """The mode of a journal from elsewhere if it allows less than the one that is usual here, else that."""
    return imported if imported and _freedom(imported) < _freedom(usual) else usual


def _freedom(mode: str) -> tuple[int, bool]:
    """How much a mode or level allows; one that is not known, everything."""
    order = list(MODES)
    known = LEVELS.get(mode, mode)
    return order.index(known) if known in order else len(order), mode in LEVELS_WITH_BUDGET


def check_addresses(
    chosen: ModelChosen, own: Sequence[str], *, is_model_named: bool, is_line_named: bool
) -> None:
    """`UsageError` when a choice that was made elsewhere leads to an address that is none of the user's `own`
    models."""
    wanted: Sequence[str] = () if is_model_named else (chosen.model,)
    for name in (*wanted, *(() if is_line_named else chosen.fallbacks)):
        if "@" in name and not name.startswith("scripted@") and name not in own:
            raise UsageError(
                f"This session was imported, and would ask {name}, with your key if you have one for it.",
                remedy=f"Name a model; if you trust that address: --model {name}",
            )
