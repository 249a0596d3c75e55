"""Where sessions lie on disk and how they are found: `<home>/sessions/<id>/journal.sqlite`.

A session's folder appears whole or not at all. Needs no event loop, so that listing and showing start fast.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

from mainspring.catalog.fold import SessionRow
from mainspring.catalog.prefixes import match_prefix
from mainspring.catalog.spent import SessionSpend
from mainspring.disk.files import folder_locked, make_folder, sync, write_private
from mainspring.disk.ids import new_id
from mainspring.disk.owner import check_system
from mainspring.disk.shared_files import NO_FILES, NamedFiles
from mainspring.errors import JournalUnwritable, UnknownSession, UsageError
from mainspring.journal import tables
from mainspring.journal.file import JournalFile
from mainspring.patterns import lazy_pattern

_INDEX = "mainspring.catalog.index"
_ID = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class SessionFiles:
    """The sessions under one home folder."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.folder = home / "sessions"

    def directory(self, session: str) -> Path:
        """The folder of a session that exists; `UnknownSession` otherwise."""
        directory = self.folder / valid_id(session)
        if not directory.is_dir():
            raise unknown(session)
        return directory

    def find(self, prefix: str) -> str:
        """The one session whose id begins with `prefix`."""
        valid_id(prefix)
        return prefix if (self.folder / prefix).is_dir() else match_prefix(prefix, self.names())

    def file(self, session: str) -> JournalFile:
        """The session's journal for reading; its caller closes it."""
        return JournalFile(self.directory(session) / tables.FILE_NAME, session)

    def names(self) -> list[str]:
        try:
            with os.scandir(self.folder) as entries:
                return [entry.name for entry in entries if _ID.fullmatch(entry.name) and entry.is_dir()]
        except FileNotFoundError:
            return []

    def newest_names(self) -> list[str]:
        """The names, that of the session whose files changed last first."""
        changed = ((_changed_ns(self.folder / name), name) for name in self.names())
        return [name for _, name in sorted(changed, reverse=True)]

    def sessions(self) -> list[SessionRow]:
        """Every session, the most recently changed first."""
        return import_module(_INDEX).list_sessions(self.home / "index.sqlite", self.folder, self.names())

    def spends(self) -> list[SessionSpend]:
        """What each session spent."""
        return import_module(_INDEX).list_spends(self.home / "index.sqlite", self.folder, self.names())

    def remove(self, session: str) -> None:
        """Deletes the folder of a session. It is gone from the list at once; what a crash leaves of it is
        found by `unfinished`."""
        doomed = self.folder / f".deleted-{new_id()}"
        try:
            self.directory(session).rename(doomed)
            sync(self.folder)
            import_module("shutil").rmtree(doomed)
        except OSError as error:
            raise JournalUnwritable(
                f"Session {session} cannot be deleted ({error.strerror}).",
                remedy="Check the permissions of the data folder.",
            ) from error

    @contextmanager
    def not_deleting(self, session: str) -> Generator[None]:
        """While sessions are copied in blocks like this, `deleting` waits, and the other way round. A block
        ends with its process."""
        with self._locked(session, is_shared=True):
            yield

    @contextmanager
    def deleting(self, session: str) -> Generator[None]:
        with self._locked(session, is_shared=False):
            yield

    @contextmanager
    def new(self, session: str | None = None, files: NamedFiles = NO_FILES) -> Generator[tuple[str, Path]]:
        """The id and the folder of a session in the making, with these files in it; it becomes visible when
        the block succeeds."""
        check_system()
        name = new_id() if session is None else valid_id(session)
        made = self.folder / f".new-{new_id()}"
        try:
            for folder in (self.home, self.folder):
                make_folder(folder)
            made.mkdir(mode=0o700)
        except OSError as error:
            raise _unmakeable(error) from error
        try:
            if (self.folder / name).exists():
                raise exists(name, f"Move {self.folder / name} away to import it again.")
            for each, content in files.items():
                write_private(made / each, content)
            yield name, made
            for path in (*made.iterdir(), made):
                sync(path)
            made.rename(self.folder / name)
            sync(self.folder)
            sync(self.home)
        except OSError as error:
            raise _unmakeable(error) from error
        finally:
            if made.exists():
                import_module("shutil").rmtree(made, ignore_errors=True)

    @contextmanager
    def _locked(self, session: str, *, is_shared: bool) -> Generator[None]:
        check_system()
        self.directory(session)
        with folder_locked(self.folder, is_shared=is_shared):
            yield


def unknown(session: str) -> UnknownSession:
    return UnknownSession(
        f"There is no session {session}.", remedy="`mainspring sessions` lists the sessions."
    )


def exists(session: str, remedy: str) -> UsageError:
    return UsageError(f"Session {session} exists already.", remedy=remedy)


def valid_id(session: str) -> str:
    if not _ID.fullmatch(session):
        raise UnknownSession(
            f"{session!r} cannot be the id of a session.",
            remedy="Ids have letters, digits, - and _; `mainspring sessions` lists them.",
        )
    return session


def _changed_ns(directory: Path) -> int:
    return max((entry.stat().st_mtime_ns for entry in directory.iterdir()), default=0)


def _unmakeable(error: OSError) -> JournalUnwritable:
    return JournalUnwritable(
        f"A new session cannot be created ({error.strerror}).",
        remedy="Check the disk space and the permissions of the data folder.",
    )
