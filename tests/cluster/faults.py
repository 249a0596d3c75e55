"""What goes wrong in a proof, drawn from a seed: each kind once, in any order, and again."""

from __future__ import annotations

import asyncio
import random
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

import asyncpg

from tests.cluster.machines import CLOCKS, LEASE_S, WorkerMachine
from tests.cluster.proxy import CuttingProxy
from tests.postgres import Postgres
from tests.temporal import Temporal

_CLOCK = "SELECT extract(epoch FROM clock_timestamp())::float8"
_WRONG_BY_S = 900
"""How far the clock of a machine may be off."""


class Faults:
    """Strikes when it is told to. Whatever it stops goes on before the next strike."""

    def __init__(
        self,
        seed: int,
        url: str,
        machines: Sequence[WorkerMachine],
        server: Postgres,
        proxy: CuttingProxy,
        start: Callable[[WorkerMachine], None],
        temporal: Temporal | None = None,
    ) -> None:
        self._random, self._url = random.Random(seed), url
        self._machines, self._server, self._proxy, self._start = machines, server, proxy, start
        self._temporal = temporal
        self._left: list[Callable[[], Awaitable[str]]] = []
        self.struck: Counter[str] = Counter()

    async def strike(self) -> None:
        if not self._left:
            self._left = [
                self._kill_one_at_work,
                self._kill_worker,
                self._kill_machine,
                self._stall_machine,
                self._stall_one_at_work,
                self._drain,
                self._restart_database,
                self._cut_all,
                self._cut_answers,
            ]
            self._left += [self._set_clock] if CLOCKS else []
            self._left += [self._restart_temporal] if self._temporal else []
            self._random.shuffle(self._left)
        self.struck[await self._left.pop()()] += 1
        self.revive()

    def revive(self) -> None:
        """Machines whose worker is gone are started again."""
        for machine in self._machines:
            if not machine.is_running:
                self._start(machine)

    def _one(self, *, is_at_work: bool = False) -> WorkerMachine:
        able = [each for each in self._machines if each.at_work()] if is_at_work else []
        return self._random.choice(able or list(self._machines))

    async def _kill_one_at_work(self) -> str:
        machine = self._one(is_at_work=True)
        machine.send(machine.at_work()[:1], signal.SIGKILL)
        return "process killed"

    async def _kill_worker(self) -> str:
        machine = self._one()
        machine.send(machine.workers(), signal.SIGKILL)
        await machine.gone()
        return "worker killed"

    async def _kill_machine(self) -> str:
        machine = self._one(is_at_work=True)
        machine.send([*machine.workers(), *machine.at_work()], signal.SIGKILL)
        await machine.gone()
        return "machine killed"

    async def _stall_machine(self) -> str:
        machine = self._one(is_at_work=True)
        await self._stall(machine, [*machine.workers(), *machine.at_work()])
        return "machine stalled for longer than a lease"

    async def _stall_one_at_work(self) -> str:
        machine = self._one(is_at_work=True)
        await self._stall(machine, machine.at_work()[:1])
        return "process stalled for longer than a lease"

    async def _stall(self, machine: WorkerMachine, pids: Sequence[int]) -> None:
        """Until, by the clock of the database, no lease that they had can be left."""
        machine.send(pids, signal.SIGSTOP)
        connection = await asyncpg.connect(self._url)
        until_s = await connection.fetchval(_CLOCK) + LEASE_S * self._random.uniform(1.1, 2.5)
        while await connection.fetchval(_CLOCK) < until_s:
            await asyncio.sleep(0.05)
        await connection.close()
        machine.send(pids, signal.SIGCONT)

    async def _drain(self) -> str:
        machine = self._one()
        await machine.drained()
        return "worker drained"

    async def _restart_database(self) -> str:
        mode = self._random.choice(("fast", "immediate"))
        await asyncio.to_thread(self._server.stop, mode)
        await asyncio.to_thread(self._server.start)
        return f"database restarted ({mode})"

    async def _cut_all(self) -> str:
        self._proxy.cut_all()
        return "all connections cut"

    async def _cut_answers(self) -> str:
        """From here on some answers are cut, or none; what they answered has happened."""
        self._proxy.share = self._random.choice((0.0, 0.01, 0.03))
        return "answers cut from here on" if self._proxy.share else "no answers cut from here on"

    async def _set_clock(self) -> str:
        machine = self._random.choice(self._machines[1:])
        machine.set_clock(self._random.randint(-_WRONG_BY_S, _WRONG_BY_S))
        return "clock set wrong"

    async def _restart_temporal(self) -> str:
        assert self._temporal is not None
        await asyncio.to_thread(self._temporal.stop)
        await asyncio.to_thread(self._temporal.start)
        return "Temporal restarted"
