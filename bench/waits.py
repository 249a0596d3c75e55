"""What a session costs that waits: processor and memory of the whole command while nothing happens.

It waits for a time, a file and a foreign process at once. The floor is a Python that sleeps.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from bench.measure import python, row
from mainspring.models.scripted import Script
from mainspring.sandbox.custody.tree import TICKS_PER_S
from mainspring.testing.server import HostedModelServer

SETTLE_S = 6.0
MEASURED_S = 40.0


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        sleeping = subprocess.Popen(python("-c", "import asyncio; asyncio.run(asyncio.sleep(3600))"))
        try:
            waits = {"seconds": 3600, "file": "never", "pids": [sleeping.pid], "stall_minutes": 30}
            reply = {"calls": [{"name": "wait", "arguments": waits}]}
            with HostedModelServer(msgspec.convert({"replies": [reply]}, Script)) as server:
                share, memory = measured(Path(folder), f"openai-compatible@{server.url}#m")
            floor = rss_mb(sleeping.pid)
        finally:
            sleeping.kill()
            sleeping.wait()
    row(f"processor of a wait, over {MEASURED_S:g} s", f"{share * 100:.3f} %", "", "target 0.1 %")
    row("its memory", f"{memory:.0f} MB", f"{memory / floor:.2f} x a bare Python", "target 60 MB")


def measured(folder: Path, model: str) -> tuple[float, float]:
    """The share of one processor, and the memory, of `mainspring run` while it waits."""
    workspace = folder / "workspace"
    workspace.mkdir()
    run = subprocess.Popen(
        python("-m", "mainspring", "run", "--json", "--model", model, "go"),
        cwd=workspace,
        env={**os.environ, "MAINSPRING_HOME": str(folder / "home")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert run.stdout is not None
    try:
        for line in run.stdout:
            if json.loads(line)["kind"] == "WaitStarted":
                break
        time.sleep(SETTLE_S)
        before = cpu_s(run.pid)
        time.sleep(MEASURED_S)
        return (cpu_s(run.pid) - before) / MEASURED_S, rss_mb(run.pid)
    finally:
        run.terminate()
        run.communicate()


def cpu_s(pid: int) -> float:
    """Processor time of all threads, in nanoseconds resolution where the kernel tells it."""
    try:
        tasks = Path(f"/proc/{pid}/task")
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()) / 1e9
    except OSError:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def rss_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    sys.exit(main())
