"""Sessions and goals with effects that are counted, on four machines on which everything goes wrong."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from itertools import count
from pathlib import Path
from typing import Any

import asyncpg
import msgspec

from mainspring.models.scripted import Script
from mainspring.testing.server import HostedModelServer
from tests import ROOT
from tests.cluster.faults import Faults
from tests.cluster.machines import SETTINGS, WorkerMachine
from tests.cluster.proxy import CuttingProxy
from tests.forked import run_forked
from tests.postgres import postgres
from tests.temporal import Temporal

_EFFECTS = 3
_ITERATIONS = 3
_FREE = ("--mode", "yolo", "--sandbox", "none", "--max-cost-usd", "1", "--allow-unpriced")
_ENDS = "SELECT id, last_seq, head FROM mainspring.sessions"
_UNDONE = """
SELECT count(*) FROM mainspring.queue AS q WHERE NOT EXISTS (
    SELECT 1 FROM mainspring.events AS e WHERE e.session = q.session AND e.kind = CASE WHEN EXISTS (
        SELECT 1 FROM mainspring.events AS g WHERE g.session = q.session AND g.kind = 'GoalSet'
    ) THEN 'GoalEnded' ELSE 'TurnEnded' END
    AND convert_from(e.body, 'UTF8') NOT LIKE '%"ending":"interrupted"%'
)
"""
_SET_ASIDE = "SELECT session FROM mainspring.queue WHERE is_set_aside"


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """How much work there is, and after how many new events something goes wrong, so many times at least."""

    sessions: int
    goals: int
    events_between: int
    strikes: int
    capacity: int = 2


class Proof:
    """One run; what it left is in `folder`, and in the database that `url` names."""

    def __init__(self, folder: Path, seed: int, size: Size, temporal: Temporal | None = None) -> None:
        self.folder, self.seed, self.size = folder, seed, size
        self.url, self.retried, self.refused = "", 0, 0
        self.struck: Counter[str] = Counter()
        self._temporal = temporal
        self._effects = folder / "effects"
        self._seen: dict[str, int] = {}
        self._servers = ExitStack()
        (folder / "acknowledged").mkdir()
        for name in ("effects", "told", "observed"):
            (folder / name).touch()

    def run(self) -> None:
        self.url = asyncio.run(postgres().new_database())
        with self._servers:
            asyncio.run(self._run())

    def judged(self) -> dict[str, Any]:
        """What the program says that knows nothing of us."""
        command = [sys.executable, "-m", "tests.cluster.history", self.url, str(self.folder)]
        return json.loads(
            subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
        )

    async def _run(self) -> None:
        proxy = CuttingProxy(postgres().port, self.seed, share=0.0)
        server, port = await proxy.serve()
        database = self.url.rpartition("/")[2]
        environment = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        environment["MAINSPRING_STORE"] = f"postgresql://postgres@127.0.0.1:{port}/{database}"
        settings = SETTINGS + self._temporal_settings()
        machines = [WorkerMachine(self.folder, number, environment, settings) for number in range(4)]
        self._client = {**environment, "MAINSPRING_HOME": str(self.folder / "client")}
        (self.folder / "client").mkdir()
        (self.folder / "client" / "config.toml").write_text(settings)
        made = await self._command("store", "init")
        assert made.returncode == 0, made.stderr
        (self.folder / "client" / "store.key").exists()
        faults = Faults(self.seed, self.url, machines, postgres(), proxy, self._start, self._temporal)
        try:
            faults.revive()
            async with asyncio.TaskGroup() as group:
                client = group.create_task(self._leave_work())
                await self._disturb(faults, client)
            proxy.share = 0.0
            faults.revive()
            await self._end(machines)
        finally:
            for machine in machines:
                machine.end()
            server.close()
            proxy.cut_all()
        self.struck = faults.struck

    def _start(self, machine: WorkerMachine) -> None:
        machine.start(("--capacity", str(self.size.capacity)))

    async def _disturb(self, faults: Faults, client: asyncio.Task[None]) -> None:
        """Strikes after so many new events, or when nothing new comes, until there was enough of it and all
        work is left."""
        strikes, quiet, goal = 0, 0, self.size.events_between
        while strikes < self.size.strikes or not client.done():
            before = sum(self._seen.values())
            await self._observe()
            quiet = quiet + 1 if sum(self._seen.values()) == before else 0
            if sum(self._seen.values()) >= goal or quiet > 20:
                await faults.strike()
                strikes, quiet = strikes + 1, 0
                goal = sum(self._seen.values()) + self.size.events_between
            await asyncio.sleep(0.1)

    async def _end(self, machines: Sequence[WorkerMachine]) -> None:
        """Nothing goes wrong any more: all must end by itself, but for what a person is told to look at."""
        while await self._undone():
            await self._observe()
            for session in await self._ask(_SET_ASIDE):
                self.retried += 1
                await self._command("fleet", "retry", session[0])
            await asyncio.sleep(0.1)
        await self._observe()
        for machine in machines:
            await machine.drained()
            assert machine.said.endswith("stopped\n"), machine.said

    async def _leave_work(self) -> None:
        """As a person does who comes back when a command fails."""
        replies = [(f"s{number}", self._replies(f"s{number}")) for number in range(2 * self.size.sessions)]
        cases = [{"contains": f"task {name}.", "replies": each} for name, each in replies]
        model = self._serve({"cases": cases})
        goals, sessions = count(), iter(range(2 * self.size.sessions))
        left = 0
        while left < self.size.goals:
            name = f"g{next(goals)}"
            left += await self._left(("goal", "start"), self._goal(name), name, ("--wait-seconds", "1.5"))
        while left < self.size.sessions + self.size.goals:
            left += await self._left(("run",), model, f"s{next(sessions)}", ())

    async def _left(self, command: Sequence[str], model: str, name: str, options: Sequence[str]) -> bool:
        workspace = self.folder / "workspaces" / name
        workspace.mkdir(parents=True)
        words = (*command, "--queue", "default", "--model", model, *_FREE, *options, "-C", str(workspace))
        done = await self._command(*words, f"do task {name}.")
        if done.returncode != 0:
            self.refused += 1
            return False
        with (self.folder / "told").open("a") as file:
            file.write(f"{done.stdout.strip()}\n")
        return True

    def _replies(self, name: str) -> list[dict[str, Any]]:
        commands = [f"echo {name}-{number} >> {self._effects}" for number in range(_EFFECTS)]
        return [*({"calls": [_call(command)]} for command in commands), {"text": "done"}]

    def _goal(self, name: str) -> str:
        """A model for a goal: one effect for each iteration, and a wait after it."""
        cases: list[dict[str, Any]] = []
        for turn in range(1, 2 * _ITERATIONS):
            command = f"echo {name}-{turn} >> {self._effects}"
            text = "So far.\n" if turn < _ITERATIONS else "All.\n<promise>DONE</promise>"
            cases.append(
                {"contains": f"Turn {turn} of", "replies": [{"calls": [_call(command)]}, {"text": text}]}
            )
        return self._serve({"cases": cases})

    def _serve(self, script: dict[str, Any]) -> str:
        server = self._servers.enter_context(
            HostedModelServer(msgspec.convert(script, Script), keep_bodies=False)
        )
        return f"openai-compatible@{server.url}#test"

    async def _command(self, *words: str) -> subprocess.CompletedProcess[str]:
        return await asyncio.to_thread(run_forked, list(words), str(self.folder), self._client)

    async def _observe(self) -> None:
        """Notes where journals end now, from beside; a database that is down is seen the next time."""
        with (self.folder / "observed").open("a") as file:
            for session, seq, head in await self._ask(_ENDS):
                if seq != self._seen.get(session):
                    self._seen[session] = seq
                    file.write(json.dumps([session, seq, head.hex()]) + "\n")

    async def _undone(self) -> bool:
        found = await self._ask(_UNDONE)
        return not found or found[0][0] > 0

    async def _ask(self, question: str) -> list[Any]:
        with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            connection = await asyncpg.connect(self.url)
            try:
                return await connection.fetch(question)
            finally:
                await connection.close()
        return []

    def _temporal_settings(self) -> str:
        if self._temporal is None:
            return ""
        return f'[temporal]\naddress = "{self._temporal.address}"\nnamespace = "{self._temporal.new_namespace()}"\n'


def _call(command: str) -> dict[str, Any]:
    return {"name": "shell", "arguments": {"command": command}}
