"""Exactly one writer per session: an OS lock, and a record in it that says who holds it.

The lock ends with its process, so a journal is never locked for ever. A lock that outlived its owner (a child
process inherited it) is taken over when the record names a process of this machine that is gone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from mainspring import __version__, system
from mainspring.disk.files import closing_descriptor, folder_locked
from mainspring.errors import JournalOwned, JournalUnwritable
from mainspring.events.moments import date_of

LOCK_NAME = "owner.lock"


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """Who writes a session. `born` tells the process from a later one with the same pid; `scope` is the boot
    and the pid namespace in which the pid means something; `version` is that of its program, which 0.1.0 did
    not write down."""

    host: str
    pid: int
    born: int
    scope: str
    since_us: int
    is_alive: bool = True
    version: str = "0.1.0"

    @property
    def name(self) -> str:
        return f"process {self.pid} on {self.host}"

    @property
    def since(self) -> str:
        return date_of(self.since_us).strftime("%Y-%m-%d %H:%M:%S UTC")

    @property
    def other_version(self) -> str:
        """What to tell a person when the process runs another version of this program; empty when not."""
        if self.version == __version__:
            return ""
        return f"Process {self.pid} on {self.host} runs mainspring {self.version}; this is {__version__}."


class Ownership:
    """The right to write one session's journal, held until `release`."""

    def __init__(self, lock: int, owner: Owner) -> None:
        self.owner = owner
        self._lock: int | None = lock

    @property
    def is_held(self) -> bool:
        """Whether nobody took the session over: who does so puts another file in the place of the lock."""
        return self._lock is not None and os.fstat(self._lock).st_nlink > 0

    def release(self) -> None:
        if self._lock is not None:
            lock, self._lock = self._lock, None
            os.ftruncate(lock, 0)
            os.close(lock)


def own(directory: Path, session: str) -> Ownership:
    """Takes the session for this process; `JournalOwned` names the process that has it."""
    check_system()
    try:
        with folder_locked(directory):  # so nobody sees a lock without its record
            return _own(directory, session)
    except OSError as error:
        raise JournalUnwritable(
            f"Session {session} cannot be locked for writing ({error.strerror}).",
            remedy="Check the disk space and the permissions of its folder.",
        ) from error


@contextmanager
def owned(directory: Path, session: str) -> Generator[None]:
    """Has the session for this process until the end of a block."""
    ownership = own(directory, session)
    try:
        yield
    finally:
        ownership.release()


def check_system() -> None:
    """Refuses to write sessions where nothing keeps a second writer out."""
    here = system.this_system()
    if not here.has_locks:
        raise JournalUnwritable(here.limits, remedy=here.remedy)


def owner_of(directory: Path) -> Owner | None:
    """Who writes this session, or who did when it crashed; None after it was closed properly."""
    path = directory / LOCK_NAME
    owner = _record(path)
    if owner is None:
        return None
    is_alive = _is_running(owner) if _can_look_up(owner) else _is_locked(directory)
    return msgspec.structs.replace(owner, is_alive=is_alive)


def _own(directory: Path, session: str) -> Ownership:
    path = directory / LOCK_NAME
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not system.try_lock(lock):
            owner = _record(path)
            is_given_up = os.fstat(lock).st_size == 0  # its owner is about to close it
            if not is_given_up and (owner is None or not _can_look_up(owner) or _is_running(owner)):
                raise refusal(session, owner)
            # Else it belongs to a leftover child of a dead owner: leave it that file, and lock a new one.
            os.close(lock)
            path.unlink()
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            system.lock(lock)
        mine = this_process()
        os.ftruncate(lock, 0)
        os.pwrite(lock, msgspec.json.encode(mine), 0)
    except BaseException:
        os.close(lock)
        raise
    return Ownership(lock, mine)


def _is_locked(directory: Path) -> bool:
    if not system.this_system().has_locks:
        return False  # nothing writes sessions there: a record came with a copied folder
    with (
        folder_locked(directory),
        closing_descriptor(os.open(directory / LOCK_NAME, os.O_RDONLY | os.O_CLOEXEC)) as lock,
    ):
        return not system.try_lock(lock, is_shared=True)


def _record(path: Path) -> Owner | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Owner)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def this_process() -> Owner:
    pid = os.getpid()
    return Owner(
        host=system.host_name(),
        pid=pid,
        born=_born(pid) or 0,
        scope=_scope(),
        since_us=time.time_ns() // 1000,
        version=__version__,
    )


def is_gone(owner: Owner) -> bool:
    """Whether the process of an owner is known to have ended: it was one of this machine."""
    return _can_look_up(owner) and not _is_running(owner)


def _can_look_up(owner: Owner) -> bool:
    return bool(owner.scope) and owner.scope == _scope()


def _is_running(owner: Owner) -> bool:
    return _born(owner.pid) == owner.born


def _born(pid: int) -> int | None:
    """When the process started, in clock ticks since boot; None when there is none, or only its remains."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, born = fields[0], fields[19]
    return None if state in "ZX" else int(born)


def _scope() -> str:
    """Empty on a system without /proc, where only the lock tells whether an owner lives."""
    try:
        return "/".join(system.pid_scope())
    except FileNotFoundError:
        return ""


def refusal(session: str, owner: Owner | None) -> JournalOwned:
    if owner is None:
        return JournalOwned(
            f"Another process is writing session {session}.", remedy="Stop it, or wait for it to end."
        )
    return JournalOwned(
        f"Session {session} is being written by {owner.name}, since {owner.since}."
        f" {owner.other_version}".rstrip(),
        remedy=f"Tell it something with `mainspring say {session}`, end its turn with"
        f" `mainspring stop {session}`, or wait for that process to end.",
    )
