"""What is changed when a model sends the same failing call again: it is shown the file, then sampled
otherwise, then given a fresh history with an account of what did not work, then a stronger tier takes over.

Each of these is one commit with the `GuardTripped` that names it, so a resumed turn goes on from there.
"""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import assert_never

import msgspec
from msgspec.structs import replace

from mainspring.context.values import touched_by
from mainspring.errors import MainspringError
from mainspring.events import (
    AssistantSaid,
    AttemptsStarted,
    AttemptStarted,
    CallEnded,
    ChangesChecked,
    Compacted,
    Event,
    FilesChanged,
    GuardTripped,
    SamplingChosen,
    SuiteEnded,
)
from mainspring.models.drafts import WRITE, ran_program
from mainspring.turns.endings import End
from mainspring.turns.runtime import Runtime

_STUCK = "the same call kept failing"
_LEAST_HEAT, _MORE_HEAT, _MOST_HEAT = 0.3, 0.4, 1.0
_MAX_SHOWN_BYTES = 6000
_MOST_BLANK = 2
_TOLD = (
    "{failed} Sending it again will not help: do not repeat it. Take the text to change from what the file"
    " holds now, or write the whole file anew, otherwise than before. If the file is as it should be, say so."
)
_SAMPLED = "{failed} Do something else now: another tool, a smaller change, or the whole file written anew."
_RESTARTED = (
    "The work was begun anew, because the same change failed again and again. What did not work: {call}. It"
    " was answered: {answer}\nThe files stay as they are; read what you need and go on with the task another"
    " way."
)
_ESCALATED = "{failed} Another model goes on from here. Look at the file before you change it."


async def take_rung(runtime: Runtime, tripped: GuardTripped) -> GuardTripped:
    """Changes what the guard asks for, on record; gives what was recorded, which is final when nothing is
    left to change."""
    beside: list[Event] = []
    match tripped.action:
        case "":
            pass
        case "told" if runtime.guards.recent.is_useless and await _is_tried_again(runtime):
            tripped = replace(tripped, action="", is_final=True)
        case "told":
            text = _TOLD.format(failed=tripped.message) + await _files(runtime)
            tripped = replace(tripped, message=text)
            if runtime.state.prompt.profile == "small":
                beside.append(hotter(runtime))  # words alone seldom change what it does
        case "sampled":
            beside.append(hotter(runtime))
            tripped = replace(tripped, message=_SAMPLED.format(failed=tripped.message))
        case "restarted":
            call, answer = await _last_failure(runtime)
            beside.append(await import_module("mainspring.turns.compactor").restarted(runtime))
            tripped = replace(tripped, message=_RESTARTED.format(call=call, answer=answer))
        case "escalated":
            chosen = runtime.upkeep.router.stronger(runtime.state) if runtime.upkeep.router else None
            if chosen is None:
                tripped = replace(tripped, action="", is_final=True)
            else:
                beside.append(chosen)
                tripped = replace(tripped, message=_ESCALATED.format(failed=tripped.message))
        case _:
            assert_never(tripped.action)
    await runtime.record(*beside, tripped)
    if any(isinstance(event, Compacted) for event in beside):
        await runtime.load_history()
    return tripped


async def lost_attempt(runtime: Runtime) -> End | None:
    """The end of a turn in which a small model wrote whole files that are as they were, cannot be read or
    fail their tests, or a program that failed, when its task has several attempts: with them in its history
    it writes the same again, also in the last one."""
    calls = runtime.state.last_reply.calls
    is_program = any(ran_program(call.arguments) for call in calls)
    if not calls or any(call.name != WRITE and not is_program for call in calls):
        return None
    place = await place_of(runtime)
    if place is None:
        return None
    then = "the task is tried again" if place.attempt < place.attempts else "this was the last attempt"
    said = await runtime.journal.last("AssistantSaid", "TurnStarted")
    if said is None or not isinstance(said.event, AssistantSaid):  # that reply was one of an earlier attempt
        return None
    read = await runtime.journal.read(after=said.seq, kinds=("FilesChanged", "SuiteEnded", "ChangesChecked"))
    since = [item for item in read if getattr(item.event, "cause", None) != "baseline"]
    ended = await runtime.journal.last("CallEnded")
    if is_program and ended and isinstance(ended.event, CallEnded) and ended.event.is_error:
        return End("failed", f"The program failed; {then}.")
    if not any(isinstance(item.event, FilesChanged) for item in since):
        return End("failed", f"The files are as they were; {then}.")
    if is_program and all([await _is_empty(runtime, item.event) for item in since]):
        return End("failed", f"The program wrote nothing into the file; {then}.")
    if any(isinstance(item.event, ChangesChecked) and item.event.unreadable for item in since):
        return End("failed", f"What was written cannot be read; {then}.")
    ran = [item.event for item in since if isinstance(item.event, SuiteEnded)]
    return End("failed", f"The tests fail; {then}.") if ran and ran[-1].outcome == "failed" else None


async def _is_empty(runtime: Runtime, event: Event) -> bool:
    """Whether files that were changed hold nothing, or the end of a line."""
    changes = event.changes if isinstance(event, FilesChanged) else ()
    made = [change.after for change in changes if change.after is not None]
    if any(state.size > _MOST_BLANK or (state.size and state.blob is None) for state in made):
        return False
    texts = [await runtime.recorder.get_blob(state.blob) for state in made if state.blob]
    return not any(text.strip() for text in texts)


class AttemptPlace(msgspec.Struct, frozen=True):
    """Which of several attempts of a small model it is, and what decides between them."""

    attempt: int
    attempts: int
    checks: tuple[str, ...]


async def _is_tried_again(runtime: Runtime) -> bool:
    """Whether a small model has another attempt: what stands in its history it writes again, however it is
    sampled, and a fresh start is worth more than another word."""
    place = await place_of(runtime)
    return place is not None and place.attempt < place.attempts


async def place_of(runtime: Runtime) -> AttemptPlace | None:
    """Where the open turn stands; None when it is no such attempt."""
    if runtime.state.prompt.profile != "small":
        return None
    last = [
        await runtime.journal.last(kind) for kind in ("AttemptsStarted", "AttemptStarted", "AttemptsEnded")
    ]
    match [recorded.event if recorded else None for recorded in last]:
        case [AttemptsStarted(attempts=attempts, checks=checks), AttemptStarted(attempt=attempt), _] if (
            attempts > 1
        ):
            is_over = last[2] is not None and last[0] is not None and last[2].seq > last[0].seq
            return None if is_over else AttemptPlace(attempt, attempts, checks)
        case _:
            return None


def hotter(runtime: Runtime) -> SamplingChosen:
    """Another sampling, for as long as the model is stuck, and for one reply at least."""
    now = runtime.state.sampling
    heat = min((now.temperature or _LEAST_HEAT) + _MORE_HEAT, _MOST_HEAT)
    return replace(now, temperature=heat, reason=_STUCK)


async def sample_as_usual(runtime: Runtime) -> None:
    """Takes the other sampling back once the model is no longer stuck."""
    if runtime.state.sampling.reason == _STUCK and not runtime.guards.recent.rung:
        await runtime.record(SamplingChosen(seed=runtime.state.sampling.seed))


async def _files(runtime: Runtime) -> str:
    """What the files of the last calls hold now."""
    paths = dict.fromkeys(
        path for asked in runtime.state.last_reply.calls for path in touched_by(asked.arguments).paths
    )
    return "".join([await asyncio.to_thread(_shown, runtime, path) for path in paths])


def _shown(runtime: Runtime, path: str) -> str:
    try:
        found = runtime.workbench.files.read(path, max_bytes=_MAX_SHOWN_BYTES)
    except (OSError, MainspringError) as error:
        why = error.message if isinstance(error, MainspringError) else error.strerror
        return f"\n\n{path} cannot be read: {why}"
    cut = "\n[cut here; read the rest]" if found.size > len(found.data) else ""
    return f"\n\n{path} holds now:\n{found.data.decode('utf-8', 'replace')}{cut}"


async def _last_failure(runtime: Runtime) -> tuple[str, str]:
    """The last call in short, and what it was answered."""
    asked = runtime.state.last_reply.calls[-1:]
    ended = await runtime.journal.last("CallEnded")
    call = f"{asked[0].name} {asked[0].arguments[:300]}" if asked else "a call"
    return call, getattr(ended.event, "output", "")[:600] if ended else ""
