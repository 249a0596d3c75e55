"""A damaged export made whole: the events that can be read keep their numbers, and each that cannot has one
of the kind `UNREADABLE` in its place. What comes out is an export again, of a session with an id of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import msgspec

from mainspring.catalog import UNREADABLE
from mainspring.catalog.fork import mended_start, repaired, unreadable
from mainspring.disk.ids import new_id
from mainspring.disk.untrusted import read_untrusted
from mainspring.errors import JournalDamaged, JournalForeign, UsageError
from mainspring.events import SessionStarted
from mainspring.events.decoding import DECODE_ERRORS
from mainspring.journal import hashchain
from mainspring.journal.lines import (
    FORMAT,
    VERSION,
    BlobLine,
    EventLine,
    Header,
    blob_data,
    event_line,
    read_header,
    stored_body,
    write_line,
)

_MOST_LOST = 100_000
_BLOB_BYTES = 1 << 30


class Salvaged(msgspec.Struct, frozen=True, kw_only=True):
    """The header of what was written, the events that could not be read, and how many the end lacks."""

    header: Header
    unreadable: tuple[int, ...] = ()
    missing: int = 0


class _Reading:
    """The events so far. Blobs become files in `folder`, by their hashes."""

    def __init__(self, to: BinaryIO, folder: Path, workspace: str) -> None:
        self._to, self._folder = to, folder
        self.session = new_id()
        self._changes = {"session": self.session} | ({"workspace": workspace} if workspace else {})
        self._before = self.head = hashchain.GENESIS
        self._time_us = 0
        self.seq = 0
        self.lost: list[int] = []

    def take(self, line: EventLine, most: int) -> None:
        if not self.seq < line.seq <= min(most, self.seq + _MOST_LOST):
            return  # came before, or its number cannot be
        while self.seq + 1 < line.seq:
            self._add(self._time_us, *unreadable("", b"", "it is missing"))
            self._before = b""
        kind, body = line.kind, stored_body(line)
        whole = body
        hash_ = hashchain.chain(self._before, line.seq, line.time_us, kind, body) if self._before else b""
        if hash_ and hash_.hex() != line.hash:
            kind, body = unreadable(kind, body, "it does not match its hash")
        else:
            kind, body = repaired(self.blob, kind, body)
        self._before = bytes.fromhex(line.hash)
        self._add(line.time_us, kind, body, whole)

    def blob(self, sha256: str) -> bytes:
        try:
            return read_untrusted(self._folder / sha256, max_bytes=_BLOB_BYTES, root=self._folder)
        except OSError as error:
            raise ValueError(f"blob {sha256[:16]} is missing") from error

    def _add(self, time_us: int, kind: str, body: bytes, whole: bytes = b"") -> None:
        self.seq, self._time_us = self.seq + 1, time_us
        if kind == UNREADABLE:
            self.lost.append(self.seq)
        if self.seq == 1:
            remedy = "Name that folder: mainspring import --salvage -C FOLDER"
            mended = mended_start(body if kind != UNREADABLE else whole, self._changes, remedy=remedy)
            kind, body = SessionStarted.__name__, mended
        self.head = hashchain.chain(self.head, self.seq, time_us, kind, body)
        write_line(self._to, event_line(self.seq, time_us, kind, body, self.head))


def salvage(
    lines: Iterable[bytes], to: BinaryIO, folder: Path, *, workspace: str = "", beside: Path | None = None
) -> Salvaged:
    """Writes the events to `to`, and the blobs into `folder`. A session whose first event cannot be read goes
    on in `workspace`."""
    rest = iter(lines)
    first = next(rest, b"")
    header: Header | None = None
    try:
        header = read_header(first)
    except JournalForeign:
        rest = chain([first], rest)
    reading = _Reading(to, folder, workspace)
    decode_line = msgspec.json.Decoder(BlobLine | EventLine).decode
    most = header.events if header else 2**53
    for number, text in enumerate(rest, 2):
        try:
            line: BlobLine | EventLine = decode_line(text)
            if isinstance(line, BlobLine):
                data = blob_data(line, number, beside)
                (folder / line.sha256).write_bytes(data)
                write_line(to, BlobLine(sha256=line.sha256, size=len(data)))
            else:
                reading.take(line, most)
        except (*DECODE_ERRORS, JournalDamaged, ValueError):
            continue  # an event that is lost so leaves a gap
    if not reading.seq:
        raise UsageError("No event of this file can be read.", remedy="Nothing was imported.")
    made = Header(
        format=FORMAT,
        version=VERSION,
        session=reading.session,
        events=reading.seq,
        head=reading.head.hex(),
        blobs="beside",
    )
    missing = max(header.events - reading.seq, 0) if header else 0
    return Salvaged(header=made, unreadable=tuple(reading.lost), missing=missing)
