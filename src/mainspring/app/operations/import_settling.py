"""What is done once with a session that came from elsewhere, before anybody here goes on with it: what nobody
can have recorded is refused, and what it was in the middle of ends here, on record. A call, a wait, a job or
a goal of another machine must not go on by itself on this one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import msgspec

from mainspring.app.imported import ImportNote, forget_note, has_work, import_note, keep_note
from mainspring.app.records import recording
from mainspring.app.stores import sessions_of
from mainspring.catalog import Sessions
from mainspring.errors import JournalForeign, UsageError
from mainspring.events import (
    CallEnded,
    ChildEnded,
    Event,
    GoalPaused,
    JobEnded,
    MachineEnded,
    ProcessEnded,
    RewindStarted,
    SessionStarted,
    SpendReserved,
    SpendSettled,
    TurnEnded,
    Undone,
    WaitEnded,
)
from mainspring.folds.state import State, load_state
from mainspring.goals.fold import Goal, load_goal
from mainspring.journal import JournalReader, events_in, last_event
from mainspring.secrets.recorder import Recorder
from mainspring.settings import Config

_WHY = "The session was imported."
_NOT_RUN = "Not run: the session was imported, and what another machine was about to do does not go on here."
_UNKNOWN = "It had started on another machine, and its outcome is unknown: the session was imported."
_ENDINGS = ("blocked", "waiting")
_MOST_TOKENS = 10**15


class Settled(msgspec.Struct, frozen=True):
    """Where an imported session works, and whether something was open, and ended here. With `runs_commands`,
    going on with its goal, fix or attempts would run commands from its journal, and is refused."""

    workspace: Path
    is_place_named: bool
    had_open_work: bool
    runs_commands: bool


async def settle_import(config: Config, session: str, *, place: Path) -> Settled:
    """Ends here what was open. `place` is the folder that a person named, or stood
    in, for this import: where the session works counts as chosen when that is it."""
    store = sessions_of(config)
    try:
        async with recording(session, config, store) as recorder:
            journal = recorder.journal
            note = ImportNote(await journal.last_seq(), is_settled=False)
            keep_note(store.files(session), note)
            await _check(journal, note.events)
            ended = await _end_open(recorder, store)
            runs = _is_unfinished(ended.goal) or await has_work(journal, note)
    except JournalForeign:
        await store.delete(session)
        raise
    workspace = ended.state.workspace
    is_named = await asyncio.to_thread(is_same_folder, workspace, place)
    note = _settled(msgspec.structs.replace(note, is_place_named=is_named), ended)
    keep_note(store.files(session), note)
    return Settled(workspace, is_named, had_open_work=ended.last_seq > note.events, runs_commands=runs)


async def settle_fork(config: Config, parent: str, fork: str) -> None:
    """Ends in a fork what its parent, an import, had open where the fork leaves it."""
    store = sessions_of(config)
    before, note = import_note(store.files(parent)), import_note(store.files(fork))
    if before is None or note is None or note.is_settled or not before.is_settled:
        return
    async with recording(fork, config, store) as recorder:
        ended = await _end_open(recorder, store)
    keep_note(store.files(fork), _settled(note, ended))


class _Ended(msgspec.Struct, frozen=True):
    """The state and the goal that a session had, and its last event now that nothing is open any more."""

    state: State
    goal: Goal | None
    last_seq: int


async def _end_open(recorder: Recorder, store: Sessions) -> _Ended:
    journal = recorder.journal
    state = await load_state(journal, recorder.vault)
    goal = await load_goal(store, recorder.session) if await journal.last("GoalSet") else None
    ends = [*_ends(state), *await _unfinished(journal, goal)]
    if ends:
        await recorder.record(*ends)
    return _Ended(state, goal, await journal.last_seq())


def _settled(note: ImportNote, ended: _Ended) -> ImportNote:
    return msgspec.structs.replace(note, is_settled=True, settled_seq=ended.last_seq)


def _is_unfinished(goal: Goal | None) -> bool:
    return goal is not None and (goal.ended is None or goal.ended.ending != "done")


def is_same_folder(workspace: Path, place: Path) -> bool:
    return workspace.is_absolute() and workspace.resolve() == place.expanduser().resolve()


async def trust_import(config: Config, session: str) -> str:
    """From here on what the journal of an imported session says counts as if it had been said here."""
    store = sessions_of(config)
    name = await store.find(session)
    if import_note(store.files(name)) is None:
        raise UsageError(f"The session {name} was not imported, or is trusted already.")
    forget_note(store.files(name))
    return name


async def _check(reader: JournalReader, count: int) -> None:
    """`JournalForeign` for what would make this machine count less than is spent."""
    started = await last_event(reader, SessionStarted)
    if started is not None and not 0 <= started.parent_seq <= count:
        raise _made_up(1)
    async for recorded in events_in(reader, kinds=("SpendReserved", "SpendSettled")):
        match recorded.event:
            case SpendReserved(usd=usd, tokens=tokens) if usd < 0 or not 0 <= tokens <= _MOST_TOKENS:
                raise _made_up(recorded.seq)
            case SpendSettled(usd=usd, usage=usage) if usd < 0 or any(
                not 0 <= each <= _MOST_TOKENS for each in msgspec.structs.astuple(usage)
            ):
                raise _made_up(recorded.seq)
            case _:
                pass


def _made_up(seq: int) -> JournalForeign:
    return JournalForeign(
        f"Event {seq} of this export says what no session can have recorded. Nothing was imported.",
        remedy="Its hashes are right, so it was written like this: ask whoever gave it to you.",
    )


def _ends(state: State) -> Iterator[Event]:
    """The ends of what a session has open."""
    yield from (
        WaitEnded(wait=each.started.wait, cause="cancelled", summary=_WHY) for each in state.waits.open
    )
    yield from (ProcessEnded(handle=each.handle, reason=_WHY) for each in state.processes.open)
    yield from (ChildEnded(child=each, state="lost", detail=_WHY) for each in state.children.open)
    for job in state.jobs.open:
        yield JobEnded(job=job.planned.job, state="lost", detail=_WHY)
    yield from (MachineEnded(use=each, why=_WHY) for each in state.jobs.uses)
    for call in state.open_calls:
        outcome, text = ("unknown", _UNKNOWN) if call.is_started else ("abandoned", _NOT_RUN)
        yield CallEnded(call=call.asked.call, outcome=outcome, output=text)
    is_held = state.last_ending is not None and state.last_ending.ending in _ENDINGS
    if state.is_turn_open or state.is_turn_wanted or is_held:
        yield TurnEnded(
            turn=state.turn,
            ending="interrupted",
            detail=_WHY,
            steps=state.turn_steps,
            usage=state.turn_usage,
            cost_usd=state.turn_cost_usd,
        )


async def _unfinished(journal: JournalReader, goal: Goal | None) -> list[Event]:
    """What ends a goal that nobody paused, and going back that was not finished: those files are not here."""
    ends: list[Event] = []
    last = await journal.last("RewindStarted", "Undone")
    if last is not None and isinstance(last.event, RewindStarted):
        ends.append(Undone(to_seq=await journal.last_seq(), scope="files"))
    if goal is not None:
        is_paused = goal.paused is not None and goal.paused.by == "user"
        if not is_paused and (goal.ended is None or goal.ended.ending == "blocked"):
            ends.append(GoalPaused(reason=_WHY))
    return ends
