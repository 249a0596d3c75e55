"""What a change did to a file, as people read it: a unified diff, or a line when there is nothing to read."""

from __future__ import annotations

import difflib
import io
from collections.abc import Iterator

from mainspring.events import FileChange, FileState

_MAX_LINES = 20_000


def unified(change: FileChange, before: bytes, after: bytes) -> Iterator[str]:
    """The lines of a diff; `before` and `after` are the contents of the two states, empty for none."""
    states = (change.before, change.after)
    if any(state and (state.reason or state.kind == "folder") for state in states):
        return
    if before == after:
        return
    if any(state and state.kind == "link" for state in states):
        yield f"  link to {_shown(before)!r} → link to {_shown(after)!r}"
        return
    old, new = _lines(before), _lines(after)
    if old is None or new is None:
        yield f"  binary: {len(before):,} → {len(after):,} bytes"
        return
    if len(old) + len(new) > _MAX_LINES:
        yield f"  {len(old):,} → {len(new):,} lines, too many to compare"
        return
    names = (
        _name("a", change.renamed_from or change.path, change.before),
        _name("b", change.path, change.after),
    )
    for line in difflib.unified_diff(old, new, *names):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _name(side: str, path: str, state: FileState | None) -> str:
    return f"{side}/{path}" if state else "/dev/null"


def _lines(data: bytes) -> list[str] | None:
    if b"\0" in data[:8192]:
        return None
    try:
        # By line feeds alone, as git counts: a form feed ends no line.
        return [*io.StringIO(data.decode("utf-8"), newline="\n")]
    except UnicodeDecodeError:
        return None


def _shown(data: bytes) -> str:
    return data.decode("utf-8", "replace")
