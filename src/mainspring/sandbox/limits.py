"""How much a command may use, and how each limit is told to the kernel.

A limit of 0 means none. Memory and processes are limited for the whole tree by a cgroup where we may
make one, else for each process by rlimits; CPU seconds are summed over the tree by the guard.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import msgspec

if sys.platform != "win32":
    import resource

MIB = 1024 * 1024
WATCHED_LIMITS = ("cpu", "disk", "written", "files")
"""Those that the guard of a command looks at once a second."""
MEMORY_SHARE = 0.75
LEAST_MEMORY_BYTES = 2048 * MIB


class ProcessLimits(msgspec.Struct, frozen=True, kw_only=True):
    """`file_bytes` bounds one file, `disk_reserve_bytes` is what must stay free on the workspace's disk.

    `disk_bytes` and `new_files` bound by how much the free space and the free file numbers of that disk may
    shrink while a command runs; whatever else writes to it then counts too.
    """

    cpu_s: int = 0
    memory_bytes: int = 0
    processes: int = 4096
    open_files: int = 0
    file_bytes: int = 0
    disk_reserve_bytes: int = 256 * MIB
    disk_bytes: int = 0
    new_files: int = 0
    output_bytes: int = 0


def share_of_machine(machine_bytes: int = sys.maxsize) -> int:
    """The memory that a command may use when nobody said how much; `machine_bytes` is what we may use."""
    physical_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(int(MEMORY_SHARE * min(physical_bytes, machine_bytes)), LEAST_MEMORY_BYTES)


def rlimits(
    limits: ProcessLimits, *, has_memory_cgroup: bool, has_pids_cgroup: bool
) -> list[tuple[int, int]]:
    needs_count = limits.processes > 0 and not has_pids_cgroup
    wanted = [
        (resource.RLIMIT_CORE, 0, True),
        (resource.RLIMIT_CPU, limits.cpu_s, limits.cpu_s > 0),
        # RLIMIT_DATA counts what is really writable; RLIMIT_AS would break runtimes that reserve room.
        (resource.RLIMIT_DATA, limits.memory_bytes, limits.memory_bytes > 0 and not has_memory_cgroup),
        (resource.RLIMIT_NPROC, limits.processes + (_threads_now() if needs_count else 0), needs_count),
        (resource.RLIMIT_NOFILE, limits.open_files, limits.open_files > 0),
        (resource.RLIMIT_FSIZE, limits.file_bytes, limits.file_bytes > 0),
    ]
    return [(kind, value) for kind, value, is_set in wanted if is_set]


def _threads_now() -> int:
    """RLIMIT_NPROC counts everything its user runs, so what runs already must fit below it."""
    return int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])


def name_of(kind: str, limits: ProcessLimits) -> str:
    """The sentence part that names a limit in a result."""
    match kind:
        case "cpu":
            return f"CPU limit of {limits.cpu_s} s"
        case "memory":
            return f"memory limit of {limits.memory_bytes // MIB} MiB"
        case "processes":
            return f"limit of {limits.processes} processes"
        case "file":
            return f"file size limit of {limits.file_bytes // MIB} MiB"
        case "disk":
            return f"disk reserve of {limits.disk_reserve_bytes // MIB} MiB"
        case "written":
            return f"limit of {limits.disk_bytes // MIB} MiB written to disk"
        case "files":
            return f"limit of {limits.new_files} new files"
        case "terminal":
            return "it fills a screen that is not there and waits for keys"
        case _:
            return f"output limit of {limits.output_bytes // MIB} MiB"


def passed_by(limits: ProcessLimits, exit_code: int, max_rss: int) -> str:
    """Which limit an exit code speaks of, or nothing. A shell passes its child's signal on as 128 + N."""
    if limits.cpu_s and exit_code == 128 + signal.SIGXCPU:
        return "cpu"
    if limits.file_bytes and exit_code == 128 + signal.SIGXFSZ:
        return "file"
    if limits.memory_bytes and exit_code != 0 and max_rss > limits.memory_bytes * 3 // 4:
        return "memory"
    return ""
