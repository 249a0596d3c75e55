"""What is on its way, one private file per session; any process changes it, under a lock."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from mainspring.disk.files import closing_descriptor, locked, make_file, make_folder, write_private
from mainspring.disk.formats import refuse_newer_json
from mainspring.events.decoding import DECODE_ERRORS
from mainspring.notify.plan import SessionNotices
from mainspring.system import try_lock

FOLDER = "notify"
_SHOWN = "shown"
_LOG = "notify.log"
_LOG_BYTES = 256 * 1024
_OLD_S = 7 * 24 * 3600


class Outbox:
    def __init__(self, home: Path) -> None:
        self.folder = home / FOLDER

    def known(self) -> Iterator[str]:
        """All sessions that somebody is told about."""
        with suppress(FileNotFoundError):
            for entry in os.scandir(self.folder):
                if entry.name.endswith(".json") and not entry.name.startswith("."):
                    yield entry.name.removesuffix(".json")

    def sessions(self) -> Iterator[str]:
        """Those with anything on its way; what has been idle for a week is forgotten."""
        for name in self.known():
            state = self.load(name)
            if state.messages:
                yield name
            elif not state.always and time.time() - self._file(name).stat().st_mtime > _OLD_S:
                for path in (self._file(name), self._file(name).with_suffix(".lock"), self._shown(name)):
                    path.unlink(missing_ok=True)

    def load(self, session: str) -> SessionNotices:
        file = self._file(session)
        try:
            data = file.read_bytes()
        except FileNotFoundError:
            return SessionNotices(session=session)
        refuse_newer_json(file, data, SessionNotices(session="").format_version)
        try:
            return msgspec.json.decode(data, type=SessionNotices)
        except DECODE_ERRORS:  # written whole, so somebody else changed it; nothing depends on it
            return SessionNotices(session=session)

    def change(self, session: str, change: Callable[[SessionNotices], SessionNotices]) -> SessionNotices:
        make_folder(self.folder)
        with locked(self._file(session)):
            before = self.load(session)
            after = change(before)
            if after != before or not self._file(session).exists():
                write_private(self._file(session), msgspec.json.encode(after))
            return after

    def show(self, session: str) -> None:
        """Notes that a person sees this session at a face now."""
        make_folder(self.folder / _SHOWN)
        make_file(self._shown(session))
        os.utime(self._shown(session))

    def shown_us(self, session: str) -> int:
        try:
            return self._shown(session).stat().st_mtime_ns // 1000
        except FileNotFoundError:
            return 0

    def note(self, line: str) -> None:
        """Adds a line to the log of what could not be sent."""
        path = self.folder / _LOG
        with suppress(OSError):  # a full disk
            make_file(path)
            if path.stat().st_size > _LOG_BYTES:
                path.replace(path.with_suffix(".old"))
                make_file(path)
            with path.open("a", encoding="utf-8") as file:
                file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime())} {line}\n")

    def problems(self, most: int = 5) -> list[str]:
        """The newest lines of that log."""
        with suppress(OSError):
            return (self.folder / _LOG).read_text("utf-8", "replace").splitlines()[-most:]
        return []

    @property
    def log(self) -> Path:
        make_folder(self.folder)
        return self.folder / _LOG

    @contextmanager
    def held(self) -> Generator[bool]:
        """Makes this the one process that sends what others left; False when there is one."""
        make_folder(self.folder)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        with closing_descriptor(os.open(self.folder / "courier.lock", flags, 0o600)) as lock:
            yield try_lock(lock)

    def _file(self, session: str) -> Path:
        return self.folder / f"{session}.json"

    def _shown(self, session: str) -> Path:
        return self.folder / _SHOWN / session
