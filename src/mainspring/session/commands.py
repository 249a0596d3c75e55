"""Carries out what other processes tell a session: `say`, `note`, `save` and `stop`, in their order.

An answer is taken by whoever waits for it, an order to a goal by the signal that comes with it. A goal says
what each of its turns begins with, so what is said to it between two turns waits for the next one.
"""

from __future__ import annotations

import asyncio
import signal
from typing import Protocol

from mainspring.context.history import read_all
from mainspring.disk.inbox import (
    GoalCommand,
    Inbox,
    LeftCommand,
    NoteCommand,
    SaveCommand,
    SayCommand,
    StopCommand,
)
from mainspring.errors import JournalOwned, MainspringError, PromptRefused
from mainspring.events import ArtifactSaved, Event, NoteAdded, Origin, TurnEnded, UserSaid
from mainspring.events.escaping import whole_characters
from mainspring.folds.state import State
from mainspring.turns.endings import STOPPED, abandoned, end_turn
from mainspring.turns.runtime import Runtime

_LOOK_S, _IDLE_LOOK_S = 0.25, 1.0
_TAKEN = SayCommand, NoteCommand, SaveCommand, StopCommand


class Commanded(Protocol):
    """A session, as commands from elsewhere reach it."""

    @property
    def is_running(self) -> bool: ...

    @property
    def is_turn_wanted(self) -> bool: ...

    async def hear(self, said: Event) -> None:
        """Records what was said or given, and starts a turn when it wants an answer."""
        ...

    async def stop(self, by: Origin | None = None) -> None: ...


async def until_next_look(state: State) -> None:
    """Returns when the inbox is worth a look: seldom while the session sleeps, and soon after it woke up."""
    if (pause_s := look_again_s(state)) > _LOOK_S:
        woken, _ = await asyncio.wait({state.waits.stirring()}, timeout=pause_s)
        if not woken:
            return
    await asyncio.sleep(_LOOK_S)


def look_again_s(state: State) -> float:
    """After how long at most the inbox is looked at again."""
    return _LOOK_S if state.is_turn_open and not state.waits.open else _IDLE_LOOK_S


def is_done(state: State) -> bool:
    """Whether the last turn is done and nothing was said since: the next line of a chat's queue may come."""
    ended = state.last_ending
    return not state.is_turn_wanted and ended is not None and ended.ending == "done"


async def carry_out(session: Commanded, runtime: Runtime) -> None:
    """Does what waits in the inbox. One does it at a time: what another has taken is not on record yet."""
    if (inbox := runtime.approvals.inbox) is None or not await inbox.is_filled():
        return
    async with inbox.at_work:
        await _carry_out(session, runtime, inbox)


async def _carry_out(session: Commanded, runtime: Runtime, inbox: Inbox) -> None:
    if any(isinstance(left.command, GoalCommand) and left.command.is_from_afar for left in inbox.waiting()):
        signal.raise_signal(signal.SIGTERM)  # as who gives it on this machine does; the goal then reads it
    is_held = False
    for left in inbox.waiting(*_TAKEN):
        if _is_early(left, runtime):
            return
        if _is_patient(left, runtime) or (is_held and _is_line(left)):
            is_held = is_held or _is_line(left)
            continue
        runtime.approvals.questions.look(before=left)
        if (taken := inbox.take(left)) is None:
            continue
        try:
            why = "" if await _is_recorded(left, runtime) else await _do(taken, session, runtime)
        except JournalOwned:  # the command is the next owner's
            raise
        except MainspringError as error:
            why = error.message.removesuffix(".")
        if why:
            inbox.refuse(taken, why)
        else:
            inbox.done(taken)


async def is_over(session: Commanded, runtime: Runtime, event: Event, *, says_queued: bool) -> bool:
    """Whether an event is the end of a turn that none follows. Who only goes on with a session also
    `says_queued`: what is queued for it."""
    if not isinstance(event, TurnEnded):
        return False
    if says_queued and not session.is_turn_wanted:
        await carry_out(session, runtime)
    return not session.is_turn_wanted


async def catch_up(runtime: Runtime, *, is_closing: bool = False) -> None:
    """Records what was left for a process that is gone, unless it had done so. A session that `is_closing`
    records what it had begun with, and leaves the rest to be withdrawn, or for the next."""
    if (inbox := runtime.approvals.inbox) is None:
        return
    async with inbox.at_work:  # who was just recording something may be cancelled, and still has it written
        await _catch_up(runtime, inbox, is_closing=is_closing)


async def _catch_up(runtime: Runtime, inbox: Inbox, *, is_closing: bool) -> None:
    for left in inbox.waiting(*_TAKEN):
        if (is_closing and not left.is_taken) or _is_early(left, runtime):
            return
        if _was_begun_by_chat(left) and not is_closing:
            inbox.done(left)  # how far it came is unknown, so that it is not done again
            continue
        is_later = (_is_line(left) and not left.is_taken) or _is_patient(left, runtime)
        if is_later or (taken := inbox.take(left)) is None:
            continue
        event = await _event(left, runtime)
        if event is None:
            if runtime.state.is_turn_open:
                runtime.stopped_by = left.origin
                await end_turn(runtime, STOPPED)
        elif not await _is_recorded(left, runtime):
            try:
                noted = await runtime.vet(event) if isinstance(event, UserSaid) else ()
            except PromptRefused as error:
                inbox.refuse(taken, error.message.removesuffix("."))
                continue
            left = runtime.state.open_calls if isinstance(event, UserSaid) else ()
            await runtime.record(*map(abandoned, left), *noted, event)
        inbox.done(taken)


def _is_early(left: LeftCommand, runtime: Runtime) -> bool:
    is_between = runtime.state.has_goal and not runtime.state.is_turn_open
    return is_between and not isinstance(left.command, StopCommand | SaveCommand)


def _is_patient(left: LeftCommand, runtime: Runtime) -> bool:
    """Whether it is to be said when the turn or its step is over, and that is not yet; what follows it may
    come first. A turn that waits has no step that would end soon."""
    command, state = left.command, runtime.state
    if not isinstance(command, SayCommand) or command.needs_chat or left.is_taken:
        return isinstance(command, SayCommand) and command.needs_chat
    if command.is_line:
        return not state.has_goal and not is_done(state)
    if not state.is_turn_open:
        return False
    return command.is_queued or (command.is_steer and not state.waits.open)


def _was_begun_by_chat(left: LeftCommand) -> bool:
    return left.is_taken and isinstance(left.command, SayCommand) and left.command.needs_chat


def _is_line(left: LeftCommand) -> bool:
    return isinstance(left.command, SayCommand) and left.command.is_line


async def _do(left: LeftCommand, session: Commanded, runtime: Runtime) -> str:
    """Why it could not be done; empty when it is on record."""
    if (event := await _event(left, runtime)) is not None:
        await session.hear(event)
        return ""
    if not session.is_running:
        return "no turn is running"
    await session.stop(left.origin)
    return ""


async def _event(left: LeftCommand, runtime: Runtime) -> UserSaid | NoteAdded | ArtifactSaved | None:
    match left.command:
        case SayCommand(text=text):
            return UserSaid(text=whole_characters(text), origin=left.origin, command=left.id)
        case NoteCommand(text=text):
            return NoteAdded(text=whole_characters(text), origin=left.origin, command=left.id)
        case SaveCommand() as save:
            blob = await runtime.recorder.put_blob(save.data, save.media_type)
            return ArtifactSaved(
                name=save.name,
                blob=blob,
                note=save.note,
                source=save.source,
                command=left.id,
                origin=left.origin,
            )
        case _:
            return None


async def _is_recorded(left: LeftCommand, runtime: Runtime) -> bool:
    """Whether the process before had recorded what it took, and died before it could say so."""
    if not left.is_taken:
        return False
    said = await read_all(runtime.journal, kinds=("UserSaid", "NoteAdded", "ArtifactSaved"))
    return any(getattr(item.event, "command", "") == left.id for item in said)
