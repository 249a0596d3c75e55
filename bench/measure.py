"""Timing, printing and recording shared by the measurements.

What is divided by something is measured in turn with it, so that a busy moment of the machine hits both. A
row shows the median and, in brackets, where eight of ten values lie; all rows are kept for `results.jsonl`.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

RECORDED: list[dict[str, Any]] = []


def command_s(argv: Sequence[str], *, env: dict[str, str] | None = None) -> float:
    start = time.perf_counter()
    subprocess.run(
        argv,
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **(env or {})},
    )
    return time.perf_counter() - start


def by_turns(times: int, *measured: Callable[[], float]) -> list[list[float]]:
    """What each of them takes, so many times, one after the other and again."""
    rounds = [[each() for each in measured] for _ in range(times)]
    return [list(taken) for taken in zip(*rounds, strict=True)]


def python(*arguments: str) -> list[str]:
    return [sys.executable, *arguments]


def timing(
    what: str, taken: Sequence[float], *, floor: Sequence[float] = (), target: str = "", unit: str = "ms"
) -> None:
    """A row of what was measured several times, and how many times the floor of the same run it is."""
    middle, (low, high) = median(taken), spread(taken)
    ratio = middle / median(floor) if floor else None
    record: dict[str, Any] = {"median_s": middle, "low_s": low, "high_s": high, "times": len(taken)}
    if ratio is not None:
        record |= {"floor_s": median(floor), "ratio": ratio}
    scale = {"ms": 1e3, "µs": 1e6}[unit]
    value = f"{middle * scale:.2f} {unit} [{low * scale:.2f}–{high * scale:.2f}]"
    row(what, value, f"{ratio:.2f} x floor" if ratio is not None else "", target, **record)


def row(what: str, value: str, against: str = "", target: str = "", **record: Any) -> None:
    print(f"{what:<56} {value:>28} {against:>22} {target:>20}", flush=True)
    RECORDED.append({"what": what, "value": value, "against": against, "target": target, **record})


def ms(seconds: float) -> str:
    return f"{seconds * 1000:.2f} ms"


def median(values: Sequence[float]) -> float:
    return statistics.median(values) if values else float("nan")


def spread(values: Sequence[float]) -> tuple[float, float]:
    """Where eight of ten values lie."""
    ordered = sorted(values)
    return ordered[len(ordered) // 10], ordered[-1 - len(ordered) // 10]


def rss_mb() -> float:
    """Resident memory of this process now."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6
