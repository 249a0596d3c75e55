"""What a sandbox costs: the start of `true` on each rung, many commands at once, how fast a cancel is, a turn
of the whole loop with a command in it, and a look over a large workspace.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import mainspring
from bench.measure import command_s, median, ms, row, timing
from mainspring.models import Request
from mainspring.models.scripted import Script, ScriptedCall, ScriptedModel, ScriptedReply
from mainspring.sandbox import Command, Sandbox
from mainspring.sandbox.policy import Confinement, policy
from mainspring.sandbox.probe import build, probe
from mainspring.sandbox.survey import Survey
from mainspring.settings import load_config

TIMES = 100
PAUSE_S = 0.1  # a model turn is longer; the warden has its next guards ready by then
TOGETHER = 200
TURNS = 28  # a guard ends what achieves nothing for longer
FOLDERS, FILES_EACH, REPOSITORIES = 2500, 20, 30


def main() -> None:
    asyncio.run(measure())
    taken = asyncio.run(turns())
    timing("a turn with `bash -c true` in it", taken, target="target 15 ms")
    look_over()


async def turns() -> list[float]:
    """From one request of the model to the next, with a sandboxed command and all commits between them."""
    calls = [ScriptedCall("shell", {"command": f"true {number}"}) for number in range(TURNS)]
    asked: list[float] = []

    def on_request(_: Request) -> None:
        asked.append(time.perf_counter())

    model = ScriptedModel(
        Script(replies=tuple(ScriptedReply(calls=(call,)) for call in calls)), on_request=on_request
    )
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder) / "work"
        work.mkdir()
        environment = {"MAINSPRING_HOME": f"{folder}/home", "PATH": os.environ["PATH"], "HOME": folder}
        limits = mainspring.Limits(max_steps=TURNS)
        config = load_config(environment)
        async with mainspring.open(work, model=model, mode="auto", limits=limits, config=config) as session:
            async for _ in session.run("go"):
                pass
    return [later - earlier for earlier, later in pairwise(asked)][1:]


def look_over() -> None:
    """The survey that stands before and after every command."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        for number in range(FOLDERS):
            below = work / f"{number % 50}/{number}"
            below.mkdir(parents=True)
            for name in range(FILES_EACH):
                (below / f"{name}.txt").touch()
        for number in range(REPOSITORIES):
            subprocess.run(["git", "init", "-q", str(work / f"repositories/{number}")], check=True)
        rules, survey = policy(work, home=Path.home()), Survey()
        what = f"{FOLDERS * FILES_EACH:,} files, {REPOSITORIES} repositories"
        row(f"first look over {what}", ms(_look_s(survey, rules)))
        timing(f"look over {what}", [_look_s(survey, rules) for _ in range(20)])
        survey.close()


def _look_s(survey: Survey, rules: Confinement) -> float:
    start = time.perf_counter()
    survey.look(rules)
    return time.perf_counter() - start


async def measure() -> None:
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
                await one_rung(rung.name, sandbox, work)
            finally:
                await sandbox.close()


BARE = {
    "bwrap": (
        *("bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/"),
        *("--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "/bin/true"),
    )
}
"""The same by hand, with as little as confines at all; without one, a fork and an exec."""


async def one_rung(name: str, sandbox: Sandbox, work: Path) -> None:
    true = Command(argv=("/bin/true",), cwd=work)
    bare = BARE.get(name, ("/bin/true",))
    floor: list[float] = []
    for how, pause_s in (("after a pause", PAUSE_S), ("one after another", 0.0)):
        rounds = [(command_s(bare), await timed(sandbox, true, pause_s)) for _ in range(TIMES)]
        floor, taken = [list(each) for each in zip(*rounds, strict=True)]
        timing(f"{name}: floor, {how}", floor)
        target = "target 1.4 x" if name == "bwrap" else "target 4 ms" if name == "none" else ""
        timing(f"{name}: true, {how}", taken, floor=floor, target=target)
    start = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(TOGETHER):
            group.create_task(sandbox.run(true))
    each = (time.perf_counter() - start) / TOGETHER
    row(f"{name}: {TOGETHER} at once", f"{ms(each)} each", f"{each / median(floor):.1f} x floor")
    timing(
        f"{name}: cancel of a tree", [await cancel_s(sandbox, work) for _ in range(5)], target="target 1 s"
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
