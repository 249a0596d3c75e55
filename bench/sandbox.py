"""What a sandbox costs: the start of `true` on each rung in time and CPU, the first command of a session,
many commands and many sessions at once, how fast a cancel is, a turn of the whole loop with a command in it,
and a look over a large workspace.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from pathlib import Path

import mainspring
from bench.measure import command_s, median, ms, python, row, timing
from mainspring.models import Request
from mainspring.models.scripted import Script, ScriptedCall, ScriptedModel, ScriptedReply
from mainspring.sandbox import Command, Sandbox
from mainspring.sandbox.custody.kernel import become_subreaper
from mainspring.sandbox.ladder import choose
from mainspring.sandbox.policy import Confinement, policy
from mainspring.sandbox.probe import build, probe
from mainspring.sandbox.survey import Survey
from mainspring.settings import load_config

TIMES = 100
PAUSE_S = 0.1  # a model turn is longer; the warden has its next guards ready by then
TOGETHER = 200
SESSIONS, COMMANDS_EACH = 20, 15
FIRST_TIMES = 10
TURNS = 28  # a guard ends what achieves nothing for longer
FOLDERS, FILES_EACH, REPOSITORIES = 2500, 20, 30


def main() -> None:
    asyncio.run(measure())
    taken = asyncio.run(turns())
    timing("a turn with `bash -c true` in it", taken, target="target 15 ms")
    first_of_session()
    look_over()


def first_of_session() -> None:
    """From the reply that asks for a command to the next request, in new processes, and the same for those
    that come later in their session."""
    for thinks_s in (1.0, 0.0):
        outputs = [
            subprocess.run(
                python("-m", "bench.first_command", str(thinks_s)), check=True, capture_output=True
            ).stdout
            for _ in range(FIRST_TIMES)
        ]
        runs = [json.loads(output) for output in outputs]
        timing(
            f"first command of a session, model thinks {thinks_s:g} s",
            [run[0] for run in runs],
            floor=[taken for run in runs for taken in run[1:]],
            target="target 20 ms" if thinks_s else "",
        )


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
    # What outlives a bubblewrap or a warden is then ours to wait for, and its CPU time counts.
    become_subreaper()
    environment = {"PATH": os.environ["PATH"], "HOME": str(Path.home())}
    for rung in (await probe(environment)).rungs:
        if not rung.is_available:
            row(f"{rung.name} is not available", "", rung.why_not[:22])
            continue
        with tempfile.TemporaryDirectory() as folder:
            work = Path(folder)
            subprocess.run(["git", "init", "-q", "."], cwd=work, check=True)
            rules = policy(work, home=Path.home())
            sandbox = build(rung.name, rules, environment)
            try:
                await one_rung(rung.name, sandbox, work)
            finally:
                await sandbox.close()
            make = partial(build, rung.name, rules, environment)
            await cpu(rung.name, make, work)
            await first(rung.name, rules, environment)
            await sessions(rung.name, [make() for _ in range(SESSIONS)], work)


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
        rounds = [(await bare_s(bare, pause_s), await timed(sandbox, true, pause_s)) for _ in range(TIMES)]
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


async def cpu(name: str, make: Callable[[], Sandbox], work: Path) -> None:
    """What the processes of a command use together, without their start-up, and our own process for it."""
    start = _children_cpu_s()
    for _ in range(TIMES):
        command_s(BARE.get(name, ("/bin/true",)))
    floor = (_children_cpu_s() - start) / TIMES
    (few_s, own_few_s), (many_s, own_many_s) = [
        await _cpu_of(make(), work, times) for times in (1, 1 + TIMES)
    ]
    taken, own = (many_s - few_s) / TIMES, (own_many_s - own_few_s) / TIMES
    row(
        f"{name}: CPU of the processes of a command", ms(taken), f"{taken / floor:.2f} x floor", "target 5 ms"
    )
    row(f"{name}: CPU of our own process for it", ms(own), f"{own / floor:.2f} x floor")


async def _cpu_of(sandbox: Sandbox, work: Path, times: int) -> tuple[float, float]:
    start, own = _children_cpu_s(), time.process_time()
    for _ in range(times):
        await sandbox.run(Command(argv=("/bin/true",), cwd=work))
    own = time.process_time() - own
    await sandbox.close()
    return _children_cpu_s() - start, own


def _children_cpu_s() -> float:
    """Of all that have ended; waits for those that are about to."""
    with suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


async def first(name: str, rules: Confinement, environment: dict[str, str]) -> None:
    """The choice of a sandbox, and the first command after it."""
    choices: list[float] = []
    commands: list[float] = []
    for _ in range(FIRST_TIMES):
        start = time.perf_counter()
        sandbox = await choose(rules, environment, name=name)
        choices.append(time.perf_counter() - start)
        try:
            commands.append(await timed(sandbox, Command(argv=("/bin/true",), cwd=rules.workspace), 0))
        finally:
            await sandbox.close()
    timing(f"{name}: choice of a sandbox", choices)
    timing(f"{name}: first command after it", commands, target="target 20 ms")


async def sessions(name: str, sandboxes: Sequence[Sandbox], work: Path) -> None:
    """Commands of many sessions, each with one after another."""
    true = Command(argv=("/bin/true",), cwd=work)
    taken: list[float] = []

    async def session(sandbox: Sandbox) -> None:
        await sandbox.run(true)
        is_ready.append(sandbox)
        while len(is_ready) < len(sandboxes):
            await asyncio.sleep(0.01)
        taken.extend([await timed(sandbox, true, 0) for _ in range(COMMANDS_EACH)])

    is_ready: list[Sandbox] = []
    async with asyncio.TaskGroup() as group:
        for sandbox in sandboxes:
            group.create_task(session(sandbox))
    for sandbox in sandboxes:
        await sandbox.close()
    floor = [command_s(BARE.get(name, ("/bin/true",))) for _ in range(TIMES)]
    timing(f"{name}: a command of {len(sandboxes)} sessions at once", taken, floor=floor)
    slowest = sorted(taken)[int(len(taken) * 0.99)]
    row(
        f"{name}: the same, 99 of 100", ms(slowest), f"{slowest / median(floor):.1f} x floor", "target 100 ms"
    )


async def bare_s(argv: Sequence[str], pause_s: float) -> float:
    """The floor of `timed`: a pause cools what the next command needs, whoever starts it."""
    await asyncio.sleep(pause_s)
    return command_s(argv)


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
