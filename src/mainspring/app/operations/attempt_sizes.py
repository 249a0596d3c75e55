"""What attempts changed and used, from the journal and the ledger of their session."""

from __future__ import annotations

import asyncio

import msgspec

from mainspring.context.history import read_all
from mainspring.events import AttemptsStarted, Cap, FileChange, FilesChanged, FileState, Limits, SessionUse
from mainspring.events.counts import rounded_usd
from mainspring.turns.runtime import Runtime
from mainspring.workspace.diffs import unified
from mainspring.workspace.restore import as_change, is_same, net


async def diff_since(runtime: Runtime, since: int) -> tuple[tuple[str, ...], int]:
    """The files that differ from how they were after an event, and in how many lines."""
    recorded = await read_all(runtime.journal, kinds=("FilesChanged",), after=since)
    steps = net(item.event for item in recorded if isinstance(item.event, FilesChanged))
    steps = [step for step in steps if not is_same(step.now, step.then)]
    count = 0
    for step in steps:
        change = as_change(step)
        contents = [await _content(runtime, state) for state in (change.before, change.after)]
        count += await asyncio.to_thread(_count, change, *contents)
    return tuple(sorted(step.path for step in steps)), count


async def _content(runtime: Runtime, state: FileState | None) -> bytes:
    return await runtime.recorder.get_blob(state.blob) if state and state.blob else b""


def _count(change: FileChange, before: bytes, after: bytes) -> int:
    lines = list(unified(change, before, after))
    return sum(line[0] in "+-" for line in lines[2:]) if len(lines) > 2 else len(lines)


def used(runtime: Runtime) -> SessionUse:
    tally = runtime.state.ledger.tally("session")
    return SessionUse(
        usd=tally.usd, tokens=tally.tokens, steps=tally.steps, calls=tally.calls, time_s=tally.time_s
    )


def use_between(before: SessionUse, now: SessionUse) -> SessionUse:
    """What was used in between; a fork does not count what its parent had used."""
    return SessionUse(
        usd=rounded_usd(max(now.usd - before.usd, 0.0)),
        tokens=max(now.tokens - before.tokens, 0),
        steps=max(now.steps - before.steps, 0),
        calls=max(now.calls - before.calls, 0),
        time_s=round(max(now.time_s - before.time_s, 0.0), 3),
    )


def left_of(started: AttemptsStarted, runtime: Runtime) -> Cap:
    """What the next turn may use of what all attempts may use together."""
    cap, taken = started.cap, use_between(started.before, used(runtime))
    left = {name: (getattr(cap, name), getattr(taken, name)) for name in Cap.__struct_fields__}
    return Cap(**{name: max(most - spent, 0) for name, (most, spent) in left.items() if most is not None})


def is_used_up(left: Cap) -> bool:
    return any(getattr(left, name) == 0 for name in Cap.__struct_fields__)


def remaining(started: AttemptsStarted, runtime: Runtime, limits: Limits) -> Limits:
    """The limits of the next turn: those of the session, and what is left for all attempts."""
    return msgspec.structs.replace(
        limits, max_steps=None, max_calls=None, timeout_s=None, turn=left_of(started, runtime)
    )
