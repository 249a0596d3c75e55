"""Tells the process that works on a goal to pause or stop, from another process; or records it, when nobody
works on it. The order lies in the inbox of the session until the signal makes it be read.
"""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path
from typing import Literal

import msgspec

from mainspring.catalog import Sessions, running
from mainspring.context.history import read_all
from mainspring.disk.files import closing_descriptor
from mainspring.disk.inbox import GoalCommand, Inbox
from mainspring.disk.owner import Owner
from mainspring.events import GoalEnded, GoalPaused, Origin
from mainspring.events.counts import plural
from mainspring.events.decoding import DECODE_ERRORS
from mainspring.folds.processes import Processes, end_of, is_alive, status_of
from mainspring.goals.fold import Goal
from mainspring.goals.left_running import end_processes
from mainspring.secrets.recorder import Recorder
from mainspring.system import host_name, open_process, signal_process
from mainspring.waits.watch import readable

Order = Literal["pause", "stop"]


class GivenOrder(msgspec.Struct, frozen=True):
    """An order, and who gave it."""

    order: Order
    origin: Origin = Origin()


_OLD_FILE = "order"
_WITHIN_S = 30.0
_LOOK_S = 0.25
_DONE = {"pause": "paused", "stop": "stopped"}
_CUSTODIAL = ("ProcessStarted", "ProcessEnded", "NoteAdded")


async def record_order(recorder: Recorder, order: Order, event: GoalPaused | GoalEnded) -> str:
    """Pauses or stops a goal that nobody works on; says what was done."""
    ended = 0
    if order == "stop" and isinstance(event, GoalEnded):
        ended, left = await end_left(recorder)
        event = msgspec.structs.replace(event, left_running=left)
    await recorder.record(event)
    processes = f", {plural(ended, 'process')} ended" if ended else ""
    return f"it was not running; recorded{processes}"


def take_order(sessions: Sessions, session: str) -> GivenOrder | None:
    """The order that somebody left for this process, once."""
    inbox, newest = Inbox(sessions.files(session)), _old_order(sessions.directory(session))
    for left in list(inbox.waiting(GoalCommand)):
        if isinstance(left.command, GoalCommand) and (taken := inbox.take(left)):
            newest = GivenOrder(order=left.command.order, origin=left.origin)
            inbox.done(taken)
    return newest


def _old_order(directory: Path) -> GivenOrder | None:
    """What an earlier version left, which had a file for orders alone."""
    path = directory / _OLD_FILE
    try:
        data = path.read_bytes()
        path.unlink()
    except FileNotFoundError:
        return None
    try:
        return msgspec.json.decode(data, type=GivenOrder)
    except DECODE_ERRORS:  # 0.1.0 wrote the word alone
        return GivenOrder(order="stop" if data == b"stop" else "pause")


async def end_left(recorder: Recorder) -> tuple[int, tuple[int, ...]]:
    """Ends what a goal that nobody works on has left running; gives how many there were, and the processes
    among them that engines had left."""
    processes, goal = Processes(), Goal()
    for recorded in await read_all(recorder.journal, kinds=_CUSTODIAL):
        processes.apply(recorded)
    await goal.catch_up(recorder.journal)
    alive = [item for item in processes.all if is_alive(status_of(item))]
    for process in alive:
        await process.background.stop("its goal was stopped")
    ends = [end for item in alive if not item.ended and (end := end_of(item, status_of(item)))]
    if ends:
        await recorder.record(*ends)
    left = await asyncio.to_thread(end_processes, goal.left)
    return len(alive) + len(left), left


async def _send_far(sessions: Sessions, session: str, given: GivenOrder, owner: Owner) -> str:
    """The same for a process of another machine, which looks for orders by itself."""
    inbox = Inbox(sessions.files(session))
    command = GoalCommand(given.order, is_from_afar=True)
    left = await asyncio.to_thread(inbox.leave, command, given.origin)
    deadline, is_there = time.monotonic() + _WITHIN_S, True
    while is_there and time.monotonic() < deadline:
        await asyncio.sleep(_LOOK_S)
        is_there = await sessions.owner(session) == owner
    if is_there:
        return f"told {owner.name}; it has not ended yet"
    is_unheard = await asyncio.to_thread(inbox.withdraw, left)
    return "its process has just ended" if is_unheard else _DONE[given.order]


async def send_order(sessions: Sessions, session: str, given: GivenOrder) -> str:
    """Gives the order to the process that works on a goal, and waits for its end; says what was done."""
    owner = await running(sessions, session)
    if owner is None:
        return "its process has just ended"
    if owner.host != host_name():
        return await _send_far(sessions, session, given, owner)
    with closing_descriptor(open_process(owner.pid)) as handle:
        if await sessions.owner(session) != owner:
            return "its process has just ended"
        inbox = Inbox(sessions.files(session))
        await asyncio.to_thread(inbox.leave, GoalCommand(given.order), given.origin)
        signal_process(handle, signal.SIGTERM)
        is_over = await readable(handle, _WITHIN_S)
    return _DONE[given.order] if is_over else f"told process {owner.pid}; it has not ended yet"
