"""What the log of commands says: who gave which command from where, and what was decided about it by which
rule. It is a hash chain of its own (`journal/chained_log.py`) and holds no secrets.

A command is in it as it was `asked` of a face, before it is done; what it then changed in a session is in it
as `recorded`, with the number of the event. A `checkpoint` says that everything up to a number was dropped,
and with which hash it ended: the chain can be followed from there.
"""

from collections.abc import AsyncIterable, Sequence
from typing import Any, Literal

import msgspec

from mainspring.events import Origin
from mainspring.events.base import Id, Sha256, Word
from mainspring.events.decoding import DECODE_ERRORS
from mainspring.events.moments import date_of
from mainspring.journal.chained_log import LogHead, LogLine, is_next

EntryKind = Literal["asked", "recorded", "checkpoint"]
Verdict = Literal["allowed", "refused"]


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One command. `rule` is what decided about it, `address` where it came from over a network, `event` the
    number in the journal of `session`, and `dropped_seq` the last line that a checkpoint took away."""

    id: Id
    kind: EntryKind
    operation: Word
    decision: Verdict = "allowed"
    rule: str = ""
    reason: str = ""
    origin: Origin = Origin()
    address: str = ""
    session: Id = ""
    event: int = 0
    workspace: str = ""
    arguments: dict[str, Any] = {}
    dropped_seq: int = 0
    dropped_hash: Sha256 = ""


class AuditLine(msgspec.Struct, frozen=True, kw_only=True):
    """An entry with its place in the chain."""

    seq: int
    time_us: int
    hash: str
    entry: AuditEntry

    @property
    def time(self) -> str:
        return date_of(self.time_us).isoformat(timespec="milliseconds")


class AuditCheck(msgspec.Struct, frozen=True, kw_only=True):
    """What verifying found: how many entries there are, from which to which, the hash of the last, and a
    sentence for everything that is wrong."""

    entries: int
    first_seq: int = 0
    last_seq: int = 0
    hash: str = ""
    problems: tuple[str, ...] = ()


def audit_line(line: LogLine) -> AuditLine | None:
    """A line of the log as an entry; None when it is none."""
    try:
        entry = msgspec.json.decode(line.body, type=AuditEntry)
    except DECODE_ERRORS:
        return None
    return AuditLine(seq=line.seq, time_us=line.time_us, hash=line.hash, entry=entry)


async def check_lines(
    lines: AsyncIterable[LogLine | None], head: LogHead, known: Sequence[LogHead] = ()
) -> AuditCheck:
    """Follows the chain from its beginning, or from a checkpoint. `known` are heads that were kept elsewhere:
    the lines of these numbers must have these hashes."""
    problems = list[str]()
    before = LogHead()
    first, count = LogHead(), 0
    dropped = set[tuple[int, str]]()
    wanted = {each.seq: each.hash for each in (head, *known) if each.seq}
    start: LogLine | None = None
    async for line in lines:
        count += 1
        if line is None:
            problems.append(f"after entry {before.seq}: a line that is no entry")
            continue
        if start is None:
            start, first = line, LogHead(line.seq, line.hash)
            before = LogHead(line.seq - 1, "") if line.seq > 1 else LogHead()
        problems += _faults(before, line)
        entry = audit_line(line)
        if entry is None:
            problems.append(f"entry {line.seq} cannot be read")
        elif entry.entry.kind == "checkpoint":
            dropped.add((entry.entry.dropped_seq, entry.entry.dropped_hash))
        if wanted.pop(line.seq, line.hash) != line.hash:
            problems.append(f"entry {line.seq} is not the one that was there before")
        before = LogHead(line.seq, line.hash)
    problems += [
        f"entry {seq} was dropped as another one than was there before"
        for seq, hash_ in sorted(dropped)
        if wanted.get(seq, hash_) != hash_
    ]
    problems += _beginning(start, dropped)
    problems += _end(before, head, wanted, first.seq)
    problems += _apart(known, first.seq, dropped)
    return AuditCheck(
        entries=count, first_seq=first.seq, last_seq=before.seq, hash=before.hash, problems=tuple(problems)
    )


def _faults(before: LogHead, line: LogLine) -> list[str]:
    if line.seq != before.seq + 1:
        if line.seq > before.seq:
            return [f"entries {before.seq + 1} to {line.seq - 1} are missing"]
        return [f"entry {line.seq} stands after entry {before.seq}: lines were moved or repeated"]
    if before.hash and not is_next(before.hash, line):
        return [f"entry {line.seq} was changed, or the one before it"]
    return []


def _beginning(start: LogLine | None, dropped: set[tuple[int, str]]) -> list[str]:
    """What comes before the first line must have been dropped on record."""
    if start is None or start.seq == 1:
        return []
    if any(seq == start.seq - 1 and is_next(hash_, start) for seq, hash_ in dropped):
        return []
    return [f"entries 1 to {start.seq - 1} are missing, and no checkpoint says that they were dropped"]


def _end(last: LogHead, head: LogHead, wanted: dict[int, str], first: int) -> list[str]:
    """What must still come after the last line. What was dropped at the beginning is not missed."""
    if last.seq and not head.seq:
        return ["head.json, which says how far the log went, is gone or cannot be read"]
    if head.seq > last.seq:
        return [f"the log ends with entry {last.seq} and had {head.seq}: its end was cut off"]
    return [f"entry {seq}, which was kept elsewhere, is missing" for seq in sorted(wanted) if seq > first]


def _apart(known: Sequence[LogHead], first: int, dropped: set[tuple[int, str]]) -> list[str]:
    """What was kept elsewhere must reach to what the log has, or at least to what was dropped of it."""
    newest = max((each.seq for each in known), default=first)
    if newest >= first or any(newest == seq for seq, _ in dropped):
        return []
    told = f"what was kept elsewhere ends with entry {newest}, and the log begins with {first}"
    return [f"{told}: nothing says that one follows from the other; compare with something newer"]
