"""A journal that somebody made up, as an export: its hashes are right, and nothing in it ever happened."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence

from mainspring.events import Event, encode
from mainspring.journal import Verification, hashchain
from mainspring.journal.lines import Header, write_lines


def crafted(
    session: str,
    events: Sequence[Event],
    *,
    began_us: int = 1_700_000_000_000_000,
    blobs: Sequence[bytes] = (),
) -> bytes:
    """The lines of an export with these events and contents."""
    kept = [(hashlib.sha256(each).hexdigest(), each) for each in blobs]
    head, rows = hashchain.GENESIS, list[tuple[int, int, str, bytes, bytes]]()
    for seq, event in enumerate(events, 1):
        kind, body = encode(event)
        head = hashchain.chain(head, seq, began_us + seq, kind, body)
        rows.append((seq, began_us + seq, kind, body, head))
    header = Header.of(session, Verification(events=len(rows), blobs=len(kept), head=head.hex()), None, None)
    to = io.BytesIO()
    write_lines(to, header, kept, rows, blobs_beside=None)
    return to.getvalue()
