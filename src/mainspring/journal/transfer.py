"""A journal as lines of JSON: a header, its blobs, then one line per event with its hash.

An import makes the same journal with the same hashes, or nothing at all: every line is checked while it is
read, and the header says where the chain must end. Neither direction holds a whole journal in memory.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (apsw's stubs name a type that Python 3.11 does not have)

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal

import apsw
import msgspec

from mainspring.errors import JournalDamaged, JournalForeign, UsageError
from mainspring.events import Blob
from mainspring.journal import tables
from mainspring.journal.checking import check, damaged, survey
from mainspring.journal.file import JournalFile
from mainspring.journal.shelf import Shelf

FORMAT = "mainspring-journal"
VERSION = 1
_COMMIT_EVERY = 5000


_NO_BODY = msgspec.Raw()


class Header(msgspec.Struct, frozen=True, kw_only=True):
    format: str
    version: int
    session: str
    events: int
    head: str
    blobs: Literal["inline", "beside"] = "inline"
    environment: dict[str, str] = {}


class BlobLine(msgspec.Struct, frozen=True, kw_only=True, tag="blob", tag_field="line", omit_defaults=True):
    """A blob; without data it lies beside, in a file named by its hash."""

    sha256: str
    size: int
    data: bytes | None = None


class EventLine(msgspec.Struct, frozen=True, kw_only=True, tag="event", tag_field="line", omit_defaults=True):
    """An event with the bytes its hash covers: the body, or the blob that holds it."""

    seq: int
    time_us: Annotated[int, msgspec.Meta(ge=0, le=2**62)]
    kind: str
    hash: str
    body: msgspec.Raw = _NO_BODY
    body_blob: Blob | None = None


_ENCODE = msgspec.json.Encoder().encode
_DECODE_LINE = msgspec.json.Decoder(BlobLine | EventLine).decode


def export(
    file: JournalFile,
    to: BinaryIO,
    *,
    blobs_beside: Path | None = None,
    readable_only: bool = False,
    environment: Mapping[str, str] | None = None,
) -> Header:
    """Writes a sound journal; of a damaged one, `readable_only` writes what comes before the damage.
    With `blobs_beside` each blob becomes a file in that folder. `environment` tells where it was written."""
    header = Header(
        format=FORMAT,
        version=VERSION,
        session=file.session,
        events=0,
        head="",
        blobs="inline" if blobs_beside is None else "beside",
        environment=dict(environment or {}),
    )
    return file.scan(
        lambda connection: _export(header, connection, to, blobs_beside, readable_only=readable_only)
    )


def import_journal(shelf: Shelf, lines: Iterable[bytes], *, blobs_beside: Path | None = None) -> str:
    """Makes the session that the lines describe, and gives its id."""
    numbered = iter(enumerate(lines, 1))
    header = _header(next(numbered, (1, b""))[1])
    with shelf.new(header.session) as (session, directory), tables.explained(session):
        connection = tables.create(directory / tables.FILE_NAME)
        try:
            _fill(connection, header, numbered, blobs_beside)
            verdict = check(connection)
            if verdict.problem:
                raise _refused(f"after its last line {verdict.problem}", verdict.broken_seq)
        finally:
            connection.close()
    return session


def _export(
    header: Header, connection: apsw.Connection, to: BinaryIO, beside: Path | None, *, readable_only: bool
) -> Header:
    verdict, blobs = survey(connection)
    if verdict.problem and not readable_only:
        raise damaged(header.session, verdict)
    header = msgspec.structs.replace(header, events=verdict.events, head=verdict.head)
    to.write(_ENCODE(header) + b"\n")
    to.writelines(_ENCODE(line) + b"\n" for line in _blob_lines(connection, sorted(blobs), beside))
    rows: Iterator[Any] = connection.execute(
        "SELECT seq, time_us, kind, body, hash FROM events NOT INDEXED ORDER BY seq LIMIT ?",
        (verdict.events,),
    )
    to.writelines(_ENCODE(_event_line(*row)) + b"\n" for row in rows)
    return header


def _blob_lines(connection: apsw.Connection, blobs: list[str], beside: Path | None) -> Iterator[BlobLine]:
    if beside is not None:
        beside.mkdir(parents=True, exist_ok=True)
    for sha256 in blobs:
        data = tables.required_blob(connection, sha256)
        if beside is not None:
            (beside / sha256).write_bytes(data)
        yield BlobLine(sha256=sha256, size=len(data), data=data if beside is None else None)


def _event_line(seq: int, time_us: int, kind: str, stored: bytes, hash_: bytes) -> EventLine:
    blob = tables.referenced(stored)
    body = msgspec.Raw(stored) if blob is None else _NO_BODY
    return EventLine(seq=seq, time_us=time_us, kind=kind, hash=hash_.hex(), body=body, body_blob=blob)


def _header(line: bytes) -> Header:
    try:
        header = msgspec.json.decode(line, type=Header)
    except msgspec.MsgspecError as error:
        raise JournalForeign(
            "This file is not an exported session: its first line is no header.",
            remedy="Give a file that `mainspring export` wrote.",
        ) from error
    if header.format != FORMAT or header.version > VERSION:
        raise JournalForeign(
            f"This file has the format {header.format} {header.version}, and this program reads"
            f" {FORMAT} up to {VERSION}.",
            remedy="Upgrade mainspring.",
        )
    return header


def _fill(
    connection: apsw.Connection, header: Header, lines: Iterator[tuple[int, bytes]], beside: Path | None
) -> None:
    seq, head = 0, tables.GENESIS
    connection.execute("BEGIN")
    for number, text in lines:
        try:
            line: BlobLine | EventLine = _DECODE_LINE(text)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise _refused(f"line {number} cannot be read ({error})", seq + 1) from error
        match line:
            case BlobLine():
                tables.keep_blob(connection, line.sha256, _blob_data(line, number, beside))
            case EventLine():
                stored = _stored(line)
                head = tables.chain(head, seq + 1, line.time_us, line.kind, stored)
                if line.seq != seq + 1 or head.hex() != line.hash:
                    raise _refused(f"line {number}, event {line.seq}, does not match its hash", seq + 1)
                seq += 1
                connection.execute(
                    "INSERT INTO events VALUES (?, ?, ?, ?, ?)", (seq, line.time_us, line.kind, stored, head)
                )
        if number % _COMMIT_EVERY == 0:
            connection.execute("COMMIT")
            connection.execute("BEGIN")
    connection.execute("COMMIT")
    if (seq, head.hex()) != (header.events, header.head):
        raise _refused(f"it ends after event {seq} and should have {header.events} events", seq + 1)


def _stored(line: EventLine) -> bytes:
    if line.body_blob is not None:
        return tables.reference(line.body_blob)
    return bytes(line.body)


def _blob_data(line: BlobLine, number: int, beside: Path | None) -> bytes:
    data = line.data
    if data is None:
        if beside is None:
            raise UsageError("The blobs of this export lie beside it.", remedy="Name the folder they are in.")
        path = beside / line.sha256
        if len(line.sha256) != 64 or not line.sha256.isalnum() or not path.is_file():
            raise _refused(f"the blob of line {number} is not in {beside.name}", None)
        data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != line.sha256:
        raise _refused(f"the blob of line {number} does not match its hash", None)
    return data


def _refused(what: str, seq: int | None) -> JournalDamaged:
    return JournalDamaged(
        f"This export is damaged: {what}. Nothing was imported.", remedy="Export the session again.", seq=seq
    )
