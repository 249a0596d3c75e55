"""Jobs of a session on other machines: what was to be submitted, where it got to, how it ended; and
machines that its own commands run on."""

from typing import Literal

from mainspring.events.base import Event, Id, Word
from mainspring.events.values import Blob

JobState = Literal["queued", "running", "done", "failed", "cancelled", "timed_out", "lost", "unknown"]
"""`lost` ended without anybody knowing how; of an `unknown` one nobody can tell at the moment."""


class JobPlanned(Event, frozen=True):
    """A job is about to be submitted to a host, under a `name` that no other job ever has: whoever finds no
    `JobSubmitted` after this looks for that name there before it submits again. `usd` is what it may cost
    at most, and set aside under the price of `call`; without a price nobody knows. `begin_us` is the
    earliest time at which it may begin."""

    job: Id
    name: Id
    call: Id
    host: str
    command: str
    hardware: str = ""
    time_limit_s: float = 0.0
    usd: float | None = None
    files: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    begin_us: int = 0
    is_staying: bool = False


class JobSubmitted(Event, frozen=True):
    """The host has the job, by its own id; `was_there` when it had it already, from before a crash."""

    job: Id
    remote: str
    was_there: bool = False


class JobCancelled(Event, frozen=True):
    """A job is about to be cancelled, and why."""

    job: Id
    why: Word = ""


class JobEnded(Event, frozen=True):
    """How a job ended, for how long it ran, what that cost, and the end of what it wrote."""

    job: Id
    state: JobState
    exit_code: int | None = None
    ran_s: float | None = None
    usd: float | None = None
    detail: str = ""
    log: Blob | None = None


class JobCollected(Event, frozen=True):
    """Outputs of a job were written into the workspace; `missing` are those that it did not make, `left_out`
    names what of them was not taken, with the reason."""

    job: Id
    files: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


class MachineChosen(Event, frozen=True):
    """Where the commands of the tool `shell` run from here on: on a machine of `[machines]`, by its name."""

    machine: str


class MachineStarted(Event, frozen=True):
    """A machine is about to be used, under a `name` that no other use ever has, for at most so long. `usd` is
    what that may cost at most, and set aside under the price of `call`; without a price nobody knows."""

    use: Id
    name: Id
    machine: str
    call: Id
    time_limit_s: float = 0.0
    usd: float | None = None


class MachineEnded(Event, frozen=True):
    """Everything of a use was ended there: why, after how long, and what that cost."""

    use: Id
    why: Word = ""
    ran_s: float | None = None
    usd: float | None = None
