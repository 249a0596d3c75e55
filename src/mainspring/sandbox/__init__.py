"""The port to somewhere that is not us: run a command there, and keep custody of what it starts.

A command that fails is a value (`CommandResult`); a machine that fails is a `SandboxError`. A rung of the
ladder (plain processes, bubblewrap, Landlock, a container) is one implementation of `Sandbox`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

from mainspring.sandbox.limits import MIB, ProcessLimits
from mainspring.sandbox.policy import Confinement

if TYPE_CHECKING:
    from mainspring.sandbox.background import Background

__all__ = [
    "MIB",
    "TIMED_OUT",
    "Command",
    "CommandResult",
    "Confinement",
    "OnOutput",
    "ProcessLimits",
    "Sandbox",
]

Name = Literal["bwrap", "landlock", "container", "none"]
LADDER: tuple[Name, ...] = ("bwrap", "landlock", "container", "none")
"""The rungs, the highest first; `none` is taken only when a person says so."""

OnOutput = Callable[[bytes], None]

TIMED_OUT = "timed out"
"""How `Finished.stopped` begins when its time was over."""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A program and where it runs. It has no terminal, and its standard input is empty.

    `max_output_bytes` is what `CommandResult` keeps of each stream, head and tail; `on_output` sees all.
    `policy` replaces the sandbox's own for this run (a grant). `timeout_s` also bounds the life of what
    the command leaves running; that ends at once when the command `is_whole`, and goes on without us when
    it `outlives` us. `stdin` and `stdout` are descriptors that take the place of the empty input and of the
    kept output; they stay the caller's.
    """

    argv: tuple[str, ...]
    cwd: Path
    timeout_s: float = 120.0
    env: Mapping[str, str] = {}
    max_output_bytes: int = 8 * 1024 * 1024
    limits: ProcessLimits = ProcessLimits()
    policy: Confinement | None = None
    stdin: int = -1
    stdout: int = -1
    is_whole: bool = False
    outlives: bool = False


class CommandResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a command did. A death by signal N has the exit code 128 + N; 127 and 126 mean that the
    program was not found or could not be executed.

    `stopped` says why we ended it ("timed out after 5 s", a limit by name), or is empty.
    `left_running` lists processes that were still alive when the command itself had exited.
    `set_aside` lists protected paths that it made or changed and that were renamed or put back;
    `diff_of_aside` has the beginning of what was in them.
    `is_partly_held` says that the workspace has too many folders: protected and hidden names in some of them
    were not looked for.
    """

    exit_code: int
    stdout: bytes
    stderr: bytes
    duration_s: float
    stopped: str = ""
    left_running: tuple[int, ...] = ()
    dropped_bytes: int = 0
    cpu_s: float = 0.0
    max_rss_bytes: int = 0
    set_aside: tuple[str, ...] = ()
    diff_of_aside: str = ""
    is_partly_held: bool = False


class Sandbox(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def is_containing(self) -> bool:
        """Whether a command here is confined to the workspace by something stronger than good manners."""
        ...

    @property
    def is_containing_background(self) -> bool:
        """Whether that holds for a background command too, after which nothing is put back."""
        ...

    @property
    def has_own_pids(self) -> bool:
        """Whether processes have other numbers here than where we are."""
        ...

    async def run(self, command: Command, on_output: OnOutput | None = None) -> CommandResult:
        """Runs to its end, its time-out, or our cancellation; in each case nothing of it is left behind,
        except what `left_running` names."""
        ...

    async def start(self, command: Command, folder: Path, *, is_terminal: bool = False) -> Background:
        """Starts a command that outlives us; its output and exit code are written to an empty folder.

        `timeout_s` bounds its life; 0 means no bound.
        """
        ...

    async def end_left(self) -> None:
        """Ends whatever commands left running."""
        ...

    async def close(self) -> None:
        """Ends whatever commands left running and may not outlive us."""
        ...
