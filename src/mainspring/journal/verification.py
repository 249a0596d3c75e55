"""Checking a journal from its first event to its last: hash chain, blobs, bodies, and the file itself.

The verdict counts the events that are sound from the first on, and names the first that is not and why.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (apsw's stubs name a type that Python 3.11 does not have)

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apsw
import msgspec

from mainspring.errors import JournalDamaged
from mainspring.events import Blob, decode
from mainspring.journal import Verification, hashchain, tables


def check(connection: apsw.Connection) -> Verification:
    return survey(connection)[0]


def survey(connection: apsw.Connection) -> tuple[Verification, set[str]]:
    """The verdict, and the hashes of the blobs that the sound events need; of all sound blobs when no event
    is broken."""
    seen: set[str] = set()
    seq, head = 0, hashchain.GENESIS
    problem, broken = "", None
    try:
        for found, time_us, kind, body, hash_ in _rows(connection):
            problem = _fault(connection, seen, head, seq + 1, (found, time_us, kind, body, hash_))
            if problem:
                broken = seq + 1
                break
            seq, head = seq + 1, hash_
    except (apsw.CorruptError, UnicodeDecodeError) as error:
        problem, broken = f"the file is corrupt where event {seq + 1} should be ({error})", seq + 1
    if not problem:
        problem = _fault_beside_events(connection, seen)
    verdict = Verification(events=seq, blobs=len(seen), head=head.hex(), problem=problem, broken_seq=broken)
    return verdict, seen


def damaged(session: str, verdict: Verification) -> JournalDamaged:
    """The error for what the verdict found, which says what is readable all the same."""
    remedy = f"`mainspring export --readable {session}` saves what is readable."
    match verdict.events:
        case 0:
            readable, remedy = "No event is readable.", "Restore it from a backup or an export."
        case 1:
            readable = "Event 1 is readable."
        case count:
            readable = f"Events 1 to {count} are readable."
    return JournalDamaged(
        f"The journal of session {session} is damaged: {verdict.problem}. {readable}",
        remedy=remedy,
        seq=verdict.broken_seq,
    )


def _rows(connection: apsw.Connection) -> Iterator[Any]:
    # NOT INDEXED: the order and the content come from the table, never from an index that may be damaged.
    return connection.execute("SELECT seq, time_us, kind, body, hash FROM events NOT INDEXED ORDER BY seq")


def _fault(connection: apsw.Connection, seen: set[str], head: bytes, expected: int, row: Any) -> str:
    seq, time_us, kind, body, hash_ = row
    if seq != expected:
        return f"event {expected} is missing, the next one is {seq}"
    try:
        if not hashchain.follows(head, seq, time_us, kind, body, hash_):
            return f"event {seq} does not match its hash"
        blob = hashchain.referenced(body)
        if blob is not None:
            body = _sound(connection, seen, blob)
        event = decode(kind, body)
        if b'"sha256"' in body:
            for blob in blobs_in(event):
                if blob.sha256 not in seen:
                    _sound(connection, seen, blob)
    except msgspec.MsgspecError as error:
        return f"event {seq} cannot be decoded ({error})"
    except ValueError as error:
        return f"event {seq} has a fault: {error}"
    return ""


def _sound(connection: apsw.Connection, seen: set[str], blob: Blob) -> bytes:
    data = tables.required_blob(connection, blob.sha256)
    seen.add(blob.sha256)
    return data


def blobs_in(value: object) -> Iterator[Blob]:
    if isinstance(value, Blob):
        yield value
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from blobs_in(getattr(value, name))
    elif isinstance(value, tuple):
        for part in value:
            yield from blobs_in(part)


def _fault_beside_events(connection: apsw.Connection, seen: set[str]) -> str:
    """A fault in blobs that no event names, or in pages that no event needs; `seen` gains the sound blobs."""
    rows: Iterator[Any] = connection.execute("SELECT sha256, size, codec, data FROM blobs NOT INDEXED")
    try:
        for key, size, codec, data in rows:
            if key.hex() not in seen:
                tables.checked(key.hex(), size, codec, data)
                seen.add(key.hex())
        found: str = connection.execute("PRAGMA integrity_check(1)").get
    except (ValueError, TypeError, AttributeError) as error:
        return f"a blob cannot be read ({error})"
    except apsw.CorruptError as error:
        return f"the file is corrupt behind its events ({error})"
    return "" if found == "ok" else f"the file is corrupt ({found})"
