"""Old journals always load: each one in tests/journals/vN, for ever, with nothing lost."""

import shutil
from pathlib import Path

import msgspec
import pytest

from mainspring.catalog.transfer import import_journal
from mainspring.events import STORED, Unknown, encode
from mainspring.journal import tables
from mainspring.journal.lines import EventLine

GOLDEN = Path(__file__).parents[1] / "journals"
EXPORTS = sorted(GOLDEN.glob("v*/*.jsonl"))
FILES = sorted(GOLDEN.glob("v*/*.sqlite"))


def sound_events(store, session):
    file = store.shelf.file(session)
    try:
        verdict = file.verify()
        assert verdict.problem == ""
        events = file.read(limit=verdict.events)
        assert len(events) == verdict.events
        return events
    finally:
        file.close()


def event_lines(path):
    lines = path.read_bytes().splitlines()
    return [msgspec.json.decode(line, type=EventLine) for line in lines if b'"event"' in line]


def bodies(path):
    return {line.seq: bytes(line.body) for line in event_lines(path) if bytes(line.body)}


@pytest.mark.parametrize("path", EXPORTS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_old_journals_always_load_from_their_export(store, path):
    with path.open("rb") as lines:
        session = import_journal(store.shelf, lines)
    events = sound_events(store, session)
    stored = bodies(path)
    assert len(stored) >= len(events) - 1
    # A field that was renamed or removed would be missing when the event is encoded again.
    assert {item.seq: encode(item.event)[1] for item in events if item.seq in stored} == stored
    assert {item.kind for item in events if isinstance(item.event, Unknown)} <= {"FromTheFuture"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_old_journals_always_load_from_their_file(store, path):
    (store.shelf.folder / path.stem).mkdir(parents=True)
    shutil.copyfile(path, store.shelf.folder / path.stem / tables.FILE_NAME)
    events = sound_events(store, path.stem)
    with path.with_suffix(".jsonl").open("rb") as lines:
        other = type(store)(store.home / "other")
        import_journal(other.shelf, lines)
    assert sound_events(other, path.stem) == events


def test_every_field_of_every_kind_is_in_a_golden_journal():
    found = {
        (line.kind, field)
        for path in EXPORTS
        for line in event_lines(path)
        for field in msgspec.json.decode(bytes(line.body) or b"[]")
    }
    wanted = {(kind.__name__, field) for kind in STORED for field in kind.__struct_fields__}
    assert sorted(wanted - found) == [], "run tests/journals/make_golden.py under a new name"
