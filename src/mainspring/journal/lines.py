"""The lines of an exported journal: a header, its blobs, then one line per event with its hash.

Reading checks every line, and that the chain ends where the header says. Holds no whole journal in memory,
and does not know how a journal is kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, BinaryIO, Literal

import msgspec

from mainspring.disk.untrusted import read_untrusted
from mainspring.errors import JournalDamaged, JournalForeign, UsageError
from mainspring.events import Blob
from mainspring.events.decoding import DECODE_ERRORS
from mainspring.journal import Verification, hashchain
from mainspring.journal.anchor import Anchor
from mainspring.journal.stored import Row, StoredEvents
from mainspring.journal.verification import damaged, survey

FORMAT = "mainspring-journal"
VERSION = 1

_NO_BODY = msgspec.Raw()


class Header(msgspec.Struct, frozen=True, kw_only=True):
    format: str
    version: int
    session: str
    events: int
    head: str
    blobs: Literal["inline", "beside"] = "inline"
    environment: dict[str, str] = {}

    @classmethod
    def of(
        cls, session: str, verdict: Verification, beside: Path | None, environment: Mapping[str, str] | None
    ) -> Header:
        """The header of the sound events of a journal."""
        return cls(
            format=FORMAT,
            version=VERSION,
            session=session,
            events=verdict.events,
            head=verdict.head,
            blobs="inline" if beside is None else "beside",
            environment=dict(environment or {}),
        )


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


def write_journal(
    to: BinaryIO,
    session: str,
    stored: StoredEvents,
    anchor: Anchor | None,
    *,
    blobs_beside: Path | None = None,
    readable_only: bool = False,
    environment: Mapping[str, str] | None = None,
) -> Header:
    """Writes a sound journal; of a damaged one, `readable_only` writes what comes before the damage.
    With `blobs_beside` each blob becomes a file in that folder. `environment` tells where it was written."""
    verdict, blobs = survey(stored, anchor)
    if verdict.problem and not readable_only:
        raise damaged(session, verdict)
    header = Header.of(session, verdict, blobs_beside, environment)
    contents = ((sha256, stored.blob(sha256)) for sha256 in sorted(blobs))
    write_lines(to, header, contents, stored.rows(verdict.events), blobs_beside=blobs_beside)
    return header


def write_lines(
    to: BinaryIO,
    header: Header,
    blobs: Iterable[tuple[str, bytes]],
    rows: Iterable[Row],
    *,
    blobs_beside: Path | None,
) -> None:
    to.write(_ENCODE(header) + b"\n")
    to.writelines(_ENCODE(line) + b"\n" for line in _blob_lines(blobs, blobs_beside))
    to.writelines(_ENCODE(event_line(*row)) + b"\n" for row in rows)


def _blob_lines(blobs: Iterable[tuple[str, bytes]], beside: Path | None) -> Iterator[BlobLine]:
    if beside is not None:
        beside.mkdir(parents=True, exist_ok=True)
    for sha256, data in blobs:
        if beside is not None:
            (beside / sha256).write_bytes(data)
        yield BlobLine(sha256=sha256, size=len(data), data=data if beside is None else None)


def event_line(seq: int, time_us: int, kind: str, stored: bytes, hash_: bytes) -> EventLine:
    blob = hashchain.referenced(stored)
    body = msgspec.Raw(stored) if blob is None else _NO_BODY
    return EventLine(seq=seq, time_us=time_us, kind=kind, hash=hash_.hex(), body=body, body_blob=blob)


def read_header(line: bytes) -> Header:
    try:
        header = msgspec.json.decode(line, type=Header)
    except DECODE_ERRORS as error:
        raise JournalForeign(
            "This file is not an exported session: its first line is not a header.",
            remedy="Give a file that `mainspring export` wrote.",
        ) from error
    if header.format != FORMAT or header.version > VERSION:
        raise JournalForeign(
            f"This file has the format {header.format} {header.version}, and this program reads"
            f" {FORMAT} up to {VERSION}.",
            remedy="Upgrade mainspring.",
        )
    return header


def read_lines(
    header: Header, lines: Iterable[bytes], beside: Path | None
) -> Iterator[tuple[str, bytes] | Row]:
    """The blobs, each by its hash, and the events of the lines after the header, checked."""
    seq, head = 0, hashchain.GENESIS
    decode_line = msgspec.json.Decoder(BlobLine | EventLine).decode
    for number, text in enumerate(lines, 2):
        try:
            line: BlobLine | EventLine = decode_line(text)
        except DECODE_ERRORS as error:
            raise refused(f"line {number} cannot be read ({error})", seq + 1) from error
        match line:
            case BlobLine():
                yield line.sha256, blob_data(line, number, beside)
            case EventLine():
                stored = stored_body(line)
                head = hashchain.chain(head, seq + 1, line.time_us, line.kind, stored)
                if line.seq != seq + 1 or head.hex() != line.hash:
                    raise refused(f"line {number}, event {line.seq}, does not match its hash", seq + 1)
                seq += 1
                yield seq, line.time_us, line.kind, stored, head
    if (seq, head.hex()) != (header.events, header.head):
        raise refused(f"it ends after event {seq} and should have {header.events} events", seq + 1)


def stored_body(line: EventLine) -> bytes:
    """The body as a journal keeps it."""
    if line.body_blob is not None:
        return hashchain.reference(line.body_blob)
    return bytes(line.body)


def write_line(to: BinaryIO, line: BlobLine | EventLine) -> None:
    to.write(_ENCODE(line) + b"\n")


def blob_data(line: BlobLine, number: int, beside: Path | None) -> bytes:
    """The bytes of a blob, which have its hash."""
    data = line.data
    if data is None:
        if beside is None:
            raise UsageError(
                "The blobs of this export are in a separate folder.", remedy="Name that folder with --blobs."
            )
        path = beside / line.sha256
        try:
            if len(line.sha256) != 64 or not line.sha256.isalnum():
                raise FileNotFoundError
            data = read_untrusted(path, max_bytes=line.size, root=beside)
        except OSError as error:
            raise refused(f"the blob of line {number} is not in {beside.name}", None) from error
    if hashlib.sha256(data).hexdigest() != line.sha256:
        raise refused(f"the blob of line {number} does not match its hash", None)
    return data


def refused(what: str, seq: int | None) -> JournalDamaged:
    return JournalDamaged(
        f"This export is damaged: {what}. Nothing was imported.",
        remedy="Export the session again, or import what is whole of it with --salvage.",
        seq=seq,
    )
