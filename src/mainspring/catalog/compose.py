"""Makes the journal of a session whose events are known already, with the times they had."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (apsw's stubs name a type that Python 3.11 does not have)

from __future__ import annotations

from contextlib import closing
from functools import partial

from mainspring.catalog.folder import SessionFiles
from mainspring.events import encode
from mainspring.journal import KnownEvents, hashchain, tables
from mainspring.journal.anchor import Anchor, write_anchor


def compose(shelf: SessionFiles, events_of: KnownEvents, *, session: str | None = None) -> str:
    """Makes the session, whole or not at all, and gives its id. Times that run back are held."""
    with shelf.new(session) as (name, directory), tables.explained(name):
        seq, head, last_us = 0, hashchain.GENESIS, 0
        with closing(tables.create(directory / tables.FILE_NAME)) as connection, connection:
            for seq, (time_us, event) in enumerate(events_of(name, directory), 1):
                kind, body = encode(event)
                body = hashchain.stored_form(body, partial(tables.keep_blob, connection))
                last_us = max(last_us, time_us)
                head = hashchain.chain(head, seq, last_us, kind, body)
                connection.execute(
                    "INSERT INTO events VALUES (?, ?, ?, ?, ?)", (seq, last_us, kind, body, head)
                )
        write_anchor(directory, Anchor(events=seq, head=head.hex()))
    return name
