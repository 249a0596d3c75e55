"""Brings a folder of another machine to where the recorded changes of a session ended.

A file is only written where it is as some earlier recorded state had it: then it is older, and nothing of
anybody is lost. What somebody changed there, and what is not recorded, stays and is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from mainspring.events import FilesChanged, FileState
from mainspring.secrets.recorder import Recorder
from mainspring.session.rewind import content_of, take_step
from mainspring.workspace.restore import RestoreStep, holds, is_kept, ordered, transitions


class MovedFiles(msgspec.Struct, frozen=True):
    """How many files were written; those that were `left`, and those that are `lost`, with the reason."""

    files: int = 0
    left: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()


async def bring_up_to_date(recorder: Recorder, root: Path, changed: Iterable[FilesChanged]) -> MovedFiles:
    """The changes are all that are recorded, oldest first."""
    states = _states(changed)
    steps = [RestoreStep(path, None, known[-1]) for path, known in states.items()]
    written, left, lost = 0, list[str](), list[str]()
    for step in ordered(steps):
        if await asyncio.to_thread(holds, root, step.path, step.then):
            continue
        if not is_kept(step.then):
            lost.append(f"{step.path} ({step.then.reason if step.then else ''})")
        elif not await asyncio.to_thread(_is_older, root, step.path, states[step.path]):
            left.append(f"{step.path} (someone changed it here)")
        elif why := await asyncio.to_thread(take_step, root, step, await content_of(recorder, step.then)):
            left.append(f"{step.path} ({why})")
        else:
            written += 1
    return MovedFiles(written, tuple(left), tuple(lost))


def _states(changed: Iterable[FilesChanged]) -> dict[str, list[FileState | None]]:
    """Every state that is recorded of each path, the last one at the end."""
    found: dict[str, list[FileState | None]] = {}
    for event in changed:
        for change in event.changes:
            for path, before, after in transitions(change):
                found.setdefault(path, [before]).append(after)
    return found


def _is_older(root: Path, path: str, known: Sequence[FileState | None]) -> bool:
    return any(holds(root, path, state) for state in known[:-1])
