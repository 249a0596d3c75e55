"""The events of a journal in memory: their stored forms and hashes, an anchor, and ways to damage them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from mainspring.events import Recorded, decode
from mainspring.journal import Verification, hashchain
from mainspring.journal.anchor import Anchor
from mainspring.journal.lines import refused
from mainspring.journal.stored import Row
from mainspring.journal.verification import anchored, blobs_in


class Events:
    """What a journal holds. `rows` are stored forms with their hashes, made when somebody needs them."""

    def __init__(
        self, recorded: Iterable[Recorded], blobs: dict[str, bytes], rows: Iterable[Row] = ()
    ) -> None:
        self.recorded = list(recorded)
        self.blobs = blobs
        self._rows = list(rows)
        self.anchor: Anchor | None = None

    def read(
        self, *, after: int = 0, until: int | None = None, kinds: Collection[str] = (), limit: int = 1000
    ) -> list[Recorded]:
        found = self.recorded[max(after, 0) : until]
        return [item for item in found if not kinds or item.kind in kinds][:limit]

    def last(self, *kinds: str) -> Recorded | None:
        return next((item for item in reversed(self.recorded) if not kinds or item.kind in kinds), None)

    def rows(self) -> list[Row]:
        for item in self.recorded[len(self._rows) :]:
            kind, body = hashchain.encoded(item.event)
            stored = hashchain.stored_form(body, self.blobs.__setitem__)
            self._rows.append(chained(self._rows, item.time_us, kind, stored))
        return self._rows

    def verdict(self) -> Verification:
        """Whether the chain is sound and reaches its anchor."""
        rows, head = self.rows(), hashchain.GENESIS
        for count, row in enumerate(rows):
            if not hashchain.follows(head, *row):
                problem = f"event {row[0]} does not match its hash"
                return Verification(
                    events=count, blobs=0, head=head.hex(), problem=problem, broken_seq=count + 1
                )
            head = row[4]
        verdict = Verification(events=len(rows), blobs=len(self.blobs), head=head.hex())
        if self.anchor is None:
            return verdict
        found = rows[: self.anchor.events][-1][4].hex() if rows else ""
        return anchored(verdict, self.anchor, found)

    def keep_anchor(self) -> None:
        rows = self.rows()
        if rows:
            self.anchor = Anchor(events=len(rows), head=rows[-1][4].hex())

    def cut(self, events: int) -> None:
        del self.recorded[events:], self._rows[events:]

    def alter(self, seq: int) -> None:
        rows = self.rows()
        number, time_us, kind, _, hash_ = rows[seq - 1]
        rows[seq - 1] = number, time_us, kind, b'{"text":"altered"}', hash_


def chained(before: Sequence[Row], time_us: int, kind: str, stored: bytes) -> Row:
    seq, head = len(before) + 1, before[-1][4] if before else hashchain.GENESIS
    return seq, time_us, kind, stored, hashchain.chain(head, seq, time_us, kind, stored)


def brought(items: Iterable[tuple[str, bytes] | Row]) -> Events:
    """What the events and blobs of an export say."""
    blobs, rows = dict[str, bytes](), list[Row]()
    for item in items:
        if len(item) == 2:
            blobs[item[0]] = item[1]
        else:
            rows.append(item)
    return restored(rows, blobs)


def restored(rows: Sequence[Row], blobs: dict[str, bytes]) -> Events:
    """What rows say, which keep their stored form and their hashes."""
    recorded: list[Recorded] = []
    for seq, time_us, kind, stored, _ in rows:
        spilled = hashchain.referenced(stored)
        needed = [spilled] if spilled else []
        if all(blob.sha256 in blobs for blob in needed):
            event = decode(kind, blobs[spilled.sha256] if spilled else stored)
            recorded.append(Recorded(seq, time_us, event))
            needed = list(blobs_in(event))
        missing = [blob.sha256 for blob in needed if blob.sha256 not in blobs]
        if missing:
            raise refused(f"blob {missing[0][:12]} of event {seq} is missing", seq)
    return Events(recorded, blobs, rows)
