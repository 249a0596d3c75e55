"""The port to the work that machines share: which sessions wait for a worker, who works on what.

What became of a session is in its journal. Here is only what is needed to give it to a worker: its queue, the
labels that a worker must have, for whom it is, and how often its process ended before its work did.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Protocol

import msgspec

from mainspring.catalog.fold import SessionRow

DEFAULT_QUEUE = "default"


class QueuedSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session in a queue. `options` are the words that whoever goes on with it adds to `resume`. `wake_us`
    is when it goes on by itself; `is_drained` that a worker which was told to end interrupted it."""

    session: str
    queue: str
    labels: tuple[str, ...] = ()
    person: str = ""
    options: tuple[str, ...] = ()
    added_us: int = 0
    worker: str = ""
    iterations: int = 0
    crashes: int = 0
    retry_us: int | None = None
    wake_us: int | None = None
    is_drained: bool = False
    is_set_aside: bool = False
    detail: str = ""
    idle_seq: int = -1
    """The events that its journal had when there was nothing to do, until it has more."""


class WorkerRow(msgspec.Struct, frozen=True, kw_only=True):
    """A worker. `silent_s` is how long it has not been heard of; one that is silent for longer than its lease
    is gone (`is_alive`), and its sessions are given to others."""

    id: str
    queue: str
    labels: tuple[str, ...] = ()
    capacity: int = 1
    host: str = ""
    pid: int = 0
    version: str = ""
    started_us: int = 0
    silent_s: float = 0.0
    is_alive: bool = True
    is_draining: bool = False

    @property
    def state(self) -> str:
        if not self.is_alive:
            return "gone"
        return "draining" if self.is_draining else "working"


class Claimed(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker may take now, in the order in which it is fair to take it: each with its place in the
    queue, and how it stands. `mine` are the sessions that it works on already."""

    offered: Sequence[tuple[QueuedSession, SessionRow]] = ()
    mine: Sequence[SessionRow] = ()


class ClaimChoice(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker decides about what it was offered: the sessions that it takes, those that need nothing
    until their journal grows or a time comes, and those that are set aside, with the reason. What is in none
    stays for others. `crashes` are remembered with whatever becomes of a session."""

    taken: Sequence[str] = ()
    idle: dict[str, int | None] = {}
    set_aside: dict[str, str] = {}
    crashes: dict[str, tuple[int, str]] = {}


class Release(msgspec.Struct, frozen=True, kw_only=True):
    """How a worker gives a session back. With `idle_seq`, the events that its journal had when the worker
    looked, it needs nothing until there are more, or until `wake_us`; with `is_drained` the worker
    interrupted it because it ends: the next one goes on with it."""

    crashes: int = 0
    detail: str = ""
    retry_us: int | None = None
    wake_us: int | None = None
    idle_seq: int | None = None
    is_drained: bool = False


class WorkQueue(Protocol):
    """The work of one store. Times are the store's."""

    async def put(self, item: QueuedSession) -> None:
        """Puts a session into a queue, or into another one; what was remembered of crashes is forgotten."""
        ...

    async def look(self, session: str) -> QueuedSession | None:
        """The place of a session in a queue; None when it is in none."""
        ...

    async def items(self) -> list[QueuedSession]:
        """All that is in queues and has not ended, or was set aside, the oldest first."""
        ...

    async def workers(self) -> list[WorkerRow]:
        """The workers that were heard of within a day, the newest first."""
        ...

    async def hello(self, worker: WorkerRow, lease_s: float) -> bool:
        """Says that a worker lives; False when it was told to drain."""
        ...

    async def goodbye(self, worker: str) -> None:
        """A worker has ended in order."""
        ...

    async def drain(self, worker: str) -> None:
        """Tells a worker to give back what it does, and to end."""
        ...

    async def claim(
        self,
        worker: WorkerRow,
        mine: Sequence[str],
        limit: int,
        choose: Callable[[Claimed], Awaitable[ClaimChoice]],
        only: Collection[str] | None = None,
        without: Collection[str] = (),
    ) -> list[QueuedSession]:
        """Offers a worker at most `limit` sessions, all or only some, but none of `without`, that nobody else
        is offered meanwhile; gives those that it chose to take, and that are its own from here on."""
        ...

    async def next_s(self, worker: WorkerRow) -> float | None:
        """After how many seconds a worker should look again, because a wait, or the right of another one to
        what it works on, may end then; None when nothing of that is known."""
        ...

    async def standing(self, sessions: Sequence[str]) -> list[SessionRow]:
        """How some sessions stand."""
        ...

    async def draining(self, sessions: Sequence[str]) -> None:
        """These are about to be interrupted because their worker ends."""
        ...

    async def release(self, session: str, worker: str, given: Release) -> None:
        """A worker is no longer at work on a session."""
        ...

    async def retry(self, session: str) -> bool:
        """Gives a session that was set aside, or waits to be tried again, to workers at once; False when it
        is in no queue."""
        ...

    async def poke(self, session: str, why: str = "poke") -> None:
        """Makes workers look at a session at once, because of `approve`, `say`, `stop` or something else; a
        hint, they look by themselves too."""
        ...

    async def hear(self, on_hint: Callable[[], None], worker: WorkerRow, room: Callable[[], int]) -> None:
        """Calls back when somebody poked, as far as that can be told, until it is cancelled. `room` gives how
        many sessions the worker may have at once."""
        ...
