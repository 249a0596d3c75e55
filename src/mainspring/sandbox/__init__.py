"""The port to somewhere that is not us: run a command there, and keep custody of what it starts.

A command that fails is a value (`Finished`); a machine that fails is a `SandboxError`. A rung of the
ladder (plain processes, bubblewrap, Landlock, a container) is one implementation of `Sandbox`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

import msgspec


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A program and where it runs. Its standard input is closed."""

    argv: tuple[str, ...]
    cwd: Path
    timeout_s: float = 120.0
    env: Mapping[str, str] = {}
    max_output_bytes: int = 64 * 1024 * 1024


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """What a command did. A death by signal N has the exit code 128 + N.

    `stopped` says why we ended it ("timed out after 5 s", "cancelled", a limit by name), or is empty.
    `left_running` lists processes that were still alive when the command itself had exited.
    """

    exit_code: int
    stdout: bytes
    stderr: bytes
    duration_s: float
    stopped: str = ""
    left_running: tuple[int, ...] = ()
    dropped_bytes: int = 0


class Sandbox(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def is_containing(self) -> bool:
        """Whether a command here is confined to the workspace by something stronger than good manners."""
        ...

    async def run(self, command: Command, on_output: Callable[[bytes], None] | None = None) -> Finished:
        """Runs to its end, its time-out, or our cancellation; in each case nothing of it is left behind,
        except what `left_running` names."""
        ...
