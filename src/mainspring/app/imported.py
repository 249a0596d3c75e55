"""What an imported session may not decide: at which addresses models are asked, with the keys and about the
work of whoever resumes it. How many of its events came from elsewhere stands in a file beside its journal.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mainspring.catalog import Sessions
from mainspring.disk.shared_files import SharedFiles
from mainspring.errors import UsageError
from mainspring.events import ModelChosen
from mainspring.journal import JournalReader

_FILE = "imported.json"


class _Imported(msgspec.Struct, frozen=True):
    """So many events were made elsewhere."""

    events: int
    format_version: int = 1


async def note_import(store: Sessions, session: str) -> None:
    """Keeps how many events of a session are not from here."""
    reader = await store.read(session)
    try:
        events = await reader.last_seq()
    finally:
        await reader.close()
    store.files(session).write(_FILE, msgspec.json.encode(_Imported(events)))


def copy_import(source: SharedFiles, target: SharedFiles) -> None:
    """The same of a session that shares the history of another."""
    if (data := source.read(_FILE)) is not None:
        target.write(_FILE, data)


async def is_model_imported(files: SharedFiles, journal: JournalReader) -> bool:
    """Whether the model of a session was chosen elsewhere."""
    data = files.read(_FILE)
    chosen = await journal.last("ModelChosen") if data is not None else None
    return bool(data and chosen and chosen.seq <= msgspec.json.decode(data, type=_Imported).events)


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
