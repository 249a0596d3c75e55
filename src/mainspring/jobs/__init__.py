"""The port to machines that run jobs for us: submit, look, read, cancel, fetch, and say what it costs.

A job has a name that no other job ever has. Submitting is done once by name, however often it is asked for:
a host that has a job of this name gives that one back. What goes wrong with a host is a `JobHostError`; how
a job ends is a value.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import msgspec

from mainspring.events import JobState

ENDED: frozenset[JobState] = frozenset({"done", "failed", "cancelled", "timed_out", "lost"})


class JobSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What is to run. `files` is a tar archive that is unpacked where it begins; `begin_us` is the earliest
    time at which it may, at once when 0."""

    name: str
    command: str
    time_limit_s: float
    hardware: str = ""
    files: Path | None = None
    begin_us: int = 0


class SubmittedJob(msgspec.Struct, frozen=True):
    """The host's own id of a job; `was_there` when it had it before it was asked this time."""

    remote: str
    was_there: bool = False


class JobRef(msgspec.Struct, frozen=True):
    """A job by our name and by that of its host."""

    name: str
    remote: str


class JobStatus(msgspec.Struct, frozen=True, kw_only=True):
    """`ran_s` is for how long it has been running, or ran, as far as its host says."""

    state: JobState
    exit_code: int | None = None
    ran_s: float | None = None
    detail: str = ""

    @property
    def is_ended(self) -> bool:
        return self.state in ENDED


class JobHost(Protocol):
    """Somewhere that runs jobs."""

    def usd_per_hour(self, hardware: str) -> float | None:
        """What an hour costs, None when nobody said; `UsageError` for hardware that is not there."""
        ...

    async def submit(self, spec: JobSpec) -> SubmittedJob:
        """Has it run once, also when this is called again after a crash."""
        ...

    async def find(self, name: str) -> str:
        """The host's id of the job with this name; empty when it has none."""
        ...

    async def status(self, job: JobRef) -> JobStatus: ...

    async def logs(self, job: JobRef, max_bytes: int) -> bytes:
        """The end of what it wrote so far."""
        ...

    async def cancel(self, job: JobRef) -> None:
        """Ends it with all that it started; one that has ended stays as it is."""
        ...

    async def fetch(self, job: JobRef, outputs: tuple[str, ...], into: Path) -> tuple[str, ...]:
        """Writes a tar archive of what it made there, and gives what of it is missing."""
        ...

    async def check(self) -> str:
        """What is there, in a few words; raises when nothing could run."""
        ...

    async def close(self) -> None: ...
