"""The number of a process as we know it, for one that was named from inside a pid namespace."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

_FIELD = "NSpid:"


def number_here(named: int, among: Iterable[int]) -> int | None:
    """The one of these processes that has this number in its own namespace."""
    return next((pid for pid in among if _innermost(pid) == named), None)


def _innermost(pid: int) -> int | None:
    try:
        status = Path(f"/proc/{pid}/status").read_text("utf-8", "replace")
    except OSError:
        return None
    line = next((line for line in status.splitlines() if line.startswith(_FIELD)), "")
    numbers = line.removeprefix(_FIELD).split()
    return int(numbers[-1]) if numbers else None
