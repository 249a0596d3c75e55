"""What a child changed in its copy of the workspace, brought back to its parent or thrown away."""

from __future__ import annotations

import asyncio

import msgspec

from mainspring.events import Blob, ChildEnded, ChildStarted, Event, Landing
from mainspring.turns.runtime import Runtime
from mainspring.workspace.worktrees import Worktree, WorktreeChanges

_DIFF = "text/x-diff"


async def bring_back(
    runtime: Runtime, worktree: Worktree, started: ChildStarted, ended: ChildEnded
) -> tuple[ChildEnded, list[Event]]:
    """The end of a child with what it changed, and what to record with it. Only the work of one that is done
    is taken over, and only where nothing conflicts; of all others the difference is kept."""
    if started.isolation != "worktree" or not worktree.is_made:
        return ended, []
    is_landing = ended.state == "done"
    is_watched = runtime.state.open_call(started.call) is not None and not started.is_background
    machine, calls = runtime.workbench.time_machine, [started.call]
    if is_landing and not is_watched:  # else the call itself is looked at
        await machine.begin(started.call)
    changes = await asyncio.to_thread(worktree.changes, is_landing=is_landing)
    changed = await machine.end(calls, runtime.recorder.put_blobs) if is_landing and not is_watched else None
    whole = msgspec.structs.replace(
        ended,
        files=changes.files,
        diff=await _kept(runtime, changes.diff, _DIFF),
        landing=_landing(changes, is_landing=is_landing),
        conflicts=changes.conflicts,
        both=await _kept(runtime, changes.both, "text/plain"),
        left_out=changes.left_out,
    )
    return whole, [changed] if changed else []


async def _kept(runtime: Runtime, data: bytes, media_type: str) -> Blob | None:
    return await runtime.recorder.put_blob(data, media_type) if data else None


def _landing(changes: WorktreeChanges, *, is_landing: bool) -> Landing:
    if not changes.files:
        return "unchanged"
    if changes.conflicts:
        return "conflict"
    return "landed" if is_landing else "discarded"
