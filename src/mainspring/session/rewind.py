"""Going back: the conversation, the files, or both, to how they were at an event. Nothing is erased.

Going back is itself recorded like any change, so it can be taken back: go to the event before it. Files are
checked first, all of them; then the intent is recorded, the files are put back, and the result is recorded.
A process that dies in between leaves an intent, and `complete` does the rest.
"""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

import msgspec

from mainspring.context.history import is_undone, read_all, undone_ranges
from mainspring.errors import UsageError, WorkspaceConflict
from mainspring.events import (
    AssistantSaid,
    CallEnded,
    Event,
    Extent,
    FileChange,
    FilesChanged,
    FileState,
    RewindStarted,
    Undone,
    UserSaid,
)
from mainspring.journal import JournalReader, events_in
from mainspring.secrets.recorder import Recorder, check_event
from mainspring.secrets.redaction import expanded, redacted
from mainspring.secrets.vault import Vault
from mainspring.workspace.restore import (
    RestorePlan,
    RestoreStep,
    apply,
    as_change,
    conflicts,
    leads_out,
    plan,
    state_of,
)

_SHOWN = 10
_ELSEWHERE = "files that were changed before the session was imported"
_TAKEN_BACK = "Not run: the conversation was taken back to before this call had a result."


class WentBack(msgspec.Struct, frozen=True):
    """What going back did. `before_seq` is where to go to take it back; `left` was not put back, and why."""

    to_seq: int
    before_seq: int
    changes: tuple[FileChange, ...] = ()
    left: tuple[str, ...] = ()


async def last_turn(journal: JournalReader, scope: Extent) -> tuple[int, UserSaid]:
    """Where the last turn that still counts began, and the first thing said in it. Files that we changed for
    it before belong to it."""
    recorded = await read_all(journal, kinds=("UserSaid", "TurnEnded", "Undone", "FilesChanged"))
    dead = undone_ranges(recorded, "files" if scope == "files" else "conversation")
    first: tuple[int, UserSaid] | None = None
    for item in reversed(recorded):
        if is_undone(item.seq, dead):
            continue
        if isinstance(item.event, UserSaid):
            first = item.seq, item.event
        elif first is not None and isinstance(item.event, FilesChanged):
            first = (item.seq, first[1]) if item.event.calls else first
        elif first is not None:
            break
    if first is None:
        raise UsageError("There is nothing to undo.", remedy="`rewind --to` goes back to any event.")
    return first


async def go_back(
    recorder: Recorder,
    root: Path,
    to_seq: int,
    scope: Extent,
    left_out: tuple[str, ...] = (),
    *,
    imported: int = 0,
) -> WentBack:
    """Goes back to the state after event `to_seq`, except for the files that are `left_out`; raises
    `WorkspaceConflict`, and has then done nothing, when a file would be overwritten that someone else
    changed. What the first events say of files, so many of which were `imported`, happened elsewhere."""
    journal, vault = recorder.journal, recorder.vault
    started = RewindStarted(to_seq=to_seq, scope=scope, left_out=left_out)
    check_event(started)
    before_seq = await journal.last_seq()
    if not 1 <= to_seq <= before_seq:
        raise UsageError(
            f"There is no event {to_seq}: this session has {before_seq}.",
            remedy=f"`mainspring show {journal.session}` numbers them.",
        )
    going = RestorePlan() if scope == "conversation" else await plan_back(journal, started, vault, imported)
    await asyncio.to_thread(_check, root, going, vault)
    if going.steps:
        await recorder.record(started)
    return await _finish(recorder, root, going, started, before_seq)


async def complete(recorder: Recorder, root: Path, *, imported: int = 0) -> WentBack | None:
    """Finishes what a process that died had begun to put back; None when there is nothing to finish."""
    journal, vault = recorder.journal, recorder.vault
    if not await journal.last_seq():
        return None
    started, undone = await journal.last("RewindStarted"), await journal.last("Undone")
    if started is None or not isinstance(started.event, RewindStarted):
        return None
    if undone is not None and undone.seq > started.seq:
        return None
    going = await plan_back(journal, expanded(started.event, vault), vault, imported)
    changed = await asyncio.to_thread(conflicts, root, going.steps)
    going = msgspec.structs.replace(
        going,
        steps=tuple(step for step in going.steps if step.path not in changed),
        lost=(*going.lost, *(f"{path} (someone else changed it meanwhile)" for path in changed)),
    )
    return await _finish(recorder, root, going, started.event, started.seq - 1)


async def plan_back(
    journal: JournalReader, started: RewindStarted, vault: Vault, imported: int = 0
) -> RestorePlan:
    """Which files going back would put back, and which not."""
    recorded = await read_all(journal, kinds=("FilesChanged",), after=started.to_seq)
    elsewhere = [item for item in recorded if item.seq <= imported]
    recorded = recorded[len(elsewhere) :]
    changed = [expanded(item.event, vault) for item in recorded if isinstance(item.event, FilesChanged)]
    going = plan(changed)
    going = msgspec.structs.replace(
        going,
        steps=tuple(step for step in going.steps if step.path not in started.left_out),
        foreign=tuple(path for path in going.foreign if path not in started.left_out),
    )
    unseen = dict.fromkeys(note for event in changed if event.calls for note in event.not_covered)
    lost = dict.fromkeys((*going.lost, *unseen, *([_ELSEWHERE] if elsewhere else ())))
    return msgspec.structs.replace(going, lost=tuple(lost))


def _check(root: Path, going: RestorePlan, vault: Vault) -> None:
    found = sorted({*going.foreign, *conflicts(root, going.steps)})
    if not found:
        return
    shown = ", ".join(found[:_SHOWN]) + (f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else "")
    raise WorkspaceConflict(
        vault.redact(f"{shown} changed since; no file was restored."),
        remedy="Move those files away and try again, or take back only the conversation (--conversation).",
    )


async def _finish(
    recorder: Recorder, root: Path, going: RestorePlan, started: RewindStarted, before_seq: int
) -> WentBack:
    done: list[RestoreStep] = []
    left = list(going.lost)
    for step in going.steps:
        problem = await asyncio.to_thread(take_step, root, step, await content_of(recorder, step.then))
        if problem:
            left.append(f"{step.path} ({problem})")
        else:
            done.append(step)
    changed = FilesChanged(changes=tuple(as_change(step) for step in done), not_covered=tuple(left))
    changed = redacted(changed, recorder.vault)
    closing: list[Event] = []
    if done or left:
        closing.append(changed)
    closing.append(Undone(to_seq=started.to_seq, scope=started.scope))
    if started.scope != "files":
        closing += await _closed_calls(recorder.journal, started.to_seq)
    await recorder.record(*closing)
    return WentBack(
        to_seq=started.to_seq, before_seq=before_seq, changes=changed.changes, left=changed.not_covered
    )


async def content_of(recorder: Recorder, state: FileState | None) -> bytes | None:
    """What a file held in a state; None when its secrets are no longer known."""
    if state is None or state.blob is None:
        return b""
    data = await recorder.get_blob(state.blob)
    if not state.sha256:
        return data
    whole = recorder.vault.expand_bytes(data)
    return whole if hashlib.sha256(whole).hexdigest() == state.sha256 else None


def take_step(root: Path, step: RestoreStep, data: bytes | None) -> str:
    """Takes one step; gives why it was not possible."""
    if leads_out(root, step.path):
        return "it is not in this workspace"
    if data is None:
        return "the secrets in it are no longer known"
    try:
        is_done = state_of(root, step) == "then" or apply(root, step, data)
    except OSError as error:
        return f"it cannot be changed: {error.strerror}"
    return "" if is_done else "something else is in it"


async def _closed_calls(journal: JournalReader, to_seq: int) -> list[CallEnded]:
    """Results for the calls that were open at an event: every call must have one."""
    dead = undone_ranges(await read_all(journal, kinds=("Undone",), until=to_seq))
    open_calls: list[str] = []
    async for item in events_in(journal, kinds=("AssistantSaid", "CallEnded"), until=to_seq):
        if isinstance(item.event, AssistantSaid) and not is_undone(item.seq, dead):
            open_calls = [call.call for call in item.event.calls]
        elif isinstance(item.event, CallEnded) and item.event.call in open_calls:
            open_calls.remove(item.event.call)
    return [CallEnded(call=call, outcome="abandoned", output=_TAKEN_BACK) for call in open_calls]
