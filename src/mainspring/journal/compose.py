"""Makes the journal of a session whose events are known already, with the times they had."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (apsw's stubs name a type that Python 3.11 does not have)

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path

from mainspring.events import Blob, Event, encode
from mainspring.journal import tables
from mainspring.journal.shelf import Shelf

Composed = Callable[[str, Path], Iterable[tuple[int, Event]]]
"""The events of a session of this id, each with its time in microseconds; the folder is the session's."""


def compose(shelf: Shelf, events_of: Composed, *, session: str | None = None) -> str:
    """Makes the session, whole or not at all, and gives its id. Times that run back are held."""
    with shelf.new(session) as (name, directory), tables.explained(name):
        connection = tables.create(directory / tables.FILE_NAME)
        try:
            head, last_us = tables.GENESIS, 0
            with connection:
                for seq, (time_us, event) in enumerate(events_of(name, directory), 1):
                    kind, body = encode(event)
                    if len(body) > tables.INLINE_BYTES:
                        blob = Blob(sha256=hashlib.sha256(body).hexdigest(), size=len(body))
                        tables.keep_blob(connection, blob.sha256, body)
                        body = tables.reference(blob)
                    last_us = max(last_us, time_us)
                    head = tables.chain(head, seq, last_us, kind, body)
                    connection.execute(
                        "INSERT INTO events VALUES (?, ?, ?, ?, ?)", (seq, last_us, kind, body, head)
                    )
        finally:
            connection.close()
    return name
