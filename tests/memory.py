"""A journal in memory: quick enough to run thousands of sessions, with a clock that a test can set."""

import hashlib
from collections.abc import Callable, Collection, Iterable, Sequence

from mainspring.errors import JournalDamaged
from mainspring.events import Blob, Event, Recorded, decode, encode
from mainspring.journal import Verdict


class MemoryJournal:
    """Events pass through their stored form, so that what is read is what a file would give."""

    session = "memory"

    def __init__(self, recorded: Iterable[Recorded] = (), *, blobs: dict[str, bytes] | None = None) -> None:
        self.recorded = list(recorded)
        self.blobs = {} if blobs is None else blobs
        self.now_us = self.recorded[-1].time_us if self.recorded else 1_000_000
        self._on_appended: Callable[[Sequence[Recorded]], None] | None = None

    async def append(self, *events: Event) -> Sequence[Recorded]:
        added: list[Recorded] = []
        for event in events:
            self.now_us += 1000
            stored = decode(*encode(event))
            added.append(Recorded(len(self.recorded) + len(added) + 1, self.now_us, stored))
        self.recorded += added
        if added and self._on_appended is not None:
            self._on_appended(added)
        return tuple(added)

    def subscribe(self, on_appended: Callable[[Sequence[Recorded]], None]) -> None:
        self._on_appended = on_appended

    async def last_seq(self) -> int:
        return len(self.recorded)

    async def read(
        self, *, after: int = 0, until: int | None = None, kinds: Collection[str] = (), limit: int = 1000
    ) -> list[Recorded]:
        found = self.recorded[max(after, 0) : until]
        return [item for item in found if not kinds or item.kind in kinds][:limit]

    async def last(self, *kinds: str) -> Recorded | None:
        found = [item for item in self.recorded if not kinds or item.kind in kinds]
        return found[-1] if found else None

    async def count(self, kind: str, *, after: int = 0, until: int | None = None) -> int:
        return sum(item.kind == kind for item in self.recorded[max(after, 0) : until])

    async def put(self, data: bytes, media_type: str = "text/plain") -> Blob:
        sha256 = hashlib.sha256(data).hexdigest()
        self.blobs[sha256] = data
        return Blob(sha256=sha256, size=len(data), media_type=media_type)

    async def get(self, blob: Blob) -> bytes:
        if blob.sha256 not in self.blobs:
            raise JournalDamaged("There is no such blob.")
        return self.blobs[blob.sha256]

    async def verify(self) -> Verdict:
        return Verdict(events=len(self.recorded), blobs=len(self.blobs), head="")

    async def close(self) -> None:
        return
