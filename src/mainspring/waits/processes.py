"""Processes: ours by their handle, others by their number and what tells them from a later one of it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection
from pathlib import Path

import msgspec

from mainspring.disk.files import closing_descriptor
from mainspring.errors import SandboxError, UsageError
from mainspring.events import OnPid, OnProcess
from mainspring.folds.processes import Process, end_of, status_of
from mainspring.sandbox.custody.tree import Stat, listed_below, stat
from mainspring.system import open_process, pid_scope
from mainspring.waits.decide import Observation
from mainspring.waits.reach import WaitContext
from mainspring.waits.watch import ConditionWatch, last_lines, readable

_GONE = "gone"
_TAIL_BYTES = 4000
_SOON_S = 0.05


class ProcessWatch(ConditionWatch):
    def __init__(self, condition: OnProcess, waiting: WaitContext) -> None:
        super().__init__(condition)
        self._processes = waiting.handles
        self._slice_s = waiting.reach.pace.slice_s
        self._soon_s = _SOON_S
        self._handle = condition.handle
        if self._known is None:
            names = ", ".join(each.handle for each in waiting.handles.processes.all) or "none"
            raise UsageError(
                f"There is no background process {condition.handle!r}.", remedy=f"There are: {names}."
            )

    @property
    def _known(self) -> Process | None:
        return self._processes.processes.get(self._handle)

    async def look(self) -> Observation | None:
        process = self._known
        if process is None:
            return Observation(f"The process {self._handle} is not on record any more", is_lost=True)
        status = status_of(process)
        ended = process.ended or end_of(process, status)
        if ended is None:
            return None
        code = "outcome unknown" if ended.exit_code is None else f"exit code {ended.exit_code}"
        reason = f" ({ended.reason})" if ended.reason else ""
        took = f" after {status.ended - status.started:.0f} s" if status and status.ended else ""
        at_us = int(status.ended * 1e6) if status and status.ended else None
        return Observation(f"{self._handle} ended{took}: {code}{reason}{_tail(process)}", at_us)

    async def rest(self) -> None:
        """The keeper writes the end down a moment after the command is gone."""
        process = self._known
        status = status_of(process) if process else None
        try:
            descriptor = open_process(status.pid) if status else -1
        except OSError:
            descriptor = -1
        if descriptor >= 0:
            with closing_descriptor(descriptor):
                if not await readable(descriptor, self._slice_s):
                    return
        await asyncio.sleep(self._soon_s)
        self._soon_s = min(self._soon_s * 2, self._slice_s)

    def so_far(self) -> str:
        process = self._known
        return f"{self._handle} still runs{_tail(process) if process else ''}"

    def roots(self) -> Collection[int]:
        process = self._known
        try:
            return () if process is None else (process.background.keeper,)
        except SandboxError:
            return ()


class PidWatch(ConditionWatch):
    """A process that was not there at the beginning has ended. A zombie is dead. A process of another start
    time is another process."""

    def __init__(self, condition: OnPid, waiting: WaitContext) -> None:
        _check(condition.pid)
        self._was_seen = not condition.identity
        if not condition.identity:
            condition = _identified(condition)
        super().__init__(condition)
        self._pid = condition.pid
        self._boot, _, rest = condition.identity.partition("/")
        self._namespace, _, start = rest.rpartition("/")
        self._start = int(start) if start.isdecimal() else -1
        self._name = f" ({condition.name})" if condition.name else ""
        self._slice_s = waiting.reach.pace.slice_s

    async def look(self) -> Observation | None:
        who = f"Process {self._pid}{self._name}"
        if self._boot == _GONE:
            return Observation(f"{who} was not there when the wait began: it has ended, or it never was")
        boot, namespace = pid_scope()
        if boot != self._boot:
            return Observation(f"{who} has ended: the machine was restarted")
        if namespace != self._namespace:
            return Observation(f"{who} cannot be seen from here: it has another pid namespace", is_lost=True)
        found = stat(self._pid)
        if _is_it(found, self._start):
            self._was_seen = True
            return None
        end = "has ended" if self._was_seen else "had ended already"
        reused = "; its number belongs to another process now" if found and found.start != self._start else ""
        return Observation(f"{who} {end}{reused}. Its exit code is not known here")

    async def rest(self) -> None:
        try:
            descriptor = open_process(self._pid)
        except OSError:  # gone this moment, or a thread
            await asyncio.sleep(1)
            return
        with closing_descriptor(descriptor):
            if _is_it(stat(self._pid), self._start):
                await readable(descriptor, self._slice_s)

    def roots(self) -> Collection[int]:
        return (self._pid,)


class Progress:
    """Notices when trees of processes stop using the processor."""

    def __init__(self) -> None:
        self._used: dict[tuple[int, int], float] = {}

    def has_moved(self, roots: Collection[int]) -> bool:
        """Whether anything ran, began or ended in these trees since the last look."""
        used = {(item.pid, item.start): item.cpu_s for root in roots for item in _tree(root)}
        has_moved, self._used = used != self._used, used
        return has_moved


def _tree(root: int) -> list[Stat]:
    top = stat(root)
    return [top, *listed_below(root)] if top else []


def _check(pid: int) -> None:
    largest = int(Path("/proc/sys/kernel/pid_max").read_text())
    if not 1 <= pid <= largest:
        raise UsageError(f"{pid} cannot be the number of a process.", remedy=f"They are 1 to {largest}.")
    if pid == os.getpid():
        raise UsageError(f"{pid} is mainspring itself, which cannot wait for its own end.")


def _identified(condition: OnPid) -> OnPid:
    found = stat(condition.pid)
    if found is None or not is_running(condition.pid):
        return msgspec.structs.replace(condition, identity=_GONE)
    boot, namespace = pid_scope()
    try:
        name = Path(f"/proc/{condition.pid}/comm").read_text(errors="replace").strip()
    except OSError:
        name = ""
    return msgspec.structs.replace(condition, identity=f"{boot}/{namespace}/{found.start}", name=name)


def is_running(pid: int) -> bool:
    """Whether there is such a process; a zombie is dead."""
    found = stat(pid)
    return found is not None and found.state not in "ZX"


def _is_it(found: Stat | None, start: int) -> bool:
    return found is not None and found.state not in "ZX" and found.start == start


def _tail(process: Process) -> str:
    """The last lines of a process, to go on from."""
    try:
        size = process.background.status().output_bytes
        shown = last_lines(process.background.output(max(0, size - _TAIL_BYTES), _TAIL_BYTES).data)
    except SandboxError:
        return ""
    return f"; its last output:\n{shown}" if shown else "; it wrote nothing"
