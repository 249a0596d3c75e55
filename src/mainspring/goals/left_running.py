"""What outside engines left running while they worked for a goal: which of it still runs, and its end."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping

from mainspring.sandbox.custody.tree import descendants, stat
from mainspring.system import open_process, seconds_since_boot, signal_process


def still_running(left: Mapping[int, int]) -> tuple[int, ...]:
    """Those of these processes that live, each with the time at which it was seen: a later one of the same
    number is somebody else's."""
    return tuple(pid for pid, seen_us in left.items() if _is_alive(pid, seen_us))


def end_processes(left: Mapping[int, int]) -> tuple[int, ...]:
    """Ends those that still run, and what they started; gives their numbers."""
    return tuple(pid for pid, seen_us in left.items() if _end(pid, seen_us))


def booted_us() -> int:
    return int((time.time() - seconds_since_boot()) * 1e6)


def started_us(pid: int) -> int | None:
    """When a process began; None when it does not live."""
    found = stat(pid)
    if found is None or found.state in "ZX":
        return None
    return booted_us() + int(found.start / os.sysconf("SC_CLK_TCK") * 1e6)


def _is_alive(pid: int, seen_us: int) -> bool:
    began_us = started_us(pid)
    return began_us is not None and began_us <= seen_us


def _end(pid: int, seen_us: int) -> bool:
    try:
        handle = open_process(pid)
    except OSError:
        return False
    try:
        if not _is_alive(pid, seen_us):
            return False
        below = {child.pid: time.time_ns() // 1000 for child in descendants(pid)}
        signal_process(handle, signal.SIGKILL)
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    end_processes(below)
    return True
