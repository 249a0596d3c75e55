"""What a wait works with, and what it can look at beyond its session."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

import msgspec

from mainspring.catalog import Sessions
from mainspring.events import Delta
from mainspring.folds.processes import Handles
from mainspring.folds.state import State
from mainspring.sandbox import Sandbox
from mainspring.sandbox.files import Files
from mainspring.system import seconds_since_boot
from mainspring.waits.patience import Patience


class Pace(msgspec.Struct, frozen=True):
    """How often things are looked at. The clock is looked at every `slice_s`, because it can jump and the
    machine can sleep meanwhile."""

    slice_s: float = 30.0
    status_s: float = 60.0
    stall_s: float = 30.0
    file_s: tuple[float, float] = (0.5, 5.0)
    session_s: tuple[float, float] = (1.0, 5.0)
    slurm_s: tuple[float, float] = (30.0, 60.0)
    job_s: tuple[float, float] = (1.0, 60.0)
    least_command_s: float = 5.0
    command_timeout_s: float = 60.0


def now_us() -> int:
    return time.time_ns() // 1000


class JobLook(msgspec.Struct, frozen=True):
    """What was seen of a job on another machine. A `lost` one cannot be asked for by anybody now."""

    text: str
    is_ended: bool = False
    is_lost: bool = False


class Reach(msgspec.Struct, frozen=True):
    """What lies beyond the session: other sessions, a place `outside` of its sandbox where our own commands
    run in custody (its user closes it), and its jobs on other machines, whose end is on record once it was
    seen."""

    sessions: Sessions | None = None
    outside: Callable[[], Awaitable[Sandbox]] | None = None
    look_at_job: Callable[[str], Awaitable[JobLook]] | None = None
    patience: Patience = Patience()
    pace: Pace = Pace()
    clock: Callable[[], int] = now_us

    def since(self, began_us: int, began_up_s: float) -> Reach:
        """The same, with a clock that shows at least as much time since a beginning as has gone by: setting
        the clock back prolongs nothing."""

        def clock() -> int:
            gone_s = max(seconds_since_boot() - began_up_s, 0.0)
            return max(self.clock(), began_us + int(gone_s * 1e6))

        return msgspec.structs.replace(self, clock=clock)


class WaitContext(msgspec.Struct, frozen=True, kw_only=True):
    """A session, seen by its waits. `record` returns once the events are durable and folded into `state`."""

    state: State
    handles: Handles
    files: Files
    reach: Reach
    sandbox: Callable[[], Awaitable[Sandbox]]
    record: Callable[..., Awaitable[None]]
    show: Callable[[Delta], None]
