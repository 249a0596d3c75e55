"""The processes that a daemon or a worker has started to work on sessions: started, watched, ended.

Each is our own program, in a session of its own, so it outlives whoever started it.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from mainspring.catalog import SessionRow
from mainspring.daemon.files import DaemonRun, has_ended
from mainspring.sandbox.detached import start_detached
from mainspring.settings import FACE
from mainspring.system import open_process, signal_process

LOG = "daemon.log"
"""What such a process had to say, in the folder of its session."""
_END_WITHIN_S = 60.0
_DETAIL = 300


class RunProcesses:
    """`on_end` is called when one has ended, once for each."""

    def __init__(self, on_end: Callable[[], None]) -> None:
        self._on_end = on_end
        self._watched: dict[str, tuple[DaemonRun, int]] = {}

    @property
    def sessions(self) -> Collection[str]:
        return self._watched.keys()

    def start(
        self,
        row: SessionRow,
        log: Path,
        environment: Mapping[str, str],
        *,
        started_us: int,
        options: Sequence[str] = (),
    ) -> DaemonRun:
        """Starts one that goes on with a session."""
        command = ["goal", "resume"] if row.goal else ["resume"]
        pid = start_detached(
            [*command, row.id, "--json", *options], environment={**environment, FACE: "daemon"}, log=log
        )
        return DaemonRun(
            session=row.id, pid=pid, started_us=started_us, iterations=row.iterations, is_goal=bool(row.goal)
        )

    def watch(self, run: DaemonRun) -> bool:
        """False when it is gone already."""
        try:
            handle = open_process(run.pid)
        except ProcessLookupError:
            return False
        self._watched[run.session] = (run, handle)
        asyncio.get_running_loop().add_reader(handle, self._ended, handle)
        return True

    def reap(self) -> dict[str, tuple[DaemonRun, int | None]]:
        """The runs that ended since, with their exit codes as far as they are ours to know."""
        ended: dict[str, tuple[DaemonRun, int | None]] = {}
        for session, (run, handle) in list(self._watched.items()):
            if has_ended(handle):
                asyncio.get_running_loop().remove_reader(handle)
                os.close(handle)
                del self._watched[session]
                ended[session] = (run, _exit_code(run.pid))
        return ended

    def interrupt(self, session: str) -> None:
        """Asks one to end in order."""
        _send(self._watched[session][1], signal.SIGTERM)

    def kill(self, session: str) -> None:
        """Ends one that only sleeps. Nothing is told to it, because that would end its wait, on record."""
        _send(self._watched[session][1], signal.SIGKILL)

    async def end_all(self, poke: asyncio.Event, say: Callable[[str], None]) -> None:
        """Interrupts all in order, and kills what does not end; `poke` is set when one ends."""
        loop = asyncio.get_running_loop()
        for session, (run, _) in self._watched.items():
            say(f"{session}: interrupting process {run.pid}")
            self.interrupt(session)
        deadline = loop.time() + _END_WITHIN_S
        left = {session: handle for session, (_, handle) in self._watched.items()}
        while left and loop.time() < deadline:
            left = {session: handle for session, handle in left.items() if not has_ended(handle)}
            if left:
                poke.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(1.0):
                        await poke.wait()
        for session, handle in left.items():
            say(f"{session}: did not end within {_END_WITHIN_S:g} s, killed")
            _send(handle, signal.SIGKILL)
            await asyncio.to_thread(has_ended, handle, _END_WITHIN_S)

    def _ended(self, handle: int) -> None:
        # A process that has ended stays readable; it is looked at once, by whoever this wakes.
        asyncio.get_running_loop().remove_reader(handle)
        self._on_end()


def last_line(log: Path) -> str:
    """The last words of a process."""
    try:
        lines = log.read_text("utf-8", "replace")[-4096:].strip().splitlines()
    except FileNotFoundError:
        return ""
    return lines[-1].strip()[:_DETAIL] if lines else ""


def _send(handle: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        signal_process(handle, number)


def _exit_code(pid: int) -> int | None:
    try:
        _, status = os.waitpid(pid, 0)
    except ChildProcessError:
        return None
    return os.waitstatus_to_exitcode(status)
