"""Our own program as a process of its own: in a session of its own, away from any terminal, and not in
custody, because it must outlive whoever started it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path

import msgspec

READY_FD = 3
_US = ("-P", "-m", "mainspring")


class Ended(msgspec.Struct, frozen=True):
    exit_code: int
    output: str
    errors: str


def start_detached(
    arguments: Sequence[str], *, environment: Mapping[str, str], log: Path, ready: int | None = None
) -> int:
    """Starts mainspring with these arguments and gives its pid. Errors are added to `log`, output goes
    nowhere, and what it writes to `READY_FD` goes to `ready`."""
    actions: list[tuple[int, ...] | tuple[int, int, str, int, int]] = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        (os.POSIX_SPAWN_OPEN, 2, os.fspath(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
    ]
    if ready is not None:
        actions.append((os.POSIX_SPAWN_DUP2, ready, READY_FD))
    return os.posix_spawn(
        sys.executable,
        [sys.executable, *_US, *arguments],
        dict(environment),
        file_actions=actions,
        setsid=True,
    )


def run_to_end(arguments: Sequence[str], *, environment: Mapping[str, str], timeout_s: float) -> Ended:
    """Runs mainspring with these arguments; one that takes too long is ended, and has failed."""
    return run_program([sys.executable, *_US, *arguments], environment=environment, timeout_s=timeout_s)


def run_program(argv: Sequence[str], *, environment: Mapping[str, str], timeout_s: float) -> Ended:
    """The same for another program, which the user's settings name; it is looked for on their PATH. Raises
    `FileNotFoundError` when it is not there."""
    program = import_module("shutil").which(argv[0], path=environment.get("PATH"))
    if program is None:
        raise FileNotFoundError(argv[0])
    try:
        ended = subprocess.run(
            [program, *argv[1:]],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
            check=False,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        return Ended(-1, "", f"It took more than {timeout_s:g} s.")
    return Ended(
        ended.returncode, ended.stdout.decode("utf-8", "replace"), ended.stderr.decode("utf-8", "replace")
    )
