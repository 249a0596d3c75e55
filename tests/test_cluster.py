"""What is asked of machines that share a store: nothing lost, nothing twice, an end for everything, whatever
goes wrong meanwhile. And that the program which says so would notice if it were otherwise."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mainspring.catalog.postgres import PostgresSessions
from mainspring.events import (
    AssistantSaid,
    CallAsked,
    CallEnded,
    CallStarted,
    SessionStarted,
    TurnEnded,
    TurnStarted,
    Usage,
    UserSaid,
)
from tests import ROOT
from tests.cluster.proof import Proof, Size
from tests.postgres import execute, postgres
from tests.temporal import temporal

_SAMPLE = Size(sessions=4, goals=1, events_between=20, strikes=10)
_WHOLE = Size(sessions=200, goals=20, events_between=80, strikes=60)


def _prove(folder: Path, seed: int, size: Size, *, is_dispatched: bool = False) -> None:
    proof = Proof(folder, seed, size, temporal() if is_dispatched else None)
    print(f"seed {seed}; again with MAINSPRING_PROOF_SEED={seed}")
    proof.run()
    judged = proof.judged()
    print(json.dumps({"faults": proof.struck, **judged["counts"], "refused": proof.refused}))
    assert judged["wrong"] == []
    counts = judged["counts"]
    assert counts["told"] == size.sessions + size.goals
    assert counts["turns"] >= size.sessions
    assert counts["goals"] >= size.goals
    assert sum(count for name, count in counts.items() if name.startswith("calls: ")) >= 3 * counts["told"]
    assert counts["acknowledged events"] > counts["effects"]
    assert proof.struck.total() >= size.strikes
    # What is set aside after three crashes waits for a person; that many in one session are no chance.
    assert proof.retried <= size.sessions // 20 + 1


def _seed() -> int:
    return int(os.environ.get("MAINSPRING_PROOF_SEED") or random.SystemRandom().randrange(1 << 31))


def test_a_few_sessions_lose_nothing_and_do_nothing_twice_on_machines_that_fail(tmp_path: Path) -> None:
    _prove(tmp_path, 20, _SAMPLE)


@pytest.mark.proof
@pytest.mark.timeout(3600)
def test_many_sessions_lose_nothing_and_do_nothing_twice_on_machines_that_fail(tmp_path: Path) -> None:
    _prove(tmp_path, _seed(), _WHOLE)


@pytest.mark.proof
@pytest.mark.timeout(3600)
def test_many_sessions_that_temporal_gives_out_lose_nothing_and_do_nothing_twice(tmp_path: Path) -> None:
    _prove(tmp_path, _seed(), _WHOLE, is_dispatched=True)


LABEL = "s0-0"
CALL = CallAsked(call="c1", name="shell", arguments=json.dumps({"command": f"echo {LABEL} >> effects"}))


class Left:
    """What a sound run of one session leaves, to be spoiled."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.address = folder, asyncio.run(postgres().new_store())
        (folder / "acknowledged").mkdir()
        asyncio.run(self._make())
        for name, text in (("effects", LABEL), ("told", "one"), ("observed", json.dumps(self._end()))):
            (folder / name).write_text(f"{text}\n")

    async def _make(self) -> None:
        sessions = PostgresSessions(self.address, self.folder / "home")
        journal = await sessions.create("one")
        await journal.append(
            SessionStarted(session="one", workspace="/work", version="0"),
            UserSaid(text="do it"),
            TurnStarted(turn=1),
            AssistantSaid(step=1, parts=(CALL,)),
            CallStarted(call="c1", tool="shell"),
            CallEnded(call="c1", outcome="ok", output=""),
            TurnEnded(turn=1, ending="done", detail="", steps=1, usage=Usage()),
        )
        await journal.close()
        said = {"seq": 2, "kind": "UserSaid", "body": {"text": "do it"}}
        torn = '{"seq": 3, "ki'
        (self.folder / "acknowledged" / "one-1-a").write_text(f"{json.dumps(said)}\n{torn}")

    def _end(self) -> list[object]:
        async def head() -> tuple[int, str]:
            reader = await PostgresSessions(self.address, self.folder / "home").read("one")
            verified = await reader.verify()
            await reader.close()
            return verified.events, verified.head

        return ["one", *asyncio.run(head())]

    def change(self, statement: str) -> None:
        execute(self.address, statement)

    def wrong(self) -> list[str]:
        command = [sys.executable, "-m", "tests.cluster.history", self.address.url, str(self.folder)]
        judged = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        wrong = json.loads(judged.stdout)["wrong"]
        assert judged.returncode == bool(wrong)
        return wrong


def _twice(left: Left) -> None:
    (left.folder / "effects").write_text(f"{LABEL}\n{LABEL}\n")


def _from_nowhere(left: Left) -> None:
    (left.folder / "effects").write_text(f"{LABEL}\nother-1\n")


def _acknowledged_and_gone(left: Left) -> None:
    said = {"seq": 8, "kind": "UserSaid", "body": {"text": "more"}}
    (left.folder / "acknowledged" / "one-2-b").write_text(f"{json.dumps(said)}\n")


def _acknowledged_otherwise(left: Left) -> None:
    said = {"seq": 2, "kind": "UserSaid", "body": {"text": "do it not"}}
    (left.folder / "acknowledged" / "one-2-b").write_text(f"{json.dumps(said)}\n")


def _never_told(left: Left) -> None:
    (left.folder / "told").write_text("one\ntwo\n")


SPOILED: list[tuple[Callable[[Left], object], str]] = [
    (_twice, "effect s0-0 happened 2 times"),
    (_from_nowhere, "effect other-1 happened, and no journal has its call"),
    (_acknowledged_and_gone, "one: event 8 (UserSaid) was lost"),
    (_acknowledged_otherwise, "one: event 2 (UserSaid) was lost"),
    (_never_told, "two: it did not end once as done: never"),
    (
        lambda left: (left.folder / "effects").write_text(""),
        "effect s0-0 is on record as ok and happened 0 times",
    ),
    (
        lambda left: left.change("UPDATE mainspring.events SET body = '{}' WHERE seq = 1"),
        "one: the chain breaks at event 1",
    ),
    (
        lambda left: left.change("UPDATE mainspring.sessions SET last_seq = 6"),
        "one: its end is not that of its events",
    ),
    (
        lambda left: left.change("DELETE FROM mainspring.events WHERE seq = 7"),
        "one: its journal once ended with another event 7",
    ),
    (
        lambda left: left.change("DELETE FROM mainspring.events WHERE kind = 'CallStarted'"),
        "effect s0-0 happened before its start was on record",
    ),
]


def test_the_program_finds_nothing_wrong_where_nothing_is(tmp_path: Path) -> None:
    assert Left(tmp_path).wrong() == []


@pytest.mark.parametrize(("spoil", "said"), SPOILED, ids=[said for _, said in SPOILED])
def test_the_program_notices(tmp_path: Path, spoil: Callable[[Left], object], said: str) -> None:
    left = Left(tmp_path)
    spoil(left)
    assert said in left.wrong()
