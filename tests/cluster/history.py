"""A program that checks what is left of a proof: the tables of its database against what the world saw.

    python -m tests.cluster.history postgresql://… FOLDER

It knows the format of the store, and none of our code. In the folder are `effects`, a line for each effect that
happened; `acknowledged/`, the events that processes were told are durable; `observed`, ends of journals as they
were seen meanwhile; and `told`, the sessions whose ids somebody was given. It prints what it counted and what is
wrong, as JSON; its exit code is 1 when something is.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import struct
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import asyncpg

Row = tuple[int, int, str, bytes, bytes]
_EVENTS = "SELECT session, seq, time_us, kind, body, hash FROM mainspring.events ORDER BY session, seq"
_ENDS = "SELECT id, last_seq, head FROM mainspring.sessions"
_STEP = struct.Struct(">32sqqI")


class History:
    """What the tables say, read once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.wrong: list[str] = []
        self.counts: Counter[str] = Counter()
        self.events: dict[str, list[Row]] = defaultdict(list)
        self.ends: dict[str, tuple[int, bytes]] = {}
        self.queued: set[str] = set()

    async def read(self, url: str) -> None:
        connection = await asyncpg.connect(url)
        async with connection.transaction(isolation="repeatable_read"):
            for session, *row in await connection.fetch(_EVENTS):
                self.events[session].append(tuple(row))
            self.ends = {name: (seq, head) for name, seq, head in await connection.fetch(_ENDS)}
            self.queued = {name for (name,) in await connection.fetch("SELECT session FROM mainspring.queue")}
        await connection.close()

    def check(self) -> None:
        self.counts["sessions"] = len(self.ends)
        self.counts["events"] = sum(len(rows) for rows in self.events.values())
        for session in self.ends:
            self._check_chain(session)
        self._check_acknowledged()
        self._check_observed()
        self._check_calls_and_effects()
        self._check_ends()

    def bodies(self, session: str) -> list[tuple[str, dict[str, Any]]]:
        """The events of a session that are not so long that they are kept elsewhere."""
        rows = self.events[session]
        return [(kind, json.loads(body)) for _, _, kind, body, _ in rows if not body.startswith(b"@")]

    def _check_chain(self, session: str) -> None:
        previous, last_us, place = bytes(32), 0, 0
        for place, (seq, time_us, kind, body, hash_) in enumerate(self.events[session], 1):
            name = kind.encode()
            step = _STEP.pack(previous, seq, time_us, len(name)) + name + body
            if seq != place or hashlib.sha256(step).digest() != hash_ or time_us < last_us:
                self.wrong.append(f"{session}: the chain breaks at event {place}")
                return
            previous, last_us = hash_, time_us
        if self.ends[session] != (place, previous):
            self.wrong.append(f"{session}: its end is not that of its events")

    def _check_acknowledged(self) -> None:
        for path in sorted((self._folder / "acknowledged").iterdir()):
            session = path.name.partition("-")[0]
            *lines, _cut = path.read_bytes().split(b"\n")  # killed while it printed: the last line is no line
            for line in lines:
                said = json.loads(line)
                if not said.get("seq"):
                    continue  # a piece of text that is shown, and no event
                self.counts["acknowledged events"] += 1
                rows = self.events[session]
                kept = rows[said["seq"] - 1] if said["seq"] <= len(rows) else None
                if kept is None or not _is_same(kept, said):
                    self.wrong.append(f"{session}: event {said['seq']} ({said['kind']}) was lost")

    def _check_observed(self) -> None:
        for line in (self._folder / "observed").read_text().splitlines():
            session, seq, head = json.loads(line)
            self.counts["observed ends"] += 1
            rows = self.events[session]
            if seq and (len(rows) < seq or rows[seq - 1][4].hex() != head):
                self.wrong.append(f"{session}: its journal once ended with another event {seq}")

    def _check_calls_and_effects(self) -> None:
        happened = Counter((self._folder / "effects").read_text().split())
        self.counts["effects"] = happened.total()
        wanted: set[str] = set()
        for session in self.ends:
            bodies = self.bodies(session)
            started = Counter(body["call"] for kind, body in bodies if kind == "CallStarted")
            ended = Counter(body["call"] for kind, body in bodies if kind == "CallEnded")
            outcomes = {body["call"]: body["outcome"] for kind, body in bodies if kind == "CallEnded"}
            for call, label in _labels(bodies):
                wanted.add(label)
                self._check_call(label, started[call], ended[call], outcomes.get(call, ""), happened[label])
        for label in happened.keys() - wanted:
            self.wrong.append(f"effect {label} happened, and no journal has its call")

    def _check_call(self, label: str, started: int, ended: int, outcome: str, happened: int) -> None:
        self.counts[f"calls: {outcome or 'not ended'}"] += 1
        if happened > 1:
            self.wrong.append(f"effect {label} happened {happened} times")
        if happened and not started:
            self.wrong.append(f"effect {label} happened before its start was on record")
        is_stopped = outcome == "cancelled"  # with its turn, before it ran or while it did
        if ended != 1 or (started != 1 and not (is_stopped and started == 0)):
            self.wrong.append(f"the call of {label} started {started} times and ended {ended} times")
        if outcome not in ("unknown", "cancelled") and (outcome, happened) != ("ok", 1):
            self.wrong.append(f"effect {label} is on record as {outcome} and happened {happened} times")

    def _check_ends(self) -> None:
        told = set((self._folder / "told").read_text().split())
        self.counts["told"] = len(told)
        for session in sorted(told | self.queued):
            bodies = self.bodies(session) if session in self.ends else []
            is_goal = any(kind == "GoalSet" for kind, _ in bodies)
            self.counts["goals" if is_goal else "turns"] += 1
            self.counts["resumed"] += sum(kind == "SessionResumed" for kind, _ in bodies)
            endings = [body["ending"] for kind, body in bodies if kind == "TurnEnded"]
            if is_goal:
                endings = [body["ending"] for kind, body in bodies if kind == "GoalEnded"]
            stopped = [ending for ending in endings[:-1] if ending != "interrupted"]
            if endings[-1:] != ["done"] or stopped:  # a worker that is drained interrupts what it does
                self.wrong.append(f"{session}: it did not end once as done: {endings or 'never'}")


def _is_same(kept: Row, said: dict[str, Any]) -> bool:
    _, _, kind, body, _ = kept
    return kind == said["kind"] and (body.startswith(b"@") or json.loads(body) == said["body"])


def _labels(bodies: list[tuple[str, dict[str, Any]]]) -> list[tuple[str, str]]:
    """The calls with an effect, and what each was to write."""
    parts = [part for kind, body in bodies if kind == "AssistantSaid" for part in body["parts"]]
    calls = [(part["call"], json.loads(part["arguments"])) for part in parts if part["part"] == "call"]
    return [(call, given["command"].split()[1]) for call, given in calls]


async def main(url: str, folder: str) -> int:
    history = History(Path(folder))
    await history.read(url)
    history.check()
    print(json.dumps({"counts": dict(history.counts), "wrong": history.wrong}))
    return 1 if history.wrong else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(*sys.argv[1:])))
