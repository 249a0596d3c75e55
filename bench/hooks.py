"""Hooks: what one costs over its own time, and what a session without any pays for looking."""

from __future__ import annotations

import asyncio
import json
import subprocess
import tempfile
import time
from pathlib import Path

from bench.measure import median, row, timing
from mainspring.app.hooks import hooks_of
from mainspring.app.plugins import UsedPlugins
from mainspring.approvals import Proposed
from mainspring.sandbox import Command
from mainspring.session.session import runtime_of
from mainspring.settings import Config, load_config
from mainspring.testing import Stage

ROUNDS = 60
WARM = 5
COMMAND = "cat > /dev/null"
PROPOSED = Proposed(tool="shell", effect="execute", arguments={"command": "ls"})


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        over, own, confined = asyncio.run(hook_s(Path(folder)))
        row(
            "a hook before a call",
            f"{median(over) * 1000:.1f} ms",
            f"{(median(over) - median(own)) * 1000:+.1f} ms over its own",
            "target +12 ms",
            median_s=median(over),
            floor_s=median(own),
        )
        timing("the same hook, against its command in the sandbox", over, floor=confined)
    with tempfile.TemporaryDirectory() as folder:
        config = load_config({"MAINSPRING_HOME": f"{folder}/home"})
        taken = [looked_s(Path(folder), config) for _ in range(200)]
        timing("looking for hooks where there are none", taken, unit="µs", target="target 100 µs")


async def hook_s(folder: Path) -> tuple[list[float], list[float], list[float]]:
    """What the gate takes for one hook, in turns with the same command run by itself, and in the sandbox."""
    stage = Stage(folder, "Done.")
    home = folder / "home"
    home.mkdir()
    hooks = {"PreToolUse": [{"hooks": [{"type": "command", "command": COMMAND}]}]}
    (home / "hooks.json").write_text(json.dumps({"hooks": hooks}))
    over: list[float] = []
    own: list[float] = []
    confined: list[float] = []
    async with stage.open(mode="auto") as session:
        gate = runtime_of(session).approvals.gate
        sandbox = await runtime_of(session).sandbox()
        command = Command(argv=("bash", "-c", COMMAND), cwd=stage.workspace, is_whole=True)
        assert gate is not None
        for number in range(ROUNDS + WARM):
            start = time.perf_counter()
            said = await gate.vet_call("c", PROPOSED, '{"command": "ls"}')
            between = time.perf_counter()
            subprocess.run(["bash", "-c", COMMAND], input=b"{}", check=True)
            last = time.perf_counter()
            await sandbox.run(command)
            assert said.answer == "pass"
            if number >= WARM:
                over.append(between - start)
                own.append(last - between)
                confined.append(time.perf_counter() - last)
    return over, own, confined


def looked_s(folder: Path, config: Config) -> float:
    start = time.perf_counter()
    assert hooks_of(folder, config, UsedPlugins()) is None
    return time.perf_counter() - start
