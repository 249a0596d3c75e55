"""Forks, replays and comparisons of real sessions."""

import asyncio
from typing import Any

import apsw
import msgspec
import pytest

from mainspring.events import (
    CallStarted,
    ModelChosen,
    NoteAdded,
    SessionStarted,
    SpendReserved,
    TurnEnded,
    Unknown,
    UserSaid,
)
from mainspring.journal import hashchain, tables
from mainspring.models.scripted import Script, ScriptedModel
from mainspring.session.replay import replay
from tests.workspace.sessions import World, say, shell


@pytest.fixture
def world(tmp_path):
    world = World(
        tmp_path,
        shell("echo one > a.txt", "seq 1 9000"),
        say("first done"),
        shell("echo two >> a.txt"),
        say("second done"),
    )
    world.turn("do one")
    return world


def contents(world, session):
    file = world.store.shelf.file(session)
    try:
        assert file.verify().problem == ""
        return file.read(limit=10_000)
    finally:
        file.close()


def test_a_fork_shares_every_event_and_blob_and_goes_on_by_itself(world):
    made = world.command("fork", world.session).split()[0]
    original, copy = world.journal(), contents(world, made)
    assert copy[1:] == original[1:]
    started = copy[0].event
    assert isinstance(started, SessionStarted)
    assert (started.session, started.parent, started.parent_seq) == (made, world.session, len(original))
    parent, world.session = world.session, made
    world.turn("do two")
    assert len(contents(world, parent)) == len(original)
    assert [item.event.text for item in world.journal() if isinstance(item.event, UserSaid)] == [
        "do one",
        "do two",
    ]
    assert (world.root / "a.txt").read_text() == "one\ntwo\n"


def test_a_fork_at_an_event_knows_nothing_of_what_came_later(world):
    world.turn("do two")
    at = world.seq_of(UserSaid, 1) - 1
    made = world.command("fork", world.session, "--at", str(at)).split()[0]
    assert len(contents(world, made)) == at
    world.session = made
    assert "second done" not in str(world.sent())
    assert "There is no event 99999" in world.command("fork", made, "--at", "99999", code=2)


def test_a_fork_does_not_pay_for_its_parent(world):
    script = world.script.read_bytes().replace(b'{"replies"', b'{"price":{"input":5,"output":5},"replies"')
    world.script.write_bytes(script)
    world.turn("do two")
    made = world.command("fork", world.session).split()[0]
    costs = {row.id: row.cost_usd for row in world.store.shelf.sessions()}
    assert costs[world.session] > 0
    assert costs[made] == 0

    async def spent():
        world.session = made
        async with world.open() as session:
            return session.state.ledger.spent_usd

    assert asyncio.run(spent()) == 0


def test_a_fork_can_have_another_model(world, tmp_path):
    other = tmp_path / "other.json"
    other.write_text('{"replies": [{"text": "x"}, {"text": "x"}, {"text": "by another"}]}')
    made = world.command("fork", world.session, "--model", f"scripted@{other}").split()[0]
    assert isinstance(contents(world, made)[-1].event, ModelChosen)
    assert "by another" in world.command("resume", made, "go on", "--max-cost-usd", "1")


def test_a_session_whose_folder_is_gone_goes_on_in_another(world, tmp_path):
    moved = tmp_path / "moved"
    world.root.rename(moved)
    refused = world.command("resume", world.session, "go on", "--max-cost-usd", "1", code=2)
    assert f"mainspring fork {world.session} -C FOLDER" in refused
    assert "is not a folder" in world.command("fork", world.session, "-C", str(tmp_path / "nowhere"), code=2)
    made = world.command("fork", world.session, "-C", str(moved)).split()[0]
    assert contents(world, made)[0].event.workspace == str(moved)
    world.command("resume", made, "go on", "--max-cost-usd", "1", "--mode", "yolo", "--sandbox", "none")
    assert (moved / "a.txt").read_text() == "one\ntwo\n"
    world.session = made
    assert f"From here on the workspace is {moved}." in str(world.sent())


def test_a_fork_in_the_middle_of_a_step_closes_what_had_started_as_unknown(world):
    at = world.seq_of(CallStarted)
    made = world.command("fork", world.session, "--at", str(at)).split()[0]
    world.session = made
    asyncio.run(world._turn(""))
    results = next(message for message in world.sent() if message["role"] == "results")
    assert "outcome is unknown" in results["results"][0]["text"]


def test_every_request_of_a_session_is_recorded_by_its_hash_and_replays_the_same(world):
    world.turn("do two")
    world.command("undo", world.session, "--conversation")
    world.turn("do three")
    reserved = [item.event for item in world.journal() if isinstance(item.event, SpendReserved)]
    assert all(len(event.request_sha256) == 64 for event in reserved)
    assert len({event.request_sha256 for event in reserved}) == len(reserved)
    answer = world.command("replay", world.session)
    assert answer.count(" same\n") == len(reserved)
    assert f"{len(reserved)} requests would be the same." in world.command("replay", world.session, "--check")


class Changed(ScriptedModel):
    def encode(self, message):
        return super().encode(message).replace(b"first done", b"FIRST DONE")


def test_a_replay_names_the_first_request_that_differs_and_what_was_new_in_it(world):
    world.turn("do two")

    async def found():
        reader = await world.store.read(world.session)
        try:
            return [
                item async for item in replay(reader, lambda name: Changed(Script(replies=()), name=name))
            ]
        finally:
            await reader.close()

    requests = asyncio.run(found())
    verdicts = [request.verdict for request in requests]
    assert verdicts == ["same", "same", "different", "different"]
    assert any(b"FIRST DONE" in message for message in requests[2].news)


def test_a_changed_wire_fails_the_check(world, monkeypatch):
    monkeypatch.setattr(
        "mainspring.app.models.build_model", lambda name, _: Changed(Script(replies=()), name=name)
    )
    world.turn("do two")
    monkeypatch.setattr(Changed, "encode", ScriptedModel.encode)
    monkeypatch.setattr(
        "mainspring.app.models.build_model", lambda name, _: Upper(Script(replies=()), name=name)
    )
    assert "would be another request" in world.command("replay", world.session, "--check", code=1)


class Upper(ScriptedModel):
    def encode(self, message):
        return super().encode(message).upper()


def test_a_session_can_be_continued_live_from_an_event(world, tmp_path):
    world.turn("do two")
    other = tmp_path / "other.json"
    other.write_text('{"replies": [{"text": "x"}, {"text": "another end"}]}')
    second_step = world.seq_of(SpendReserved, 1)
    answer = world.command(
        *("replay", world.session, "--from", str(second_step - 1)),
        *("--model", f"scripted@{other}", "--max-cost-usd", "1"),
    )
    assert "another end" in answer


def test_compare_says_where_two_sessions_part(world):
    made = world.command("fork", world.session).split()[0]
    shared = len(world.journal())
    parent = world.session
    world.turn("do two")
    world.session = made
    world.write_script(say("x"), say("x"), say("another answer"))
    world.turn("do something else")
    answer = world.command("compare", parent, made)
    assert f"They share the first {shared} events." in answer
    assert "second done" in answer
    assert "another answer" in answer
    assert "files     a.txt" in answer


def test_a_session_that_was_compacted_and_changed_its_model_replays_the_same(world, tmp_path):
    async def work():
        async with world.open() as session:
            async for _ in session.run("do two"):
                pass
            await session.compact()
            await session.note("mind the tests")
            async for _ in session.run("do three"):
                pass

    world.write_script(*[shell(f"seq 1 {number}000") for number in range(1, 9)], say("done"))
    asyncio.run(work())
    other = tmp_path / "other.json"
    other.write_text('{"replies": []}')
    world.command("resume", world.session, "more", "--model", f"scripted@{other}", "--max-cost-usd", "1")
    kinds = {item.kind for item in world.journal()}
    assert "Compacted" in kinds
    assert "would be the same." in world.command("replay", world.session, "--check")


NESTED = b'{"newer":' + b'{"a":' * 5000 + b"1" + b"}" * 5001


def spoil(world, seq, *, is_chained, spoilt=b'{"effort":"xhigh"}'):
    """Gives an event a body that cannot be decoded, as versions that did not check recorded it, or as somebody
    who changes the file leaves it."""
    path = world.store.directory(world.session) / tables.FILE_NAME
    connection = apsw.Connection(str(path))
    rows: list[Any] = connection.execute("SELECT * FROM events ORDER BY seq").fetchall()
    head = rows[seq - 2][4] if seq > 1 else hashchain.GENESIS
    for found, time_us, kind, body, hash_ in rows[seq - 1 :]:
        body = spoilt if found == seq else body
        kind = "EffortChosen" if found == seq > 1 else kind
        head = hashchain.chain(head, found, time_us, kind, body) if is_chained else hash_
        row = (kind, body, head, found)
        connection.execute("UPDATE events SET kind = ?, body = ?, hash = ? WHERE seq = ?", row)
    connection.close()


def test_a_repaired_fork_has_what_stands_behind_an_event_that_cannot_be_decoded(world):
    world.turn("do two")
    seq, events = world.seq_of(TurnEnded), len(world.journal())
    spoil(world, seq, is_chained=True)
    path = world.store.directory(world.session) / tables.FILE_NAME
    before = path.read_bytes()
    assert "cannot be decoded" in world.command("fork", world.session, code=1)
    assert f"mainspring fork {world.session} --repair" in world.command("verify", world.session, code=1)
    made = world.command("fork", world.session, "--repair").split()[0]
    assert path.read_bytes() == before
    copy = contents(world, made)
    lost, note = copy[seq - 1].event, copy[-1].event
    assert isinstance(lost, Unknown)
    assert msgspec.json.decode(lost.body)["body"] == '{"effort":"xhigh"}'
    assert [item.seq for item in copy] == [*range(1, events + 2)]
    assert isinstance(note, NoteAdded)
    assert (note.source, str(seq) in note.text) == ("repair", True)
    assert [each.event.text for each in copy if isinstance(each.event, UserSaid)] == ["do one", "do two"]
    world.session = made
    world.turn("do three")
    assert "second done" in str(world.sent())


def test_verify_repairs_what_is_damaged_and_nothing_else(world):
    assert world.command("verify", world.session, "--repair").startswith("sound: ")
    seq, events = world.seq_of(TurnEnded), len(world.journal())
    spoil(world, seq, is_chained=True)
    said = world.command("verify", world.session, "--repair")
    assert said.startswith("damaged: ")
    made = said.splitlines()[1]
    assert [item.seq for item in contents(world, made)] == [*range(1, events + 2)]
    assert "exclude each other" in world.command("verify", world.session, "--repair", "--accept", code=2)


def test_a_journal_whose_first_event_cannot_be_decoded_is_repaired(world):
    events = len(world.journal())
    start = {"session": world.session, "workspace": str(world.root), "version": 7}
    spoil(world, 1, is_chained=True, spoilt=msgspec.json.encode(start))
    assert f"mainspring fork {world.session} --repair" in world.command("verify", world.session, code=1)
    made = world.command("verify", world.session, "--repair").splitlines()[1]
    first, *_, note = contents(world, made)
    assert (first.event.workspace, first.event.parent) == (str(world.root), world.session)
    assert "event 1 could not be read" in note.event.text
    assert world.command("verify", made).startswith(f"sound: {events + 1} events")
    parent, world.session = world.session, made
    world.turn("do two")
    assert "second done" in str(world.sent())
    spoil(world, 1, is_chained=True, spoilt=b"[7]")
    assert "-C FOLDER" in world.command("fork", made, "--repair", code=2)
    again = world.command("fork", made, "--repair", "-C", str(world.root)).split()[0]
    assert contents(world, again)[0].event.workspace == str(world.root)
    assert len({parent, made, again}) == 3


def test_a_repaired_fork_does_not_take_over_what_somebody_changed(world):
    spoil(world, world.seq_of(TurnEnded), is_chained=False)
    assert "does not match its hash" in world.command("fork", world.session, "--repair", code=1)
    assert "--repair" not in world.command("verify", world.session, code=1)
    assert len(world.store.shelf.sessions()) == 1


def test_an_event_that_is_nested_too_deeply_cannot_be_decoded_and_spoils_no_list_of_sessions(world):
    seq, events = world.seq_of(TurnEnded), len(world.journal())
    spoil(world, seq, is_chained=True, spoilt=NESTED)
    assert "nested too deeply" in world.command("verify", world.session, code=1)
    assert "cannot be decoded" in world.command("show", world.session, code=1)
    assert world.session in world.command("sessions")
    made = world.command("fork", world.session, "--repair").split()[0]
    assert [item.seq for item in contents(world, made)] == [*range(1, events + 2)]


def test_a_repaired_fork_marks_what_lost_its_content_and_keeps_the_rest(world):
    said = [item.event.text for item in world.journal() if isinstance(item.event, UserSaid)]
    connection = apsw.Connection(str(world.store.directory(world.session) / tables.FILE_NAME))
    connection.execute("DELETE FROM blobs")
    connection.close()
    assert f"mainspring fork {world.session} --repair" in world.command("verify", world.session, code=1)
    assert "is missing" in world.command("fork", world.session, code=1)
    copy = contents(world, world.command("fork", world.session, "--repair").split()[0])
    lost = [item.event for item in copy if isinstance(item.event, Unknown)]
    assert lost
    assert all("is missing" in msgspec.json.decode(each.body)["problem"] for each in lost)
    assert [item.event.text for item in copy if isinstance(item.event, UserSaid)] == said
