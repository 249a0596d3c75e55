"""What a step writes: how often it waits for the disk, and how much."""

import asyncio
from pathlib import Path

import apsw
import pytest

from mainspring.approvals import ModePolicy
from mainspring.events import (
    ApprovalAsked,
    CallEnded,
    CallStarted,
    NoteAdded,
    SpendReserved,
    SpendSettled,
    decode,
    encode,
)
from mainspring.journal import sqlite, tables
from mainspring.models.scripted import ScriptedReply
from mainspring.secrets.vault import Vault
from mainspring.session.session import runtime_of
from mainspring.tools import plan
from mainspring.tools.schema import tool
from mainspring.workspace import Unrecorded
from tests.stage import SESSION, Stage, call, calls, says, take
from tests.synced_disk import SyncedDisk


@pytest.fixture
def slow_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    """What need not be durable waits for what must be, however slow the machine is."""
    monkeypatch.setattr(sqlite, "_DURABLE_WITHIN_S", 3600.0)


@pytest.mark.usefixtures("slow_timer")
@pytest.mark.parametrize("name", ["do", "plan"])
def test_a_step_with_a_call_waits_for_the_disk_twice(tmp_path: Path, name: str) -> None:
    few, many = (_syncs(tmp_path / str(count), *map(_step, [name] * count, range(count))) for count in (1, 3))
    assert many - few == 2 * 2


def _step(name: str, number: int) -> ScriptedReply:
    items = [{"text": f"item {number}", "progress": "doing"}]
    return calls(call(name, {"items": items} if name == "plan" else {"what": str(number)}))


@pytest.mark.usefixtures("slow_timer")
def test_calls_of_one_reply_share_their_commits(tmp_path: Path) -> None:
    alone = _syncs(tmp_path / "1", calls(call("do", {"what": "a"})))
    together = _syncs(tmp_path / "2", calls(*(call("do", {"what": what}) for what in "abcd")))
    assert together == alone


def _syncs(folder: Path, *replies: ScriptedReply) -> int:
    """How often the journal of a session was synced, from its first event to its last."""
    synced: list[int] = []
    stage = Stage(folder, *replies, says("done"))
    stage.tools.append(plan.TOOL)

    async def taken() -> int:
        async with stage.opened() as session:
            before = len(synced)
            await take(session, "go")
            return len(synced) - before

    disk = SyncedDisk(synced.append)
    try:
        return asyncio.run(taken())
    finally:
        disk.unregister()


async def nobody(_question: ApprovalAsked) -> None:
    return None


def test_a_call_starts_in_the_commit_of_its_reply_unless_a_person_is_asked(tmp_path: Path) -> None:
    stage = Stage(tmp_path, calls(call("do", {"what": "a"}), call("publish", {"what": "b"})), says("done"))
    assert stage.take("go", approver=nobody).ending == "blocked"
    said = next(item for item in stage.journal() if item.kind == "AssistantSaid")
    [started] = [item for item in stage.journal() if isinstance(item.event, CallStarted)]
    assert (started.seq, started.time_us) == (said.seq + 1, said.time_us)
    assert stage.effects == ["a"]


def test_what_is_written_is_folded_at_once_and_shown_when_it_is_durable(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(sqlite, "_DURABLE_WITHIN_S", 3600.0)
    stage = Stage(tmp_path)

    async def work() -> None:
        async with stage.opened() as session:
            runtime = runtime_of(session)
            before = runtime.last_seq
            await runtime.record(NoteAdded(text="soon", source="test"), is_durable=False)
            assert (runtime.last_seq, runtime.feed.last_seq) == (before + 1, before)
            assert "test" in session.state.note_sources
            shown = asyncio.create_task(anext(session.subscribe(before)))
            await asyncio.sleep(0)
            assert not shown.done()
            await runtime.record(NoteAdded(text="now"))
            assert (await shown).event == NoteAdded(text="soon", source="test")

    asyncio.run(work())


def test_the_end_of_a_call_is_shown_while_another_call_runs(tmp_path: Path) -> None:
    may_end = asyncio.Event()

    async def last(what: str) -> str:
        """Runs until it is let go."""
        await may_end.wait()
        return what

    stage = Stage(tmp_path, calls(call("do", {"what": "a"}), call("last", {"what": "b"})), says("done"))
    stage.tools.append(tool(last, effect="write"))

    async def work() -> None:
        async with stage.opened() as session:
            async for event in session.run("go"):
                if isinstance(event, CallEnded):
                    may_end.set()

    asyncio.run(work())


class SlowLook(Unrecorded):
    """A time machine whose look before a call takes as long as the test wants."""

    def __init__(self) -> None:
        self.is_looking = asyncio.Event()

    async def begin(self, call: str) -> None:
        self.is_looking.set()
        await asyncio.Event().wait()


@pytest.mark.parametrize("name", ["do", "publish"])
def test_a_call_that_is_started_and_stopped_before_its_tool_began_is_said_not_to_have_run(
    tmp_path: Path, name: str
) -> None:
    stage = Stage(tmp_path, calls(call(name, {"what": "a"})), says("Never."))
    look = SlowLook()

    async def work() -> None:
        async with stage.opened(time_machine=look, policy=ModePolicy("yolo", max_cost_usd=1.0)) as session:
            await session.say("go")
            await look.is_looking.wait()
            await session.stop()

    asyncio.run(work())
    [started], [ended] = stage.events(CallStarted), stage.events(CallEnded)
    assert (ended.call, ended.outcome) == (started.call, "cancelled")
    assert ended.output.startswith("Not run")
    assert stage.effects == []


class CountingVault(Vault):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def redact(self, text: str) -> str:
        self.texts.append(text)
        return super().redact(text)


def test_a_reply_is_searched_for_secrets_once(tmp_path: Path) -> None:
    vault, text = CountingVault(), "a reply that is long enough to hold a secret"
    Stage(tmp_path, calls(call("do", {"what": "a"}), text=text), says("done")).take("go", vault=vault)
    assert vault.texts.count(text) == 1


def test_a_step_with_a_call_writes_less_than_750_bytes(tmp_path: Path) -> None:
    few, many = (_stored_bytes(tmp_path / str(count), count) for count in (20, 120))
    assert (many - few) / 100 < 750


def _stored_bytes(folder: Path, steps: int) -> int:
    """What the events of a session weigh in its journal: kinds, bodies and hashes."""
    stage = Stage(folder, *(_step("do", number) for number in range(steps)), says("done"))
    assert stage.take("go").ending == "done"
    [path] = folder.rglob(tables.FILE_NAME)
    total = "SELECT sum(length(kind) + length(body) + length(hash)) FROM events"
    verdict = stage.store.shelf.file(SESSION).verify()
    assert (verdict.problem, verdict.events) == ("", len(stage.journal()))
    return apsw.Connection(str(path)).execute(total).get


def test_a_number_is_written_when_it_is_not_its_default() -> None:
    zero = float("0")
    assert encode(SpendSettled(spend="a", usd=zero, total_usd=zero)) == ("SpendSettled", b'{"spend":"a"}')
    assert encode(SpendSettled(spend="a", usd=0.5)) == ("SpendSettled", b'{"spend":"a","usd":0.5}')
    old = b'{"spend":"a","source":"step","model":"m","usd":0.0}'
    assert decode("SpendReserved", old) == SpendReserved(spend="a", model="m")
