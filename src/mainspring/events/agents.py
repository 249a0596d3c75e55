"""What happens when a session gives part of its work to another one: a child, which is a session with a
parent and has its own journal. The parent's journal has its beginning and its one end."""

from typing import Literal

from mainspring.events.base import Event, Id
from mainspring.events.values import Blob, Cap, Limits, Usage, Value

ChildState = Literal["done", "failed", "stopped", "budget", "lost"]
"""How the work of a child ended. `budget` is its share or a limit of steps, calls or time; `lost` means that
its journal is gone, or that nobody works on it and it cannot be gone on with."""

Isolation = Literal["read-only", "worktree", "scratch"]
"""Where a child works: in the workspace, which it cannot change; in a copy whose changes are taken over; or
in a copy that is thrown away."""

Landing = Literal["", "landed", "conflict", "discarded", "unchanged"]
"""What became of the changes of a child; empty when it could make none."""


CHILD_WAIT = "child-"
"""How the name of a wait begins that is for a child."""


class ChildStarted(Event, frozen=True):
    """A child with this id is about to work on `task`; recorded before there is such a session. `limits` is
    its share of what is left. `call` is the one that asked for it: its result is the child's, unless the
    child works in the background. With a `node` it does that task of a graph. It is done only when each
    command of `checks`, run where it worked, exits with 0."""

    child: Id
    task: str
    agent: str = ""
    call: Id = ""
    model: str = ""
    isolation: Isolation = "read-only"
    is_background: bool = False
    limits: Limits = Limits()
    node: str = ""
    checks: tuple[str, ...] = ()


class ChildEnded(Event, frozen=True):
    """The work of a child is over. `text` is what it said last, cut when it is long: `full` has the whole.
    `diff` is what it changed in `files`; those in `conflicts` were changed here as well, and
    `both` shows both sides; nothing was taken over then. `left_out` could not be taken over, and why.
    `passed` and `failed` are its checks."""

    child: Id
    state: ChildState
    detail: str = ""
    text: str = ""
    full: Blob | None = None
    diff: Blob | None = None
    files: tuple[str, ...] = ()
    landing: Landing = ""
    conflicts: tuple[str, ...] = ()
    both: Blob | None = None
    left_out: tuple[str, ...] = ()
    steps: int = 0
    calls: int = 0
    usage: Usage = Usage()
    cost_usd: float = 0.0
    duration_s: float = 0.0
    passed: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


class PlannedTask(Value, frozen=True):
    """A task of a graph: it begins when all that it `needs` are done. `agent`, `model`, `checks` and
    `budget_usd` are those of its child."""

    name: str
    text: str
    needs: tuple[str, ...] = ()
    agent: str = ""
    model: str = ""
    checks: tuple[str, ...] = ()
    budget_usd: float | None = None


class TasksStarted(Event, frozen=True):
    """These tasks are to be done, each by a child, at most `at_once` at a time. `call` asked for them;
    without one a person did, and all together may use `cap`. `is_unpriced` says that a model without a price
    may work under it."""

    tasks: tuple[PlannedTask, ...]
    call: Id = ""
    title: str = ""
    at_once: int = 1
    cap: Cap = Cap()
    is_unpriced: bool = False


class TasksEnded(Event, frozen=True):
    """Nothing is left to do of a graph: what is `blocked` needs something that is not done."""

    call: Id = ""
    done: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()
