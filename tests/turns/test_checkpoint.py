"""Folds that are kept beside a journal give back what the journal says, or do not count."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import tempfile
from itertools import permutations
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given

from bench.resume import events_of
from mainspring.catalog.sqlite import SqliteSessions
from mainspring.context.history import History, Projection, load_history
from mainspring.context.media import HistoryMedia
from mainspring.events import (
    ApprovalAsked,
    AssistantSaid,
    CallAsked,
    CallEnded,
    CallStarted,
    ChildStarted,
    Compacted,
    Media,
    ModeChosen,
    ModelChosen,
    NoteAdded,
    PromptSet,
    Recorded,
    SessionStarted,
    SpendReserved,
    TurnEnded,
    TurnStarted,
    Undone,
    UserSaid,
)
from mainspring.folds import CHECKPOINT_FILE
from mainspring.folds.ledger import Ledger
from mainspring.folds.shares import Shares
from mainspring.folds.state import State
from mainspring.folds.state_record import FIELDS, record_of
from mainspring.folds.waits import Waits
from mainspring.models.scripted import Script, ScriptedModel
from mainspring.secrets.vault import Vault
from mainspring.testing.memory import MemoryJournal
from mainspring.turns.checkpoint import RestoredFolds, keep_checkpoint, load_checkpoint
from tests.cli.conftest import Machine, lines
from tests.test_properties import CUTS, PLANS, generated, killed_and_resumed
from tests.test_properties import facts as facts_of

MODEL = ScriptedModel(Script(replies=()))
EVENTS = [
    SessionStarted(session="s", workspace="/w", version="0"),
    PromptSet(system="You are a test."),
    UserSaid(text="Go."),
    TurnStarted(turn=1),
    *(event for step in range(1, 5) for event in events_of(step)),
]


def journal_of(*events: Any, session: str = "memory") -> MemoryJournal:
    journal = MemoryJournal(session=session)
    asyncio.run(journal.append(*events))
    return journal


def followed(recorded: list[Recorded], vault: Vault | None = None) -> State:
    state = State(vault)
    for item in recorded:
        state.apply(item)
    return state


def facts(state: State) -> dict[str, Any]:
    return {name: fact for name, fact in facts_of(state).items() if name != "_vault"}


def encoded(state: State) -> bytes:
    """Every byte counts: what a map has first is what came first."""
    return msgspec.json.encode(record_of(state, None))


def keep(path: Path, journal: MemoryJournal, at: int, vault: Vault | None = None) -> None:
    vault = vault or Vault()

    async def kept() -> None:
        projection = Projection(MODEL.encode)
        projection.history = await load_history(journal, MODEL.encode, until=at)
        state = followed(journal.recorded[:at], vault)
        await keep_checkpoint(path, journal, vault, MODEL, seq=at, state=state, projection=projection)

    asyncio.run(kept())


def load(
    path: Path, journal: MemoryJournal, model: Any = MODEL, vault: Vault | None = None
) -> RestoredFolds | None:
    until = len(journal.recorded)
    return asyncio.run(load_checkpoint(path, journal, vault or Vault(), model, until=until))


def messages(history: History) -> list[bytes]:
    async def none(_: Any) -> bytes:
        return b"attached"

    return list(asyncio.run(history.messages(none)))


@generated
@given(plan=PLANS, cut=CUTS, at=CUTS)
def test_what_was_kept_at_any_event_and_the_rest_give_the_whole(plan: Any, cut: int, at: int) -> None:
    recorded = killed_and_resumed(plan, cut)
    journal, at = MemoryJournal(recorded), at % len(recorded) + 1
    with tempfile.TemporaryDirectory() as folder:
        keep(path := Path(folder) / CHECKPOINT_FILE, journal, at)
        found = load(path, journal)
    assert found is not None
    whole = followed(recorded)
    assert facts(found.state) == facts(whole)
    assert encoded(found.state) == encoded(whole)
    projected = asyncio.run(load_history(journal, MODEL.encode))
    is_rebuilt = any(isinstance(item.event, Compacted | Undone) for item in recorded[at:])
    assert (found.history is None) == is_rebuilt
    if found.history is not None:
        assert messages(found.history) == messages(projected)
        assert found.history.is_answered == projected.is_answered
        assert found.history.estimated_tokens(0) == projected.estimated_tokens(0)


@pytest.mark.parametrize("order", list(permutations("abc")))
def test_what_a_fold_has_in_the_order_it_came_in_is_given_back_in_that_order(
    tmp_path: Path, order: tuple[str, ...]
) -> None:
    asked = tuple(CallAsked(call=call, name="do", arguments="{}") for call in ("b", "c", "a"))
    journal = journal_of(
        *EVENTS,
        AssistantSaid(step=5, parts=asked),
        *(CallStarted(call=call, tool="do") for call in order),
        *(ChildStarted(child=f"child-{call}", task="Do it.", call=call) for call in order),
        *(ApprovalAsked(call=call, tool="do", arguments="{}", arguments_sha256="x") for call in order),
        TurnEnded(turn=1, ending="blocked", steps=5),
        TurnStarted(turn=2),
        *(CallEnded(call=call, outcome="ok", output=call) for call in order),
    )
    whole, projected = followed(journal.recorded), asyncio.run(load_history(journal, MODEL.encode))
    for at in range(1, len(journal.recorded) + 1):
        keep(tmp_path / "kept", journal, at)
        found = load(tmp_path / "kept", journal)
        assert found is not None
        assert encoded(found.state) == encoded(whole)
        assert tuple(found.state.children.open) == tuple(f"child-{call}" for call in order)
        assert found.history is not None
        assert messages(found.history) == messages(projected)
    results = msgspec.json.decode(messages(projected)[-1])["results"]
    assert [result["call"] for result in results] == ["b", "c", "a"]


def test_everything_that_a_fold_remembers_is_kept() -> None:
    assert set(vars(State())) == FIELDS | {"_vault"}
    ledger = {"worked_us", "_scopes", "_open", "_held", "_warned", "_has_goal", "reservations", "shares"}
    assert set(vars(Ledger())) == ledger
    assert set(vars(Shares())) == {"open"}
    assert set(vars(Waits())) == {"_open", "_ended", "_answers", "_stirring"}
    learned = {"_counted", "_bytes", "_sent_bytes", "_measured", "bytes_per_token", "fingerprint", "_encode"}
    kept = "_stubbed _messages media _first_unanswered _asked _open _ended _deferred _newest last_seq is_answered"
    assert set(vars(History(MODEL.encode))) == {*learned, *kept.split()}
    assert set(vars(HistoryMedia())) == {"waiting", "_known", "_refused", "_told", "_fetched"}


def test_a_spend_that_a_turn_before_reserved_counts_in_the_scopes_of_its_time(tmp_path: Path) -> None:
    held = SpendReserved(spend="step:9", source="step", model="m", tokens=7, usd=0.5)
    journal = journal_of(*EVENTS, held, TurnStarted(turn=2))
    keep(tmp_path / "kept", journal, len(journal.recorded))
    found = load(tmp_path / "kept", journal)
    assert found is not None
    ledger = found.state.ledger
    assert (ledger.tally("turn").tokens, ledger.tally("session").tokens) == (0, 7 + 4 * 100)


def test_attachments_are_fetched_again(tmp_path: Path) -> None:
    journal = journal_of(*EVENTS)
    blob = asyncio.run(journal.put(b"attached", "image/png"))
    asyncio.run(journal.append(UserSaid(text="Look.", media=(Media(blob=blob, name="a.png"),))))
    keep(tmp_path / "kept", journal, len(journal.recorded))
    found = load(tmp_path / "kept", journal)
    assert found is not None
    assert found.history is not None
    projected = asyncio.run(load_history(journal, MODEL.encode))
    assert messages(found.history) == messages(projected)
    assert found.history.suspects == projected.suspects


@pytest.mark.parametrize(
    "damage", ["missing", "empty", "truncated", "one bit", "no content", "other code", "no chain"]
)
def test_what_is_damaged_or_of_other_code_does_not_count(tmp_path: Path, damage: str) -> None:
    journal, path = journal_of(*EVENTS), tmp_path / "kept"
    keep(path, journal, 10)
    assert load(path, journal) is not None
    data = path.read_bytes()
    content = msgspec.msgpack.decode(data[32:])
    changed = {"other code": {"code": "0"}, "no chain": {"head": ""}, "no content": {"state": {}}}
    other = msgspec.msgpack.encode({**content, **changed.get(damage, {})})
    middle = len(data) // 2
    damaged = {
        "empty": b"",
        "truncated": data[:-1],
        "one bit": data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :],
    }.get(damage, hashlib.sha256(other).digest() + other)
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(damaged)
    assert load(path, journal) is None


def test_what_was_kept_of_another_history_does_not_count(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    keep(path, journal_of(*EVENTS), 10)
    assert load(path, journal_of(*EVENTS)) is not None
    assert load(path, journal_of(*EVENTS, session="a fork")) is None
    assert load(path, journal_of(EVENTS[0], UserSaid(text="Other."), *EVENTS[1:])) is None
    assert load(path, journal_of(*EVENTS[:9])) is None


def test_another_wire_has_the_state_and_projects_the_history_anew(tmp_path: Path) -> None:
    journal, path = journal_of(*EVENTS), tmp_path / "kept"
    keep(path, journal, 10)
    other = ScriptedModel(Script(replies=()), name="another")
    found = load(path, journal, other)
    assert found is not None
    assert found.history is None
    assert facts(found.state) == facts(followed(journal.recorded))


def test_secrets_are_not_kept(tmp_path: Path) -> None:
    secret = "sk-very-secret-0123456789"
    vault = Vault({"API_KEY": secret})
    workspace, model = vault.redact(f"/home/{secret}/w"), vault.redact(f"provider@http://{secret}/#m")
    note = NoteAdded(text="x", source=vault.redact(f"tool {secret}"))
    chosen = ModelChosen(model=model, fallbacks=(model,))
    journal = journal_of(
        SessionStarted(session="s", workspace=workspace, version="0"), *EVENTS[1:], chosen, note
    )
    keep(tmp_path / "kept", journal, len(journal.recorded), vault)
    assert secret.encode() not in (tmp_path / "kept").read_bytes()
    found = load(tmp_path / "kept", journal, vault=vault)
    assert found is not None
    assert found.state.workspace == Path(f"/home/{secret}/w")
    assert found.state.model == f"provider@http://{secret}/#m"
    assert facts(found.state) == facts(followed(journal.recorded, vault))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_long_session_is_kept_resumes_alike_and_the_file_goes_with_it(
    machine: Machine, tmp_path: Path
) -> None:
    model = machine.serve(*[{"text": "Well."}] * 4)
    asyncio.run(_write_long(machine, model))
    assert machine.run("resume", "long").returncode == 0
    file = machine.home / "sessions" / "long" / CHECKPOINT_FILE
    assert file.stat().st_mode & 0o777 == 0o600
    shutil.copytree(machine.home, other := tmp_path / "other")
    (other / "sessions" / "long" / CHECKPOINT_FILE).unlink()
    assert machine.run("resume", "long", "Go on.").returncode == 0
    assert machine.run("resume", "long", "Go on.", MAINSPRING_HOME=str(other)).returncode == 0
    with_file, without = machine.seen[-2:]
    assert with_file.body == without.body
    assert msgspec.json.decode(with_file.body)["messages"][-1]["content"] == "Go on."
    forked = machine.run("fork", "long").stdout.split()[0]
    assert not (machine.home / "sessions" / forked / CHECKPOINT_FILE).exists()
    assert len(lines(machine.run("show", "--json", "long").stdout)) > 2500
    assert machine.run("sessions", "delete", "--yes", "long", forked).returncode == 0
    assert not file.exists()


async def _write_long(machine: Machine, model: str) -> None:
    journal = await SqliteSessions(machine.home).create("long")
    await journal.append(
        SessionStarted(session="long", workspace=str(machine.workspace), version="0"),
        PromptSet(system="You are a test."),
        ModelChosen(model=model),
        ModeChosen(mode="auto"),
        UserSaid(text="Go on for a long time."),
        TurnStarted(turn=1),
    )
    for step in range(1, 510):
        await journal.append(*events_of(step))
    await journal.close()
