"""One unchanging view of how a journal is kept, for whatever checks, copies or exports it.

Blocks: it is used off the event loop. Each store has one; what is done with it is the same for all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

Row = tuple[int, int, str, bytes, bytes]
"""An event as it is kept: its number, time, kind, stored body and hash."""


class UnreadableStore(Exception):
    """What keeps the journal is damaged at this place."""


class StoredEvents(Protocol):
    def rows(self, until: int | None = None) -> Iterator[Row]:
        """The events up to a number, as they are kept; `UnreadableStore` where they cannot be read."""
        ...

    def hash_at(self, seq: int) -> bytes:
        """The hash that is kept with an event; empty when there is no such event."""
        ...

    def blob(self, sha256: str) -> bytes:
        """The blob's bytes; ValueError when they are missing or not what the hash names."""
        ...

    def fault_beside_events(self, seen: set[str]) -> str:
        """A fault in blobs that no event names, or in what no event needs; `seen` gains the sound blobs."""
        ...
