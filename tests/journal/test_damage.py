"""Whatever happens to a journal's bytes, reading says so and says what is left."""

import asyncio
import random
from typing import Any

import apsw
import pytest

from mainspring.errors import JournalDamaged, JournalError, JournalForeign
from mainspring.events import CallEnded, CallStarted, UserSaid
from mainspring.journal import Verification, hashchain, tables
from tests.journal.samples import write

EVENTS = 300


def journal_of(store):
    said = [UserSaid(text=f"{n} " + "words " * 20) for n in range(1, EVENTS - 1)]
    write(store, "one", [*said, UserSaid(text="long " * 20_000), UserSaid(text="last")])
    return store.directory("one") / tables.FILE_NAME


def read_all(store):
    file = store.shelf.file("one")
    try:
        return file.read(limit=EVENTS * 2)
    finally:
        file.close()


def verdict_of(store):
    file = store.shelf.file("one")
    try:
        return file.verify()
    finally:
        file.close()


def tamper(path, *statements):
    connection = apsw.Connection(str(path))
    for statement in statements:
        connection.execute(statement)
    connection.close()


FOREIGN = {
    "a text file": (lambda path: path.write_text("hello\n" * 500), JournalForeign, "not a SQLite database"),
    "an empty file": (lambda path: path.write_bytes(b""), JournalDamaged, "empty file; nothing is readable"),
    "no file": (lambda path: path.unlink(), JournalDamaged, "no journal file; nothing is readable"),
    "a newer version": (
        lambda path: tamper(path, "PRAGMA user_version = 2"),
        JournalForeign,
        "format version 2",
    ),
    "another program's database": (
        lambda path: tamper(path, "PRAGMA application_id = 7"),
        JournalForeign,
        "some other program's database",
    ),
    "lost tables": (lambda path: tamper(path, "DROP TABLE blobs"), JournalDamaged, "lost its tables"),
}


@pytest.mark.parametrize("case", FOREIGN)
def test_a_file_that_is_no_journal_is_refused_by_readers_and_writers(store, case):
    spoil, kind, words = FOREIGN[case]
    spoil(journal_of(store))
    for use in (lambda: read_all(store), lambda: asyncio.run(store.open("one"))):
        with pytest.raises(JournalError) as refused:
            use()
        assert type(refused.value) is kind
        assert words in refused.value.message
        assert refused.value.remedy


TAMPERED = {
    "a changed body": (
        "UPDATE events SET body = CAST(replace(body, '40 ', '41 ') AS BLOB) WHERE seq = 40",
        40,
        "does not match its hash",
    ),
    "a changed time": ("UPDATE events SET time_us = time_us + 1 WHERE seq = 7", 7, "does not match its hash"),
    "a changed kind": ("UPDATE events SET kind = 'NoteAdded' WHERE seq = 1", 1, "does not match its hash"),
    "a changed hash": (
        "UPDATE events SET hash = zeroblob(32) WHERE seq = 300",
        300,
        "does not match its hash",
    ),
    "a missing event": (
        "DELETE FROM events WHERE seq = 100",
        100,
        "event 100 is missing, the next one is 101",
    ),
    "a missing first event": ("DELETE FROM events WHERE seq = 1", 1, "event 1 is missing"),
    "an event in another place": (
        "UPDATE events SET seq = 0 WHERE seq = 5; UPDATE events SET seq = 5 WHERE seq = 6;",
        1,
        "event 1 is missing, the next one is 0",
    ),
    "a body of another type": ("UPDATE events SET body = 'text' WHERE seq = 9", 9, "does not match its hash"),
    "a missing blob": ("DELETE FROM blobs", 299, "is missing"),
    "a changed blob": ("UPDATE blobs SET codec = 'raw', data = x'00'", 299, "does not match its hash"),
    "a blob that is no longer compressed": (
        "UPDATE blobs SET data = x'0000000000'",
        299,
        "cannot be decompressed",
    ),
    "a blob of an unknown codec": ("UPDATE blobs SET codec = 'lzma'", 299, "unknown codec"),
}


@pytest.mark.parametrize("case", TAMPERED)
def test_verify_names_the_first_broken_event_and_why(store, case):
    statement, seq, why = TAMPERED[case]
    tamper(journal_of(store), statement)
    verdict = verdict_of(store)
    assert verdict.broken_seq == seq
    assert verdict.events == seq - 1
    assert why in verdict.problem


def test_a_body_that_no_longer_decodes_is_named_by_reading(store):
    path = journal_of(store)
    connection = apsw.Connection(str(path))
    rows: list[Any] = connection.execute(
        "SELECT seq, time_us, kind, body, hash FROM events ORDER BY seq"
    ).fetchall()
    head = rows[48][4]
    for seq, time_us, kind, body, _hash in rows[49:]:
        body = b'{"text":7}' if seq == 50 else body
        head = hashchain.chain(head, seq, time_us, kind, body)
        connection.execute("UPDATE events SET body = ?, hash = ? WHERE seq = ?", (body, head, seq))
    connection.close()
    with pytest.raises(JournalDamaged, match="Events 1 to 49 are readable") as refused:
        read_all(store)
    assert refused.value.seq == 50
    assert "event 50 cannot be decoded" in verdict_of(store).problem


@pytest.mark.parametrize("events", [0, 49])
@pytest.mark.parametrize(("what", "is_repairable"), [("cannot be decoded", True), ("is missing", False)])
def test_what_has_its_hash_can_be_repaired(events, what, is_repairable):
    broken = Verification(events=events, blobs=0, head="", problem=f"event 50 {what}", broken_seq=50)
    assert ("--repair" in broken.remedy("one")) == is_repairable
    assert ".." not in broken.remedy("one")


def test_a_blob_that_an_event_names_must_be_there(store):
    async def appending():
        journal = await store.create("one")
        blob = await journal.put(b"output " * 100)
        await journal.append(
            CallStarted(call="c", tool="shell"), CallEnded(call="c", outcome="ok", full=blob)
        )
        await journal.close()

    asyncio.run(appending())
    assert verdict_of(store).problem == ""
    tamper(store.directory("one") / tables.FILE_NAME, "DELETE FROM blobs")
    assert verdict_of(store).broken_seq == 2


@pytest.mark.parametrize("part", [0.2, 0.5, 0.9])
def test_a_truncated_file_says_what_is_readable_and_lets_it_be_read(store, part):
    path = journal_of(store)
    whole = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(int(whole * part))
    with pytest.raises(JournalDamaged) as refused:
        read_all(store)
    seq = refused.value.seq
    assert seq is not None
    if seq > 2:
        assert f"Events 1 to {seq - 1} are readable" in refused.value.message
    file = store.shelf.file("one")
    assert [item.seq for item in file.read(until=seq - 1)] == list(range(1, seq))
    file.close()
    with pytest.raises(JournalError):
        asyncio.run(store.open("one"))


@pytest.mark.parametrize("seed", range(60))
def test_flipped_bytes_are_never_silent(store, seed):
    path = journal_of(store)
    original = read_all(store)
    content = bytearray(path.read_bytes())
    chance = random.Random(seed)
    for _ in range(chance.choice([1, 3, 40])):
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)
    try:
        verdict = verdict_of(store)
        events = read_all(store)
    except JournalError:
        return
    if verdict.problem:
        assert events[: verdict.events] == original[: verdict.events]
    else:
        assert events == original
