"""Tells at a write that earlier edits of the same file have no evidence: no test, check, review or command
has looked at them since.

It is read from the journal, so it holds after the history was made short as well. It is told once for each
row of such edits, and once more after the history was made short."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mainspring.checks.evidence_of_lines import KINDS, unproven_edits
from mainspring.context.history import read_all
from mainspring.events import EVIDENCE_SOURCE, Compacted, NoteAdded, Recorded
from mainspring.events.counts import plural
from mainspring.turns.runtime import Runtime

_KINDS = (*KINDS, "Compacted", "NoteAdded")
_SHOWN = 5
_LEAST = 2


class UnprovenEdits:
    """Looks at the writes of one session's turns."""

    def __init__(self) -> None:
        self._seen_seq = 0

    async def look(self, runtime: Runtime) -> None:
        if runtime.changed_seq is not None and runtime.changed_seq <= self._seen_seq:
            return
        self._seen_seq = runtime.last_seq
        events = await read_all(runtime.journal, kinds=_KINDS)
        lines = [
            f"{path}: {plural(count, 'earlier edit')}"
            for path, count in untold(events).items()
            if count >= _LEAST
        ]
        if lines:
            more = [f"and {len(lines) - _SHOWN} more files"] if len(lines) > _SHOWN else []
            text = "Nothing has tested, checked, reviewed or run these since: " + "; ".join(
                [*lines[:_SHOWN], *more]
            )
            await runtime.record(NoteAdded(text=text, source=EVIDENCE_SOURCE), is_durable=False)


def untold(events: Sequence[Recorded]) -> dict[str, int]:
    """The files of the last write whose earlier edits have no evidence, with how many; those that were told
    of since their first such edit, and since the history was last made short, are left out."""
    told_seq = _told(events)
    return {
        path: len(seqs) - 1
        for path, seqs in unproven_edits(events).items()
        if len(seqs) > 1 and max(told_seq.get(path, 0), 0) < seqs[0]
    }


def _told(events: Iterable[Recorded]) -> dict[str, int]:
    """When each file was last told of; nothing that was before the history was made short."""
    found: dict[str, int] = {}
    for item in events:
        match item.event:
            case Compacted():
                found.clear()
            case NoteAdded(source=source, text=text) if source == EVIDENCE_SOURCE:
                for part in text.partition(": ")[2].split("; "):
                    found[part.partition(": ")[0]] = item.seq
            case _:
                pass
    return found
