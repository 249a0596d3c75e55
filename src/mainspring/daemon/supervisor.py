"""The daemon's process: looks at schedules and interrupted work, starts a process for each, and sleeps.

Each goal runs in a process that does not need the daemon: killed, it leaves them working, and the next one
finds them by their pids and by who owns their journals. It wakes for its next time, when a process ends, when
a command signals it, and every half minute for a clock that jumped or a machine that slept.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable, Collection

import msgspec

from mainspring import __version__
from mainspring.catalog import SessionRow, Sessions, running
from mainspring.daemon.answers import is_answered
from mainspring.daemon.decide import after_run, is_interrupted, plan
from mainspring.daemon.files import (
    DaemonFiles,
    DaemonRecord,
    DaemonRun,
    RunResult,
    is_run_by,
)
from mainspring.daemon.processes import LOG, RunProcesses, last_line
from mainspring.daemon.scheduled import ScheduledGoals
from mainspring.disk.shared_files import LocalFiles, SharedFiles
from mainspring.errors import MainspringError, UnknownSession
from mainspring.settings import Config
from mainspring.system import host_name, stop_signals

_LOOK_S = 30.0
_LIST_S = 300.0
_RETAIN_S = 24 * 3600.0


class Daemon:
    """Holds the place for as long as it runs."""

    def __init__(
        self,
        config: Config,
        place: DaemonFiles,
        say: Callable[[str], None],
        sessions: Sessions,
        retain: Callable[[], Awaitable[str]] | None = None,
        others: Callable[[], Awaitable[Collection[str]]] | None = None,
        files: SharedFiles | None = None,
    ) -> None:
        """`retain` deletes what is too old by the settings, and says what that was; `others` are sessions
        that are left to workers. `files` has the schedules, those of this home when none are given."""
        self._others = others
        self._retain, self._retained_s = retain, -_RETAIN_S
        self._config, self._place, self._say = config, place, say
        self._settings = config.settings.daemon
        self._sessions = sessions
        files = files or LocalFiles(config.home)
        before = place.load()
        by = f"{host_name()}:{config.home}"
        self._scheduled = ScheduledGoals(config, sessions, files, by, say, before=before.handled)
        self._record = DaemonRecord(
            version=__version__,
            started_us=_now_us(),
            max_running=self._settings.max_running,
            runs=before.runs,
            troubles=before.troubles,
            results=before.results,
            handled=before.handled,
            interrupted=before.interrupted,
        )
        self._poke = asyncio.Event()
        self._processes = RunProcesses(self._wake)
        self._is_stopping = False
        self._listed_s = 0.0
        self._answers: dict[str, tuple[int, bool]] = {}
        self._retry_us: int | None = None
        self._is_full = False

    async def run(self, ready: Callable[[], None], *, is_once: bool = False) -> None:
        """Until a signal ends it; with `is_once`, until there is nothing left to do."""
        loop = asyncio.get_running_loop()
        for number in stop_signals():
            loop.add_signal_handler(number, self._stop)
        loop.add_signal_handler(signal.SIGHUP, self._wake)
        await self._adopt()
        self._place.save(self._record)
        self._say(f"started: version {__version__}, process {os.getpid()}")
        ready()
        self._wake()
        while not self._is_stopping:
            is_woken = self._poke.is_set()
            self._poke.clear()
            await self._pass(is_woken=is_woken)
            await self._delete_old()
            if is_once and not self._processes.sessions and not self._poke.is_set():
                break
            await self._sleep()
        await self._leave()

    async def _pass(self, *, is_woken: bool) -> None:
        before = msgspec.json.encode(self._record)
        ended = self._reap()
        now_us = _now_us()
        comes = self._scheduled.come(now_us)
        self._record.problem = self._scheduled.problem
        # A goal that went to sleep makes room without telling.
        is_stale = self._is_full or time.monotonic() - self._listed_s > _LIST_S
        is_retry = self._retry_us is not None and self._retry_us <= now_us
        if is_woken or ended or comes or is_stale or is_retry:
            rows = await self._rows()
            self._close(ended, rows)
            for coming in comes:
                await self._scheduled.handle(coming, rows, self._record.left_alone)
            await self._resume(await self._rows() if comes else rows)
        if msgspec.json.encode(self._record) != before:
            self._place.save(self._record)

    async def _delete_old(self) -> None:
        """Once a day."""
        if self._retain is None or time.monotonic() - self._retained_s < _RETAIN_S:
            return
        self._retained_s = time.monotonic()
        try:
            said = await self._retain()
        except (MainspringError, OSError) as error:
            said = f"not possible: {error}"
        if said:
            self._say(f"retention: {said}")

    async def _rows(self) -> dict[str, SessionRow]:
        self._listed_s = time.monotonic()
        others = await self._others() if self._others else ()
        return {row.id: row for row in await self._sessions.rows() if row.id not in others}

    async def _resume(self, rows: dict[str, SessionRow]) -> None:
        if self._is_stopping:
            return
        answered = {row.id for row in rows.values() if await self._is_answered(row)}
        handed = self._place.handed_over([row.id for row in rows.values() if is_interrupted(row)])
        given = list(rows.values()), self._record, self._settings
        found = plan(*given, answered=answered, now_us=_now_us(), handed_over=handed)
        for session in found.left_alone.keys() - self._record.left_alone.keys():
            self._say(f"{session}: left alone, {found.left_alone[session]}")
        self._record.left_alone = dict(found.left_alone)
        self._retry_us, self._is_full = found.retry_us, found.is_full
        for row in found.resume:
            self._start(row)

    async def _is_answered(self, row: SessionRow) -> bool:
        if row.goal_state != "blocked":
            return False
        looked_us, is_found = self._answers.get(row.id, (0, False))
        if looked_us == row.updated_us:
            return is_found
        if await running(self._sessions, row.id):
            return False
        is_found = await is_answered(self._sessions, row)
        self._answers[row.id] = (row.updated_us, is_found)
        return is_found

    def _start(self, row: SessionRow) -> None:
        log = self._sessions.directory(row.id) / LOG
        run = self._processes.start(row, log, self._config.environment, started_us=_now_us())
        self._record.runs[row.id] = run
        self._record.interrupted = [each for each in self._record.interrupted if each != row.id]
        self._place.save(self._record)
        self._place.take_over(row.id)
        self._processes.watch(run)
        self._say(f"{row.id}: resumed by process {run.pid}")

    async def _adopt(self) -> None:
        """Takes over what an earlier daemon started and what still owns its journal."""
        for session, run in list(self._record.runs.items()):
            try:
                owner = await self._sessions.owner(session)
            except UnknownSession:
                owner = None
            if owner is not None and is_run_by(owner, run.pid) and self._processes.watch(run):
                self._say(f"{session}: still running, process {run.pid}")
            else:
                del self._record.runs[session]

    def _reap(self) -> dict[str, tuple[DaemonRun, int | None]]:
        ended = self._processes.reap()
        for session in ended:
            del self._record.runs[session]
        return ended

    def _close(self, ended: dict[str, tuple[DaemonRun, int | None]], rows: dict[str, SessionRow]) -> None:
        for session, (run, code) in ended.items():
            row = rows.get(session)
            if row is None:
                continue
            state = row.goal_state if run.is_goal else row.state
            now_us = _now_us()
            self._say(f"{session}: {state}" + (f", exit code {code}" if code is not None else ""))
            self._record.add_result(RunResult(session=session, at_us=now_us, state=state, exit_code=code))
            detail = last_line(self._sessions.directory(session) / LOG) or f"exit code {code}"
            before = self._record.troubles.pop(session, None)
            trouble = after_run(run, row, before, self._settings, code=code, now_us=now_us, detail=detail)
            if trouble is not None and not self._is_stopping:
                self._record.troubles[session] = trouble

    async def _sleep(self) -> None:
        now_us = _now_us()
        times = [now_us + int(_LOOK_S * 1e6)]
        if self._retry_us is not None:
            times.append(self._retry_us)
        times += self._scheduled.next_times(now_us)
        try:
            async with asyncio.timeout(max(0.0, (min(times) - now_us) / 1e6)):
                await self._poke.wait()
        except TimeoutError:
            pass

    async def _leave(self) -> None:
        """Interrupts what it runs, in order; the next daemon goes on with it."""
        await self._processes.end_all(self._poke, self._say)
        ended = self._reap()
        rows = await self._rows()
        self._close(ended, rows)
        self._record.interrupted += [
            session for session in ended if session in rows and is_interrupted(rows[session])
        ]
        self._record.troubles = {}
        self._place.save(self._record)
        self._say("stopped")

    def _wake(self) -> None:
        self._poke.set()

    def _stop(self) -> None:
        self._is_stopping = True
        self._poke.set()


def _now_us() -> int:
    return time.time_ns() // 1000
