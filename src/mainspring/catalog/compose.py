"""Makes the journal of a session whose events are known already, with the times they had."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (apsw's stubs name a type that Python 3.11 does not have)

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import partial

from mainspring.catalog.folder import SessionFiles
from mainspring.disk.shared_files import NO_FILES, NamedFiles
from mainspring.events import Event, encode
from mainspring.journal import KnownEvents, hashchain, tables
from mainspring.journal.anchor import Anchor, write_anchor
from mainspring.journal.stored import Row


def compose(
    shelf: SessionFiles,
    events_of: KnownEvents,
    *,
    session: str | None = None,
    files: NamedFiles = NO_FILES,
) -> str:
    """Makes the session with files beside it, whole or not at all. Times that run back are held."""
    with shelf.new(session, files) as (name, directory), tables.explained(name):
        seq, head = 0, hashchain.GENESIS
        with closing(tables.create(directory / tables.FILE_NAME)) as connection, connection:
            for row in composed(events_of(name, directory), partial(tables.keep_blob, connection)):
                connection.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?)", row)
                seq, head = row[0], row[4]
        write_anchor(directory, Anchor(events=seq, head=head.hex()))
    return name


def composed(events: Iterable[tuple[int, Event]], keep: Callable[[str, bytes], object]) -> Iterator[Row]:
    """The events as they are kept; bodies that are blobs are given to `keep` before."""
    head, last_us = hashchain.GENESIS, 0
    for seq, (time_us, event) in enumerate(events, 1):
        kind, body = encode(event)
        body = hashchain.stored_form(body, keep)
        last_us = max(last_us, time_us)
        head = hashchain.chain(head, seq, last_us, kind, body)
        yield seq, last_us, kind, body, head
