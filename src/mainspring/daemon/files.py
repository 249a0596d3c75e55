"""Where the daemon lives: its lock, its log, and what it wrote down for the next one and for people.

What it writes down is about processes and times. What became of a goal is in the goal's journal alone.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec

from mainspring.catalog import Owner
from mainspring.disk.files import make_file, make_folder, write_private
from mainspring.disk.formats import refuse_newer_json
from mainspring.disk.owner import own, owner_of
from mainspring.disk.shared_files import SharedFiles
from mainspring.errors import JournalOwned, MainspringError
from mainspring.events.decoding import DECODE_ERRORS
from mainspring.system import host_name, open_process, signal_process

_FORMAT = 1
_HANDLED = "schedules-handled.json"
_LEFT_US = 600_000_000
_LOG_BYTES = 1 << 20
_RESULTS = 20
RESTART = "Restart it: mainspring daemon stop, then mainspring daemon start."


class DaemonRunning(MainspringError):
    exit_code = 3


class DaemonRun(msgspec.Struct, frozen=True, kw_only=True):
    """A process that works on a session. `iterations` are those that had begun before it."""

    session: str
    pid: int
    started_us: int
    iterations: int = 0
    is_goal: bool = True


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """A session whose process ended again and again before its work did."""

    crashes: int
    at_us: int
    retry_us: int
    detail: str = ""


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended; `state` is that of its goal or turn."""

    session: str
    at_us: int
    state: str
    exit_code: int | None = None


class Handled(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a schedule's newest time. It is written as `starting` before anything is begun."""

    due_us: int
    at_us: int
    outcome: Literal["starting", "started", "skipped", "missed", "failed"]
    how: str = ""
    session: str = ""
    detail: str = ""
    missed: int = 0
    by: str = ""


class HandledSchedules:
    """What became of schedules, for all daemons that share these files: each time is handled by one of them.
    `by` names this one; `before` is what an earlier version wrote down elsewhere."""

    def __init__(self, files: SharedFiles, by: str, before: Mapping[str, Handled]) -> None:
        self._files, self._by, self._before = files, by, before

    def all(self) -> dict[str, Handled]:
        return {**self._before, **_decoded(self._files.read(_HANDLED))}

    def is_mine(self, handled: Handled, now_us: int) -> bool:
        """Whether this daemon has to do with it; also when the one that was starting it is gone."""
        is_left = handled.outcome == "starting" and now_us - handled.at_us > _LEFT_US
        return handled.by in ("", self._by) or is_left

    def claim(self, schedule: str, handled: Handled) -> bool:
        """Whether this daemon is to handle a time; False when one has handled it, or a later one."""
        is_ours = False

        def claimed(data: bytes | None) -> bytes | None:
            nonlocal is_ours
            known = _decoded(data)
            before = known.get(schedule)
            is_ours = before is None or before.due_us < handled.due_us or self.is_mine(before, handled.at_us)
            return _encoded({**known, schedule: self._signed(handled)}) if is_ours else data

        self._files.change(_HANDLED, claimed)
        return is_ours

    def keep(self, schedule: str, handled: Handled) -> None:
        """Says what became of a time that was claimed."""
        signed = self._signed(handled)
        self._files.change(_HANDLED, lambda data: _encoded({**_decoded(data), schedule: signed}))

    def forget(self, schedules: Collection[str]) -> None:
        """Of schedules that are no more nothing is kept."""
        if self.all().keys() & schedules:
            self._files.change(
                _HANDLED,
                lambda data: _encoded({k: v for k, v in _decoded(data).items() if k not in schedules}),
            )

    def _signed(self, handled: Handled) -> Handled:
        return msgspec.structs.replace(handled, by=self._by)


class _HandledContent(msgspec.Struct, frozen=True):
    handled: dict[str, Handled] = {}
    format_version: int = _FORMAT


def _decoded(data: bytes | None) -> dict[str, Handled]:
    """What is kept; nothing of what cannot be read, which costs a late start at most."""
    if data is None:
        return {}
    refuse_newer_json(_HANDLED, data, _FORMAT)
    try:
        return msgspec.json.decode(data, type=_HandledContent).handled
    except DECODE_ERRORS:
        return {}


def _encoded(handled: dict[str, Handled]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(_HandledContent(handled)), indent=1) + b"\n"


class DaemonRecord(msgspec.Struct, kw_only=True):
    """What the daemon wrote down. `version` is that of its program; `left_alone` says of sessions that are
    not resumed why."""

    format_version: int = _FORMAT
    version: str = ""
    started_us: int = 0
    max_running: int = 0
    runs: dict[str, DaemonRun] = {}
    troubles: dict[str, Trouble] = {}
    handled: dict[str, Handled] = {}
    results: list[RunResult] = []
    left_alone: dict[str, str] = {}
    interrupted: list[str] = []
    problem: str = ""

    def add_result(self, result: RunResult) -> None:
        self.results = [result, *self.results][:_RESULTS]


class DaemonFiles:
    """The daemon's folder under one home."""

    def __init__(self, home: Path) -> None:
        self.folder = home / "daemon"
        self.log = self.folder / "daemon.log"
        self._record = self.folder / "record.json"
        self._handed = self.folder / "handed-over"

    def make(self) -> None:
        make_folder(self.folder)

    def owner(self) -> Owner | None:
        """The daemon that runs now."""
        found = owner_of(self.folder)
        return found if found is not None and found.is_alive else None

    @contextmanager
    def held(self) -> Generator[None]:
        """Keeps every other daemon out; `DaemonRunning` names the one that is there."""
        self.make()
        try:
            owned = own(self.folder, "of the daemon")
        except JournalOwned as error:
            raise self.running() from error
        try:
            yield
        finally:
            owned.release()

    def running(self) -> DaemonRunning:
        owner = self.owner()
        if owner is None:
            return DaemonRunning(
                "Another daemon is just starting or ending.", remedy="Try again in a moment."
            )
        return DaemonRunning(
            f"The daemon runs already: {owner.name}, since {owner.since}. {owner.other_version}".rstrip(),
            remedy=RESTART if owner.other_version else "mainspring daemon stop ends it.",
        )

    def other_version(self) -> str:
        """What to tell a person when the daemon that runs is of another version; empty when not."""
        owner = self.owner()
        if owner is None or not owner.other_version:
            return ""
        return f"The daemon is of another version. {owner.other_version} {RESTART}"

    def load(self) -> DaemonRecord:
        """The record; an empty one when there is none that can be read, which costs no goal anything.
        `FileTooNew` when a newer version wrote it."""
        try:
            data = self._record.read_bytes()
            refuse_newer_json(self._record, data, _FORMAT)
            return msgspec.json.decode(data, type=DaemonRecord)
        except (FileNotFoundError, msgspec.MsgspecError):
            return DaemonRecord()

    def save(self, record: DaemonRecord) -> None:
        write_private(self._record, msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n")

    def signal(self, number: signal.Signals, *, wait_s: float = 0.0) -> Owner | None:
        """Sends a signal to the running daemon, and waits for its end; gives the daemon while it lives."""
        owner = self.owner()
        if owner is None or owner.host != host_name():
            return owner
        try:
            handle = open_process(owner.pid)
        except ProcessLookupError:
            return None
        try:
            if self.owner() == owner:
                signal_process(handle, number)
            is_over = wait_s > 0 and has_ended(handle, wait_s)
            return None if is_over else owner
        except ProcessLookupError:
            return None
        finally:
            os.close(handle)

    def hand_over(self, session: str) -> None:
        """Leaves a session to the daemon: it goes on with its turn once."""
        make_folder(self._handed)
        write_private(self._handed / session, b"")

    def handed_over(self, interrupted: Collection[str]) -> frozenset[str]:
        """The sessions that were left to the daemon and are not taken yet; of those that are not interrupted
        there is nothing to go on with."""
        make_folder(self._handed)
        left = frozenset(path.name for path in self._handed.iterdir())
        for session in left.difference(interrupted):
            self.take_over(session)
        return left.intersection(interrupted)

    def take_over(self, session: str) -> None:
        """It is no longer left to the daemon."""
        (self._handed / session).unlink(missing_ok=True)

    def wake(self) -> bool:
        """Makes the daemon look at once; False when none runs."""
        return self.signal(signal.SIGHUP) is not None

    def write_log(self, line: str) -> None:
        """Adds a line. A full log moves aside and begins again; the one before it is forgotten."""
        time = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        if self.log.exists() and self.log.stat().st_size > _LOG_BYTES:
            # It is emptied in place: processes that we started have it open as their error output.
            shutil.copyfile(self.log, self.log.with_suffix(".log.1"))
            os.truncate(self.log, 0)
        make_file(self.log)
        with self.log.open("a", encoding="utf-8") as file:
            file.write(f"{time} {line}\n")


def is_run_by(owner: Owner, pid: int) -> bool:
    """Whether the owner of a journal is this process of this machine, and lives."""
    return owner.is_alive and owner.pid == pid and owner.host == host_name()


def has_ended(handle: int, wait_s: float = 0.0) -> bool:
    """Whether the process of a pidfd is over, within so many seconds."""
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(wait_s * 1000))
