"""What a session waits for, and what woke it. A wait is data: whoever opens the journal goes on with it."""

from typing import Literal

from mainspring.events.base import Event, Id, Word
from mainspring.events.values import Value

WaitCause = Literal["met", "deadline", "stalled", "unknown", "cancelled"]
"""Why a wait ended: what it was for happened, its time was over, the work stood still, nobody could tell any
more, or a person or the session's end broke it off."""


class OnProcess(Value, frozen=True, tag="process", tag_field="on"):
    """A background process of this session ends."""

    handle: Id


class OnPid(Value, frozen=True, tag="pid", tag_field="on"):
    """A process that is not ours ends. `identity` tells it from a later one of the same number; `name` is the
    program that it ran."""

    pid: int
    identity: Id = ""
    name: str = ""


class OnTime(Value, frozen=True, tag="time", tag_field="on"):
    """The clock shows this, in microseconds since 1970 in UTC."""

    at_us: int


class OnFile(Value, frozen=True, tag="file", tag_field="on"):
    """A file is there, is gone, differs from `before`, or has a line that matches `pattern`."""

    path: str
    until: Literal["exists", "gone", "changed", "matches"] = "exists"
    pattern: str = ""
    before: Word = ""


class OnSlurm(Value, frozen=True, tag="slurm", tag_field="on"):
    """A job of a cluster leaves its queue."""

    job: str


class OnCommand(Value, frozen=True, tag="command", tag_field="on"):
    """A command, run in the sandbox every so often, exits with 0."""

    command: str
    every_s: float = 30.0


class OnCallback(Value, frozen=True, tag="callback", tag_field="on"):
    """Somebody calls the address that ends with this token; it is written to `file` for whoever should."""

    token: Id
    url: str = ""
    file: str = ""


class OnAnswer(Value, frozen=True, tag="answer", tag_field="on"):
    """A person answers the question of this call."""

    call: str


class OnQuota(Value, frozen=True, tag="quota", tag_field="on"):
    """A provider answers again, as it said itself."""

    model: str
    at_us: int


class OnSession(Value, frozen=True, tag="session", tag_field="on"):
    """The running turn, or goal, of another session ends."""

    session: str


class OnChild(Value, frozen=True, tag="child", tag_field="on"):
    """The work of a child of this session ends."""

    child: Id


class OnJob(Value, frozen=True, tag="job", tag_field="on"):
    """A job that this session submitted to another machine ends."""

    job: Id


Condition = (
    OnProcess
    | OnPid
    | OnTime
    | OnFile
    | OnSlurm
    | OnCommand
    | OnCallback
    | OnAnswer
    | OnQuota
    | OnSession
    | OnChild
    | OnJob
)


class WaitStarted(Event, frozen=True):
    """From here on the session sleeps until any or all of `conditions` hold, `deadline_us` is past, or
    nothing that it waits for has used the processor for `stall_s`. `call` is the one that asked for it. Said
    again of an open wait, it replaces the conditions: an address has changed. It began when the clock showed
    `began_us`, `began_up_s` seconds after the machine was started as `boot`: however the clock is set
    meanwhile, it lasts no longer than from then to its times."""

    wait: Id
    conditions: tuple[Condition, ...]
    needs: Literal["any", "all"] = "any"
    deadline_us: int | None = None
    stall_s: float | None = None
    reason: str = ""
    call: Id = ""
    began_us: int = 0
    boot: Id = ""
    began_up_s: float = 0.0


class ConditionMet(Event, frozen=True):
    """One of several conditions that are all needed was met, and need not be looked at again. `at_us` is when
    that happened, as far as it is known."""

    wait: Id
    condition: int
    detail: str = ""
    at_us: int | None = None


class WaitEnded(Event, frozen=True):
    """The one wake of a wait: `met` are the conditions that held, by their place. `late_s` is how long ago it
    could have woken, when nobody was there to see it."""

    wait: Id
    cause: WaitCause
    summary: str = ""
    met: tuple[int, ...] = ()
    late_s: float = 0.0
