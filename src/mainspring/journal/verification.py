"""Checking a journal from its first event to its last: hash chain, blobs, bodies, and the file itself.

The verdict counts the events that are sound from the first on, and names the first that is not and why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, cast

import msgspec

from mainspring.errors import JournalDamaged
from mainspring.events import Blob, decode
from mainspring.journal import BLOB_LOST, UNDECODABLE, Verification, hashchain
from mainspring.journal.anchor import Anchor
from mainspring.journal.stored import StoredEvents, UnreadableStore

Fault = Callable[[bytes, int, Any], str]
"""What is wrong with a row, given the hash before it and the number that it should have."""


def check(stored: StoredEvents, anchor: Anchor | None = None) -> Verification:
    return survey(stored, anchor)[0]


def survey(stored: StoredEvents, anchor: Anchor | None = None) -> tuple[Verification, set[str]]:
    """The verdict, and the hashes of the blobs that the sound events need; of all sound blobs when no event
    is broken."""
    seen: set[str] = set()
    verdict = against_anchor(_walk(stored, partial(_fault, stored, seen)), anchor, stored)
    problem = verdict.problem or stored.fault_beside_events(seen)
    return msgspec.structs.replace(verdict, problem=problem, blobs=len(seen)), seen


def check_chain(stored: StoredEvents, anchor: Anchor | None) -> Verification:
    """Checks the hashes of all events, without their blobs and without decoding them: what writing needs."""
    return against_anchor(_walk(stored, _chain_fault), anchor, stored)


def against_anchor(verdict: Verification, anchor: Anchor | None, stored: StoredEvents) -> Verification:
    """A verdict that also says whether the journal has the event that its anchor names."""
    if anchor is None or verdict.problem:
        return verdict
    return anchored(verdict, anchor, stored.hash_at(anchor.events).hex())


def anchored(verdict: Verification, anchor: Anchor, found: str) -> Verification:
    """The same, given the hash that the journal has where the anchor is."""
    if verdict.events < anchor.events:
        lost = anchor.events - verdict.events
        problem = (
            f"it ends after event {verdict.events}, and its anchor says that it had {anchor.events}:"
            f" {lost} {'event is' if lost == 1 else 'events are'} lost"
        )
    elif anchor.events and found != anchor.head:
        problem = f"event {anchor.events} is another one than its anchor names: the journal was rewritten"
    else:
        return msgspec.structs.replace(verdict, anchored_seq=anchor.events)
    events = min(verdict.events, anchor.events - 1)
    return msgspec.structs.replace(
        verdict, events=events, problem=problem, broken_seq=events + 1, anchored_seq=anchor.events
    )


def _walk(stored: StoredEvents, fault: Fault) -> Verification:
    """How far the events are sound, from the first on."""
    seq, head = 0, hashchain.GENESIS
    problem, broken = "", None
    try:
        for row in stored.rows():
            problem = fault(head, seq + 1, row)
            if problem:
                broken = seq + 1
                break
            seq, head = seq + 1, row[4]
    except UnreadableStore as error:
        problem, broken = f"the file is corrupt where event {seq + 1} should be ({error})", seq + 1
    return Verification(events=seq, blobs=0, head=head.hex(), problem=problem, broken_seq=broken)


def not_writable(session: str, verdict: Verification) -> JournalDamaged:
    """The refusal to write on a damaged journal, with the command that goes on in a copy of what is sound."""
    return JournalDamaged(
        f"The journal of session {session} is damaged: {verdict.problem}. Nothing was written.",
        remedy=verdict.remedy(session),
        seq=verdict.broken_seq,
    )


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


def _chain_fault(head: bytes, expected: int, row: Any) -> str:
    if row[0] != expected:
        return f"event {expected} is missing, the next one is {row[0]}"
    return "" if hashchain.follows(head, *row) else f"event {expected} does not match its hash"


def _fault(stored: StoredEvents, seen: set[str], head: bytes, expected: int, row: Any) -> str:
    if problem := _chain_fault(head, expected, row):
        return problem
    seq, _, kind, body, _ = row
    try:
        blob = hashchain.referenced(body)
        if blob is not None:
            body = _sound(stored, seen, blob)
        event = decode(kind, body)
        if b'"sha256"' in body:
            for blob in blobs_in(event):
                if blob.sha256 not in seen:
                    _sound(stored, seen, blob)
    except msgspec.MsgspecError as error:
        return f"event {seq} {UNDECODABLE} ({error})"
    except ValueError as error:
        return f"event {seq} {BLOB_LOST}: {error}"
    return ""


def _sound(stored: StoredEvents, seen: set[str], blob: Blob) -> bytes:
    data = stored.blob(blob.sha256)
    seen.add(blob.sha256)
    return data


def blobs_in(value: object) -> Iterator[Blob]:
    if isinstance(value, Blob):
        yield value
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from blobs_in(getattr(value, name))
    elif isinstance(value, tuple):
        for part in cast("tuple[object, ...]", value):
            yield from blobs_in(part)
