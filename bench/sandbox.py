"""What a sandbox costs: the start of `true` on each rung, many commands at once, and how fast a cancel is."""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
import time
from pathlib import Path

from bench.measure import command_s, median, ms, row
from mainspring.sandbox import Command, Sandbox
from mainspring.sandbox.policy import policy
from mainspring.sandbox.probe import build, probe

TIMES = 100
PAUSE_S = 0.1  # a model turn is longer; the warden has its next guards ready by then
TOGETHER = 200


def main() -> None:
    asyncio.run(measure())


async def measure() -> None:
    floor = command_s(["/bin/true"], times=TIMES)
    row("fork and exec of true", ms(floor))
    environment = {"PATH": os.environ["PATH"], "HOME": str(Path.home())}
    for rung in (await probe(environment)).rungs:
        if not rung.is_available:
            row(f"{rung.name} is not available", "", rung.why_not[:22])
            continue
        with tempfile.TemporaryDirectory() as folder:
            work = Path(folder)
            subprocess.run(["git", "init", "-q", "."], cwd=work, check=True)
            sandbox = build(rung.name, policy(work, home=Path.home()), environment)
            try:
                await one_rung(rung.name, sandbox, work, floor)
            finally:
                await sandbox.close()


async def one_rung(name: str, sandbox: Sandbox, work: Path, floor: float) -> None:
    true = Command(argv=("/bin/true",), cwd=work)
    for how, pause_s in (("after a pause", PAUSE_S), ("one after another", 0.0)):
        taken = [await timed(sandbox, true, pause_s) for _ in range(TIMES)]
        best = min(taken)
        target = "target +10 ms" if name == "bwrap" else ""
        row(f"{name}: true, {how}", ms(best), f"+{ms(best - floor)}, {best / floor:.1f} x", target)
        row(f"{name}: true, {how}, median", ms(median(taken)))
    start = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(TOGETHER):
            group.create_task(sandbox.run(true))
    each = (time.perf_counter() - start) / TOGETHER
    row(f"{name}: {TOGETHER} at once", f"{ms(each)} each", f"{each / floor:.1f} x")
    row(
        f"{name}: cancel of a tree",
        ms(min([await cancel_s(sandbox, work) for _ in range(5)])),
        "",
        "target 1 s",
    )


async def timed(sandbox: Sandbox, command: Command, pause_s: float) -> float:
    await asyncio.sleep(pause_s)
    start = time.perf_counter()
    await sandbox.run(command)
    return time.perf_counter() - start


async def cancel_s(sandbox: Sandbox, work: Path) -> float:
    is_started = asyncio.Event()
    script = "setsid sleep 100 & (setsid sleep 100 &); echo ready; sleep 100"
    command = Command(argv=("bash", "-c", script), cwd=work)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(sandbox.run(command, lambda _: is_started.set()))
        await is_started.wait()
        start = time.perf_counter()
        task.cancel()
    return time.perf_counter() - start
