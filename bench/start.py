"""How long commands take before they do anything."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from subprocess import DEVNULL, Popen

from bench.measure import command_s, ms, python, row
from mainspring.models.scripted import Script, ScriptedReply
from mainspring.testing.server import HostedModelServer


def main() -> None:
    floor = command_s(python("-c", "pass"))
    row("python -c pass", ms(floor))
    for arguments, target in ((("--version",), 0.030), (("--help",), 0.060)):
        taken = command_s(python("-m", "mainspring", *arguments))
        row(f"mainspring {arguments[0]}", ms(taken), f"+{ms(taken - floor)}", f"target +{ms(target)}")
    row("cold start to the first request", ms(first_request_s()), "", "target 250 ms")


def first_request_s() -> float:
    best = float("inf")
    script = Script(replies=(ScriptedReply(text="done"),))
    with tempfile.TemporaryDirectory() as folder, HostedModelServer(script) as server:
        for number in range(8):
            start = time.monotonic_ns()
            arguments = (
                "run",
                "--json",
                "--allow-home",
                "-C",
                folder,
                "--model",
                f"openai-compatible@{server.url}#m",
                "go",
            )
            run = Popen(
                python("-m", "mainspring", *arguments),
                stdout=DEVNULL,
                env={"MAINSPRING_HOME": str(Path(folder) / "home"), "PATH": "/usr/bin:/bin", "HOME": folder},
            )
            assert run.wait() == 0
            best = min(best, (server.seen[number].arrived_ns - start) / 1e9)
    return best
