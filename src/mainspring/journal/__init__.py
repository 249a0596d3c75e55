"""The port to the only state there is: append events durably, read them back, keep blobs by their hash.

`append` returns when its events are durable, all of one call in one commit, and never half of it; or, when
that is enough, when they have their number and are durable a moment later. One process writes a journal
at a time; any number read it meanwhile. Ownership can be lost while a journal is open (a lease that ran
out): whoever lost it cannot append. Nothing here knows what events mean.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from mainspring.events import Blob, Event, Recorded

_E = TypeVar("_E", bound=Event)

KnownEvents = Callable[[str, Path], Iterable[tuple[int, Event]]]
"""The events of a session in the making, each with its time in microseconds. Called with the session's id and
the folder for the files beside its journal."""


UNDECODABLE = "cannot be decoded"
BLOB_LOST = "has a fault"
"""How the problem of an event begins that has its hash, and that still, or something that it names, cannot be
read."""


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """What checking the hash chain found: `problem` is empty, or names the first broken event. `anchored_seq`
    is the event that the journal must have at least, as is kept outside it; None when nothing is."""

    events: int
    blobs: int
    head: str
    problem: str = ""
    broken_seq: int | None = None
    anchored_seq: int | None = None

    def remedy(self, session: str) -> str:
        """What to do about the problem: go on in a copy of what is sound."""
        is_repairable = UNDECODABLE in self.problem or BLOB_LOST in self.problem
        if self.events == 0:
            remedy = "Restore it from a backup or an export"
        else:
            remedy = (
                "Go on in a copy that ends at the last sound event:"
                f" mainspring fork {session} --at {self.events}"
            )
        if is_repairable:
            remedy += (
                ". To keep also what can be read after it, leaving out what cannot:"
                f" mainspring fork {session} --repair"
            )
        if self.anchored_seq is None:
            return remedy if self.events or is_repairable else f"{remedy}."
        return f"{remedy}. If you restored an older copy, accept it: mainspring verify --accept {session}"


class JournalReader(Protocol):
    """A journal that one may read, whoever writes it."""

    @property
    def session(self) -> str: ...

    async def last_seq(self) -> int:
        """The number of the newest event, 0 for an empty journal."""
        ...

    async def read(
        self, *, after: int = 0, until: int | None = None, kinds: Collection[str] = (), limit: int = 1000
    ) -> list[Recorded]:
        """Up to `limit` events with `after < seq <= until`, oldest first, of these kinds (or all).
        Raises `JournalDamaged` with the seq of an event that cannot be read."""
        ...

    async def last(self, *kinds: str) -> Recorded | None:
        """The newest event of these kinds."""
        ...

    async def count(self, kind: str, *, after: int = 0, until: int | None = None) -> int:
        """How many events of a kind there are with `after < seq <= until`, without reading them."""
        ...

    async def chain_hash(self, seq: int) -> str:
        """The hash of the chain up to an event, which is another one for any other history; empty when there
        is no such event."""
        ...

    async def get(self, blob: Blob) -> bytes:
        """The blob's bytes; `JournalDamaged` when they are missing or do not match their hash."""
        ...

    async def verify(self) -> Verification: ...

    async def close(self) -> None: ...


class Journal(JournalReader, Protocol):
    """A journal that this process writes, for as long as it owns it."""

    async def append(self, *events: Event, is_durable: bool = True) -> Sequence[Recorded]:
        """Durable on return. When that is not asked for, the events have their numbers on return, whoever
        reads this journal reads them, and they are durable with the next append that is, a moment later at
        the latest. A process that dies before that loses them; if they cannot be written, the next append
        raises, or `close`, and they stand before the next event that can.
        Raises `JournalUnwritable`, or `JournalOwned` when this process is no longer the owner; nothing was
        written then, and what was lost stays lost until it is opened again. When the awaiting task is
        cancelled the events are written all the same, and the cancellation goes on after `subscribe` has told
        of them: whoever handles it sees the journal as it is."""
        ...

    async def put(self, data: bytes, media_type: str = "text/plain") -> Blob:
        """Keeps the bytes, once for the same content; durable no later than the next append."""
        ...

    async def anchor(self) -> None:
        """Keeps number and hash of the newest event outside the journal, so that its loss is noticed; also
        done by `close`."""
        ...

    def subscribe(
        self,
        on_appended: Callable[[Sequence[Recorded]], None],
        on_durable: Callable[[int], None] | None = None,
    ) -> None:
        """Sets the one function that is called for each append, in order, on the event loop, after its events
        have their place and before `append` returns to its caller; and the one that is told, after that, up
        to which number they are durable."""
        ...


async def events_in(
    journal: JournalReader,
    *,
    kinds: Collection[str] = (),
    after: int = 0,
    until: int | None = None,
    limit: int = 1000,
) -> AsyncGenerator[Recorded]:
    """Every event of these kinds (or all), a page of at most `limit` at a time."""
    while page := await journal.read(after=after, until=until, kinds=kinds, limit=limit):
        for recorded in page:
            yield recorded
        after = page[-1].seq


async def last_event(journal: JournalReader, kind: type[_E]) -> _E | None:
    """The newest event of a kind; None when there is none."""
    found = await journal.last(kind.__name__)
    return found.event if found and isinstance(found.event, kind) else None
