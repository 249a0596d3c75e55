"""Timing and printing shared by the measurements."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence


def command_s(argv: Sequence[str], *, times: int = 15, env: dict[str, str] | None = None) -> float:
    """The fastest of several runs of a command: what it costs when nothing is in its way."""
    best = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, env={**os.environ, **(env or {})})
        best = min(best, time.perf_counter() - start)
    return best


def python(*arguments: str) -> list[str]:
    return [sys.executable, *arguments]


def row(what: str, value: str, against: str = "", target: str = "") -> None:
    print(f"{what:<58} {value:>14} {against:>22} {target:>26}")


def ms(seconds: float) -> str:
    return f"{seconds * 1000:.2f} ms"


def median(values: Sequence[float]) -> float:
    return statistics.median(values) if values else float("nan")


def rss_mb() -> float:
    """Resident memory of this process now."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6
