"""How long commands take before they do anything."""

from __future__ import annotations

import tempfile
import time
from functools import partial
from pathlib import Path
from subprocess import DEVNULL, Popen

from bench.measure import by_turns, command_s, python, timing
from mainspring.models.scripted import Script, ScriptedReply
from mainspring.testing.server import HostedModelServer

LOOKS = ("sessions", "goal list", "run --help")
"""Commands that only look."""


def main() -> None:
    commands = {
        "python -c pass": (("-c", "pass"), ""),
        "mainspring --version": (("-m", "mainspring", "--version"), "target +30 ms"),
        "mainspring --help": (("-m", "mainspring", "--help"), "target +60 ms"),
        **{f"mainspring {look}": (("-m", "mainspring", *look.split()), "target +150 ms") for look in LOOKS},
    }
    with tempfile.TemporaryDirectory() as home:
        env = {"MAINSPRING_HOME": home}
        asked = (partial(command_s, python(*arguments), env=env) for arguments, _ in commands.values())
        taken = by_turns(15, *asked)
    for (what, (_, target)), each in zip(commands.items(), taken, strict=True):
        timing(what, each, floor=() if each is taken[0] else taken[0], target=target)
    timing("cold start to the first request", first_request_s(), floor=taken[0], target="target 120 ms")


def first_request_s() -> list[float]:
    taken: list[float] = []
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
            taken.append((server.seen[number].arrived_ns - start) / 1e9)
    return taken
