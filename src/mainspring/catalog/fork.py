"""A new session that begins as a copy of another, up to an event.

Numbers, times and bodies are the same, so that whatever refers to an event still does; only the first event
differs: it has the new id, names the parent, and perhaps another workspace. What the parent spent is the
parent's. A repaired copy has an event of the kind `UNREADABLE` in the place of each that cannot be decoded.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (apsw's stubs name a type that Python 3.11 does not have)

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from functools import partial
from typing import Any

import apsw
import msgspec

from mainspring.catalog import UNREADABLE
from mainspring.catalog.folder import SessionFiles
from mainspring.disk.shared_files import NO_FILES, NamedFiles
from mainspring.errors import JournalDamaged, UsageError
from mainspring.events import Origin, SessionStarted, decode, encode
from mainspring.journal import hashchain, tables
from mainspring.journal.anchor import Anchor, write_anchor
from mainspring.journal.stored import Row, StoredEvents
from mainspring.journal.verification import blobs_in, check, damaged

_KEPT_CHARACTERS = 2000


def fork(
    shelf: SessionFiles,
    session: str,
    *,
    at: int | None = None,
    workspace: str = "",
    origin: Origin | None = None,
    is_repaired: bool = False,
    files: NamedFiles = NO_FILES,
) -> tuple[str, int]:
    """Makes the copy, up to event `at` or whole, perhaps for another workspace, with files beside it; gives
    its id and how many events it shares."""
    with shelf.not_deleting(session), closing(shelf.file(session)) as file:
        verdict = file.verify()
        if verdict.problem and not is_repaired and (at is None or at > verdict.events):
            raise damaged(session, verdict)
        until = shared_events(session, file.last_seq() if is_repaired else verdict.events, at)
        with shelf.new(files=files) as (name, directory), tables.explained(name):
            with closing(tables.create(directory / tables.FILE_NAME)) as connection:
                changes = changed_start(name, session, until, workspace, origin)
                items = partial(copied, changes=changes, until=until, is_repaired=is_repaired)
                file.scan(lambda stored: _copy(stored.connection, connection, items(stored)))
                made = check(tables.SqliteEvents(connection))
                if made.problem:
                    raise damaged(session, verdict if verdict.problem else made)
            write_anchor(directory, Anchor(events=made.events, head=made.head))
    return name, until


def shared_events(session: str, events: int, at: int | None) -> int:
    """How many events a fork of a session shares with it; `UsageError` when there are not so many."""
    until = events if at is None else at
    if not 1 <= until <= events:
        raise UsageError(
            f"There is no event {until}: session {session} has {events}.",
            remedy=f"`mainspring show {session}` numbers them.",
        )
    return until


def changed_start(
    name: str, parent: str, until: int, workspace: str, origin: Origin | None
) -> dict[str, Any]:
    """What is different in the first event of a fork."""
    changes: dict[str, Any] = {"session": name, "parent": parent, "parent_seq": until, "origin": origin}
    return changes | ({"workspace": workspace, "project": ""} if workspace else {})


def mended_start(whole: bytes, changes: Mapping[str, Any], *, remedy: str) -> bytes:
    """The body of the first event of a repaired copy: what can be read of one that cannot be decoded."""
    try:
        said = msgspec.json.decode(whole, type=dict[str, Any])
    except (msgspec.MsgspecError, ValueError, RecursionError):
        said = {}
    found: dict[str, Any] = {"workspace": "", "version": "0"}
    for field in msgspec.structs.fields(SessionStarted):
        with suppress(KeyError, msgspec.ValidationError):
            found[field.name] = msgspec.convert(said[field.encode_name], field.type)
    event = SessionStarted(**{**found, **changes})
    if not event.workspace:
        raise UsageError(
            "The first event, which says where the session worked, cannot be read.",
            remedy=remedy,
        )
    return encode(event)[1]


def first_body(stored: bytes, kind: str, changes: dict[str, Any]) -> bytes:
    """The body of the first event of a fork."""
    event = None if hashchain.referenced(stored) else decode(kind, stored)
    if not isinstance(event, SessionStarted):
        parent = changes["parent"]
        raise UsageError(f"Session {parent} does not begin with its start event, so it cannot be forked.")
    return encode(msgspec.structs.replace(event, **changes))[1]


def copied(
    stored: StoredEvents, changes: dict[str, Any], until: int, *, is_repaired: bool
) -> Iterator[str | Row]:
    """The events of a fork as they are kept, and before each the hashes of the blobs that it needs."""
    head = before = hashchain.GENESIS
    for seq, time_us, kind, body, hash_ in stored.rows(until):
        if not hashchain.follows(before, seq, time_us, kind, body, hash_):
            raise JournalDamaged(
                f"Event {seq} does not match its hash: somebody changed it, and it is not copied.",
                remedy="Share fewer events (--at).",
                seq=seq,
            )
        before = hash_
        if seq == 1:
            kind, body = _first(stored, kind, body, changes, is_repaired=is_repaired)
        elif is_repaired:
            kind, body = repaired(stored.blob, kind, body)
        yield from _needed(stored, kind, body)
        head = hashchain.chain(head, seq, time_us, kind, body)
        yield seq, time_us, kind, body, head


def _first(
    stored: StoredEvents, kind: str, body: bytes, changes: dict[str, Any], *, is_repaired: bool
) -> tuple[str, bytes]:
    if is_repaired and repaired(stored.blob, kind, body)[0] != kind:
        remedy = f"Name that folder: mainspring fork {changes['parent']} --repair -C FOLDER"
        return SessionStarted.__name__, mended_start(body, changes, remedy=remedy)
    return kind, first_body(body, kind, changes)


def repaired(blob: Callable[[str], bytes], kind: str, body: bytes) -> tuple[str, bytes]:
    """The event, or one that holds it as text and says why it, or what it names, cannot be read."""
    whole = body
    try:
        if spilled := hashchain.referenced(body):
            whole = blob(spilled.sha256)
        for each in blobs_in(decode(kind, whole)):
            blob(each.sha256)
    except (msgspec.MsgspecError, ValueError) as error:
        return unreadable(kind, whole, str(error))
    return kind, body


def unreadable(kind: str, whole: bytes, problem: str) -> tuple[str, bytes]:
    """What stands in the place of an event that cannot be read. What is kept of it fits without a blob."""
    text = whole.decode("utf-8", "replace")[:_KEPT_CHARACTERS]
    return UNREADABLE, msgspec.json.encode({"kind": kind, "problem": problem, "body": text})


def _needed(stored: StoredEvents, kind: str, body: bytes) -> Iterator[str]:
    spilled = hashchain.referenced(body)
    if spilled is not None:
        yield spilled.sha256
        body = stored.blob(spilled.sha256)
    if b'"sha256"' in body:
        yield from (blob.sha256 for blob in blobs_in(decode(kind, body)))


def _copy(source: apsw.Connection, to: apsw.Connection, items: Iterator[str | Row]) -> None:
    with to:
        for item in items:
            if isinstance(item, str):
                _copy_blob(source, to, bytes.fromhex(item))
            else:
                to.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?)", item)


def _copy_blob(source: apsw.Connection, to: apsw.Connection, key: bytes) -> None:
    if to.execute("SELECT 1 FROM blobs WHERE sha256 = ?", (key,)).get is None:
        row: Any = source.execute("SELECT * FROM blobs WHERE sha256 = ?", (key,)).fetchone()
        to.execute("INSERT INTO blobs VALUES (?, ?, ?, ?)", row)
