"""Tells a session something from any process: the one that runs it gets a command in its inbox.

The commands are those of `disk/inbox.py`, for every face alike. When nobody runs the session, a note is
recorded here, and to say something is to go on with the session, which is not done here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Literal

import msgspec

from mainspring.app.arguments import CONFIG, NAME, TEXT, check_arguments
from mainspring.app.operations.sessions import journal_of
from mainspring.app.private import own_config
from mainspring.app.records import recording
from mainspring.app.stores import check_right, sessions_of
from mainspring.catalog import running
from mainspring.disk.inbox import (
    Command,
    Inbox,
    NoteCommand,
    SayCommand,
    StopCommand,
)
from mainspring.disk.owner import Owner
from mainspring.errors import JournalOwned, UsageError
from mainspring.events import NoteAdded
from mainspring.folds.state import State
from mainspring.session.commands import is_done
from mainspring.settings import Config

_TAKEN_WITHIN_S = 10.0
_LOOK_S = 0.05
_ATTEMPTS = 3


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a command. `recorded`: it is in the journal. `waiting`: it is in the inbox of `owner`, a
    process, which is told when it next looks; a goal between two turns looks when the next one begins.
    Without an `owner` nobody runs the session."""

    session: str
    state: Literal["recorded", "waiting"]
    owner: str = ""


class LeftMessage(msgspec.Struct, frozen=True):
    """Something that was entered for a running turn, or for after it, and is not on record yet."""

    id: str
    """What the event has as its `command` once it is on record."""
    text: str
    inbox: Inbox
    needs_chat: bool = False
    """Whether it is nothing to say, or has files with it, so that only a chat can do it."""
    images: tuple[tuple[str, bytes], ...] = ()
    """Each with the words that stand for it in the text."""

    def withdraw(self) -> bool:
        """Takes it back; False when it is too late."""
        return self.inbox.withdraw(self.id)

    def begin(self) -> bool:
        """Begins to do what needs a chat, so that nobody else does, until `end`; False when somebody has, or
        took it back."""
        return self.inbox.begin(self.id)

    def end(self) -> None:
        """What was begun is done."""
        self.inbox.end(self.id)

    @property
    def is_pending(self) -> bool:
        return self.inbox.is_pending(self.id)

    def refusal(self) -> str:
        """Why it does not count, once that was decided; empty when it does."""
        return self.inbox.refusal_of(self.id)


async def say(session: str, text: str, *, config: Config | None = None) -> Delivery:
    """Says something to a session that another process runs: it enters the running turn between two steps, or
    starts one. `UsageError` when nobody runs the session."""
    config, name = await _found(session, text, config)
    if delivery := await deliver(config, name, SayCommand(text)):
        return delivery
    how = f"goal resume {name}" if await has_goal(config, name) else f"resume {name} TEXT"
    raise UsageError(f"Nobody runs session {name} now.", remedy=f"Go on with it: mainspring {how}")


async def say_to_owner(config: Config, session: str, text: str) -> Delivery | None:
    """As `say`; None when nobody runs the session, unless it has a goal: its loop goes on with that."""
    config, name = await _found(session, text, config)
    if await has_goal(config, name):
        return await say(name, text, config=config)
    return await deliver(config, name, SayCommand(text))


async def leave_queued(config: Config, session: str, text: str) -> tuple[LeftMessage, Owner] | None:
    """Leaves something for the process that runs a session, to be said when its turn is over; None when there
    is no such process. Who leaves it sees to it that somebody goes on with the session (`withdraw`)."""
    return await _leave(config, session, SayCommand(text, is_queued=True))


async def leave_steer(config: Config, session: str, text: str) -> LeftMessage | None:
    """As `leave_queued`, but it enters the running turn when its step is over."""
    left = await _leave(config, session, SayCommand(text, is_steer=True))
    return left[0] if left else None


def queue_line(
    config: Config,
    session: str,
    line: str,
    *,
    needs_chat: bool,
    images: tuple[tuple[str, bytes], ...] = (),
) -> LeftMessage:
    """Leaves a line of a chat for when a turn is done: whoever runs the session says it then, or the chat
    that it needs does it. It outlives the chat."""
    command = SayCommand(line, is_queued=True, is_line=True, needs_chat=needs_chat, images=images)
    inbox = inbox_of(config, session)
    return LeftMessage(inbox.leave(command, config.origin), line, inbox, needs_chat, images)


def is_queue_due(state: State) -> bool:
    """Whether the next line that waits for a turn that is done may come."""
    return is_done(state)


def list_steers(config: Config, session: str) -> list[LeftMessage]:
    """What waits for the end of a step, the oldest first."""
    return [message for message, command in _waiting(config, session) if command.is_steer]


def list_queued(config: Config, session: str) -> list[LeftMessage]:
    """The lines that wait for a turn that is done, the oldest first."""
    return [message for message, command in _waiting(config, session) if command.is_line]


class UnsaidMessage(msgspec.Struct, frozen=True, kw_only=True):
    """Something that waits to be said; `is_steer` when it enters the running turn."""

    id: str
    text: str
    is_steer: bool = False


def list_waiting(config: Config, session: str) -> tuple[UnsaidMessage, ...]:
    """All that waits for the end of a step or of a turn, the oldest first, from every face."""
    return tuple(
        UnsaidMessage(id=message.id, text=message.text, is_steer=command.is_steer)
        for message, command in _waiting(config, session)
        if (command.is_steer or command.is_queued) and not command.needs_chat
    )


def take_back(config: Config, session: str, message: str) -> bool:
    """Withdraws what waits; False when it was said, or is just being said."""
    found = [left for left, _ in _waiting(config, session) if left.id == message]
    return bool(found) and found[0].withdraw()


def _waiting(config: Config, session: str) -> Iterator[tuple[LeftMessage, SayCommand]]:
    inbox = inbox_of(config, session)
    for left in inbox.waiting(SayCommand):
        command = left.command
        if isinstance(command, SayCommand) and not left.is_taken:
            yield LeftMessage(left.id, command.text, inbox, command.needs_chat, command.images), command


def inbox_of(config: Config, session: str) -> Inbox:
    return Inbox(sessions_of(config).files(session))


async def _leave(config: Config, session: str, command: SayCommand) -> tuple[LeftMessage, Owner] | None:
    config, name = await _found(session, command.text, config)
    sessions = sessions_of(config)
    runner = await running(sessions, name)
    if runner is None:
        return None
    inbox = Inbox(sessions.files(name))
    left = await asyncio.to_thread(inbox.leave, command, config.origin)
    return LeftMessage(left, command.text, inbox), runner


async def has_goal(config: Config, session: str) -> bool:
    async with journal_of(config, session) as reader:
        return await reader.last("GoalSet") is not None


async def wants_turn(config: Config, session: str) -> bool:
    """Whether something was said to a session in which no turn has ended since, and that counts."""
    async with journal_of(config, session) as reader:
        said, ended = await reader.last("UserSaid"), await reader.last("TurnEnded", "Undone")
        return said is not None and (ended is None or ended.seq < said.seq)


async def note(session: str, text: str, *, config: Config | None = None) -> Delivery:
    """Tells a session something that needs no answer: by way of the process that runs it, or else recorded
    at once, for when it goes on."""
    config, name = await _found(session, text, config)
    for attempt in range(_ATTEMPTS):
        if delivery := await deliver(config, name, NoteCommand(text)):
            return delivery
        try:
            async with recording(name, config) as recorder:
                await recorder.record(NoteAdded(text=text))
                return Delivery(session=name, state="recorded")
        except JournalOwned:  # somebody began to run it in this moment
            if attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError("the last attempt returns or raises")


async def stop(session: str, *, config: Config | None = None) -> Delivery:
    """Ends the running turn of a session as interrupted; `UsageError` when none is running."""
    config, name = await _found(session, "-", config)
    if delivery := await deliver(config, name, StopCommand()):
        return delivery
    raise UsageError(
        f"Nobody runs session {name} now: there is no turn to stop.",
        remedy=f"`mainspring ps {name}` lists its background processes.",
    )


async def deliver(config: Config, session: str, command: Command) -> Delivery | None:
    """Gives a command to the process that runs the session, and waits until it is on record; None when there
    is no such process, or it ends without having taken the command."""
    sessions = sessions_of(config)
    runner = await running(sessions, session)
    if runner is None:
        return None
    inbox = Inbox(sessions.files(session))
    left = await asyncio.to_thread(inbox.leave, command, config.origin)
    deadline, is_gone = time.monotonic() + _TAKEN_WITHIN_S, False
    while inbox.is_pending(left) and not is_gone and time.monotonic() < deadline:
        await asyncio.sleep(_LOOK_S)
        is_gone = await running(sessions, session) is None
    if is_gone and inbox.withdraw(left):
        return None
    if inbox.is_pending(left):
        _check_waiting(inbox, left, command, runner)
        return Delivery(session=session, state="waiting", owner=runner.name)
    if why := inbox.refusal_of(left):
        raise UsageError(f"Session {session} did not take it: {why}.")
    return Delivery(session=session, state="recorded", owner=runner.name)


def _check_waiting(inbox: Inbox, left: str, command: Command, runner: Owner) -> None:
    """Raises `JournalOwned` for a command that makes no sense later, or whose process may not know it."""
    is_lasting = isinstance(command, SayCommand | NoteCommand) and not runner.other_version
    if not is_lasting and inbox.withdraw(left):
        raise JournalOwned(
            f"It was not delivered: {runner.name} runs the session and does not take it."
            f" {runner.other_version}".rstrip(),
            remedy="Tell it there, or stop that process and try again.",
        )
    if not is_lasting and inbox.is_pending(left):
        raise JournalOwned(
            f"It reached {runner.name}, which has not recorded it yet.",
            remedy="`mainspring show` shows what became of it.",
        )


async def _found(session: str, text: str, config: Config | None) -> tuple[Config, str]:
    check_arguments(locals(), session=NAME, text=TEXT, config=CONFIG)
    if not text.strip():
        raise UsageError("The message is empty.")
    config = config or own_config()
    name = await sessions_of(config).find(session)
    await check_right(config, name, "start")
    return config, name
