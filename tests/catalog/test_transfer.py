import io
import re

import apsw
import pytest

from mainspring.catalog.sqlite import SqliteSessions
from mainspring.catalog.transfer import export, import_journal
from mainspring.errors import JournalDamaged, JournalForeign, UnknownSession, UsageError
from mainspring.events import UserSaid
from mainspring.journal import tables
from tests.journal.samples import write

SAID = [
    UserSaid(text="short"),
    UserSaid(text="long " * 10_000),
    UserSaid(text="ünï\u2028\n"),
    UserSaid(text="end"),
]


@pytest.fixture
def lines(store):
    write(store, "one", SAID, blobs=[b"\x00\x01" * 300, b"tiny"])
    return exported(store)


@pytest.fixture
def other(tmp_path):
    return SqliteSessions(tmp_path / "other")


def exported(store, **options):
    file = store.shelf.file("one")
    to = io.BytesIO()
    export(file, to, **options)
    file.close()
    return to.getvalue().splitlines(keepends=True)


def contents(store):
    file = store.shelf.file("one")
    try:
        return file.read(), file.verify()
    finally:
        file.close()


def test_an_import_is_the_same_journal_with_the_same_hashes(store, other, lines):
    assert import_journal(other.shelf, lines) == "one"
    assert contents(other) == contents(store)
    assert exported(other) == lines
    write(other, "one", [UserSaid(text="goes on")])
    assert contents(other)[1].problem == ""


def test_blobs_can_lie_beside(store, other, tmp_path):
    write(store, "one", SAID, blobs=[b"beside" * 100])
    beside = tmp_path / "blobs"
    lines = exported(store, blobs_beside=beside)
    assert len(list(beside.iterdir())) == 2
    assert max(map(len, lines)) < 1000
    with pytest.raises(UsageError, match="in a separate folder"):
        import_journal(other.shelf, lines)
    import_journal(other.shelf, lines, blobs_beside=beside)
    assert contents(other) == contents(store)


def test_a_damaged_journal_is_exported_only_up_to_the_damage_and_only_when_asked(store, other, lines):
    connection = apsw.Connection(str(store.directory("one") / tables.FILE_NAME))
    connection.execute("UPDATE events SET time_us = 0 WHERE seq = 3")
    connection.close()
    with pytest.raises(JournalDamaged, match=r"its hash\. Events 1 to 2 are readable"):
        exported(store)
    import_journal(other.shelf, exported(store, readable_only=True))
    assert [item.event for item in contents(other)[0]] == SAID[:2]


def test_an_empty_journal_travels_too(store, other):
    write(store, "one", [])
    import_journal(other.shelf, exported(store))
    assert contents(other)[0] == []


SPOILED = {
    "a changed text": (
        lambda lines: [line.replace(b"short", b"shirt") for line in lines],
        "does not match its hash",
    ),
    "a missing event": (lambda lines: [*lines[:5], *lines[6:]], "does not match its hash"),
    "a missing end": (lambda lines: lines[:-1], "ends after event 3 and should have 4"),
    "half a line": (lambda lines: [*lines[:-1], lines[-1][:40]], "line 8 cannot be read"),
    "a line too many": (lambda lines: [*lines, lines[-1]], "line 9, event 4, does not match"),
    "bytes that are no text": (lambda lines: [*lines[:-1], b"\xff\xfe\n"], "line 8 cannot be read"),
    "a changed blob": (
        lambda lines: [lines[0], re.sub(rb'"data":"..', b'"data":"zz', lines[1]), *lines[2:]],
        "blob of line 2 does not match its hash",
    ),
    "missing blobs": (lambda lines: [lines[0], *lines[4:]], "blob [0-9a-f]{12} is missing"),
}


@pytest.mark.parametrize("case", SPOILED)
def test_a_spoiled_export_leaves_nothing_behind(other, lines, case):
    spoil, words = SPOILED[case]
    with pytest.raises(JournalDamaged, match=words) as refused:
        import_journal(other.shelf, spoil(lines))
    assert "Nothing was imported" in refused.value.message
    assert list(other.shelf.folder.iterdir()) == []


def test_a_session_that_exists_is_not_overwritten(store, lines):
    before = contents(store)
    with pytest.raises(UsageError, match="Session one exists already"):
        import_journal(store.shelf, lines)
    assert contents(store) == before


@pytest.mark.parametrize("first", [b"", b"hello\n", b"{}\n", b"[1]\n"])
def test_a_file_that_is_no_export_is_refused(other, first):
    with pytest.raises(JournalForeign, match="not an exported session"):
        import_journal(other.shelf, [first])


def test_an_export_of_a_newer_version_is_refused(other, lines):
    with pytest.raises(JournalForeign, match="Upgrade"):
        import_journal(other.shelf, [lines[0].replace(b'"version":1', b'"version":2'), *lines[1:]])


def test_an_export_cannot_choose_a_path(other, lines):
    with pytest.raises(UnknownSession):
        import_journal(other.shelf, [lines[0].replace(b'"one"', b'"../one"'), *lines[1:]])
