"""A journal in SQLite as lines of JSON, and back.

An import makes the same journal with the same hashes, or nothing at all. Neither direction holds a whole
journal in memory.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (apsw's stubs name a type that Python 3.11 does not have)

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import BinaryIO

import apsw

from mainspring.catalog.folder import SessionFiles
from mainspring.disk.shared_files import NO_FILES, NamedFiles
from mainspring.journal import tables
from mainspring.journal.anchor import Anchor, write_anchor
from mainspring.journal.file import JournalFile
from mainspring.journal.lines import Header, read_header, read_lines, refused, write_journal
from mainspring.journal.verification import check

_COMMIT_EVERY = 5000


def export(
    file: JournalFile,
    to: BinaryIO,
    *,
    blobs_beside: Path | None = None,
    readable_only: bool = False,
    environment: Mapping[str, str] | None = None,
) -> Header:
    """Writes a journal, as `write_journal` does."""
    write = partial(
        write_journal,
        to,
        file.session,
        anchor=file.anchor(),
        blobs_beside=blobs_beside,
        readable_only=readable_only,
        environment=environment,
    )
    return file.scan(lambda stored: write(stored=stored))


def import_journal(
    shelf: SessionFiles,
    lines: Iterable[bytes],
    *,
    blobs_beside: Path | None = None,
    files: NamedFiles = NO_FILES,
) -> str:
    """Makes the session that the lines describe, with files beside it, and gives its id."""
    rest = iter(lines)
    header = read_header(next(rest, b""))
    with shelf.new(header.session, files) as (session, directory), tables.explained(session):
        with closing(tables.create(directory / tables.FILE_NAME)) as connection:
            _fill(connection, header, rest, blobs_beside)
            verdict = check(tables.SqliteEvents(connection))
            if verdict.problem:
                raise refused(f"after its last line {verdict.problem}", verdict.broken_seq)
        write_anchor(directory, Anchor(events=verdict.events, head=verdict.head))
    return session


def _fill(connection: apsw.Connection, header: Header, lines: Iterable[bytes], beside: Path | None) -> None:
    connection.execute("BEGIN")
    for number, item in enumerate(read_lines(header, lines, beside), 1):
        if len(item) == 2:
            tables.keep_blob(connection, *item)
        else:
            connection.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?)", item)
        if number % _COMMIT_EVERY == 0:
            connection.execute("COMMIT")
            connection.execute("BEGIN")
    connection.execute("COMMIT")
