"""The background processes of a session: folded from its journal, looked after through their keepers.

The journal says which there are and what the model has been told; whether one lives is asked of its keeper.
What ended while nobody looked becomes one event and one note. Nothing here starts a process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mainspring.errors import SandboxError
from mainspring.events import Event, NoteAdded, ProcessEnded, ProcessStarted, Recorded

if TYPE_CHECKING:
    from mainspring.sandbox.background import Background, Status

FOLDER = "processes"
"""Below a session's own folder; each process has one there, named by its handle."""

NOTE_SOURCE = "process"
SESSION_ENDED = "ended with its session"
Custodial = ProcessStarted | ProcessEnded | NoteAdded
"""The events that tell of processes."""

_NEVER_STARTED = "it was never started"
_LOST = "its keeper process is gone, so its exit code is unknown"


class Process(msgspec.Struct, frozen=True):
    started: ProcessStarted
    since_us: int
    ended: ProcessEnded | None = None
    is_told: bool = False

    @property
    def handle(self) -> str:
        return self.started.handle

    @property
    def background(self) -> Background:
        made: Background = import_module("mainspring.sandbox.background").Background(
            Path(self.started.folder)
        )
        return made


class Processes:
    """The fold. `untold` ended without the model knowing of it."""

    def __init__(self) -> None:
        self._known: dict[str, Process] = {}

    @property
    def all(self) -> tuple[Process, ...]:
        return tuple(self._known.values())

    @property
    def open(self) -> tuple[Process, ...]:
        return tuple(process for process in self.all if process.ended is None)

    @property
    def untold(self) -> tuple[Process, ...]:
        return tuple(process for process in self.all if process.ended and not process.is_told)

    def get(self, handle: str) -> Process | None:
        return self._known.get(handle)

    def apply(self, recorded: Recorded) -> None:
        event, replace = recorded.event, msgspec.structs.replace
        if not isinstance(event, Custodial):
            return
        match event:
            case ProcessStarted():
                self._known[event.handle] = Process(event, recorded.time_us)
            case ProcessEnded() if (process := self._known.get(event.handle)) and not process.ended:
                self._known[event.handle] = replace(process, ended=event, is_told=bool(event.call))
            case NoteAdded(source=source) if source == NOTE_SOURCE:
                self._known |= {process.handle: replace(process, is_told=True) for process in self.untold}
            case _:
                pass


class Handles:
    """What tools use: the processes on record, where new ones are kept, and how far each was read, as far as
    this process knows. A resumed session reads again from the beginning: nothing is ever skipped."""

    def __init__(self, folder: Path | None, processes: Callable[[], Processes]) -> None:
        self.folder = folder
        self._processes = processes
        self.offsets: dict[str, int] = {}
        self.changing = asyncio.Lock()
        """Held while a process is given its handle, or its end is recorded: each happens once."""

    @property
    def processes(self) -> Processes:
        return self._processes()


def status_of(process: Process) -> Status | None:
    """What its keeper says; None when there is no trace of one."""
    try:
        return process.background.status()
    except SandboxError:
        return None


def is_alive(status: Status | None) -> bool:
    """Whether anything that a process started is left."""
    return status is not None and (status.state == "running" or bool(status.left_running))


def count_running(processes: Processes) -> int:
    """How many run now; the journal hears of an end only with the next step."""
    return sum(is_alive(status_of(process)) for process in processes.open)


def end_of(process: Process, status: Status | None, *, call: str = "") -> ProcessEnded | None:
    """The end of a process, as it is to be recorded; None while it runs."""
    if status is None:
        return ProcessEnded(handle=process.handle, reason=_NEVER_STARTED, call=call)
    match status.state:
        case "running":
            return None
        case "lost":
            return ProcessEnded(handle=process.handle, reason=_LOST, call=call)
        case "exited":
            return ProcessEnded(
                handle=process.handle, exit_code=status.exit_code, reason=status.stopped, call=call
            )


async def settled(process: Process, status: Status | None, *, call: str = "") -> ProcessEnded | None:
    """The end of a process, with what it did to protected paths repaired; None while it runs."""
    ended = end_of(process, status, call=call)
    if ended is None:
        return None
    held = import_module("mainspring.sandbox.held")  # needed when a process has ended
    aside = await asyncio.to_thread(held.release, process.background.folder)
    return msgspec.structs.replace(ended, set_aside=aside) if aside else ended


def aside_text(ended: ProcessEnded) -> str:
    """What the model is told about protected paths; empty when there is nothing to tell."""
    paths = ", ".join(ended.set_aside)
    return f"(protected, so what it did to these was set aside or put back: {paths})" if paths else ""


async def news(processes: Processes) -> list[Event]:
    """What ended while nobody looked, and the one note that tells the model of it."""
    ends = [end for process in processes.open if (end := await settled(process, status_of(process)))]
    untold = [process.ended for process in processes.untold if process.ended] + ends
    if not untold:
        return []
    return [*ends, NoteAdded(text="\n".join(map(_told, untold)), source=NOTE_SOURCE)]


async def end_all(processes: Processes) -> list[Event]:
    """Ends what is not told to stay, whole trees, and gives what is to be recorded."""
    alive = [
        process
        for process in processes.all
        if not process.started.is_staying and is_alive(status_of(process))
    ]
    async with asyncio.TaskGroup() as group:
        stops = [(process, group.create_task(process.background.stop(SESSION_ENDED))) for process in alive]
    ends = [await settled(process, stop.result()) for process, stop in stops if process.ended is None]
    return [end for end in ends if end]


def _told(ended: ProcessEnded) -> str:
    code = "" if ended.exit_code is None else f" with exit code {ended.exit_code}"
    reason = f" ({ended.reason})" if ended.reason else ""
    text = f"The background process {ended.handle} has ended{code}{reason}. Its output can still be read."
    return " ".join(filter(None, (text, aside_text(ended))))
