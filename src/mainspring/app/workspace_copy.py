"""A copy of a workspace on another machine, kept in step under the policy of file tools: what changed here
goes there, and what changed there comes back. Where a file changed on both sides, that of this side stays,
and goes there next time.
"""

from __future__ import annotations

import io
import os
import stat
import tarfile
from collections.abc import Iterable
from pathlib import Path

import msgspec

from mainspring.app.job_files import unpack
from mainspring.errors import PathRefused, UsageError
from mainspring.events.counts import readable_bytes
from mainspring.jobs.machines import FoundThere
from mainspring.sandbox.files import Files, Version

MAX_FILE = 64 * 1024 * 1024
MAX_BYTES = 2 * 1024 * 1024 * 1024
MAX_FILES = 20_000
_NAMES = 10


class Sent(msgspec.Struct, frozen=True):
    """What an archive brings there, and takes away there."""

    files: dict[str, Version]
    gone: frozenset[str]

    @property
    def is_empty(self) -> bool:
        return not (self.files or self.gone)


class WorkspaceCopy:
    def __init__(self, files: Files, leave_out: Iterable[str]) -> None:
        self._files = files
        self._leave_out = frozenset((".git", *leave_out))
        self._here: dict[str, Version] = {}
        self._there: dict[str, str] = {}
        self._left: dict[str, str] = {}
        self._told: set[str] = set()

    def pack(self, target: Path) -> Sent:
        """Writes what changed here, and the names of what went, into an archive."""
        now = self._walk()
        files: dict[str, Version] = {}
        total = 0
        with tarfile.open(target, "w") as archive:
            gone = frozenset(self._here.keys() - now.keys())
            _add(archive, "gone", b"".join(os.fsencode(name) + b"\0" for name in sorted(gone)))
            folder = tarfile.TarInfo("files")
            folder.type, folder.mode = tarfile.DIRTYPE, 0o700
            archive.addfile(folder)
            for name in sorted(now):
                if now[name] == self._here.get(name):
                    continue
                try:
                    content = self._files.read(name, max_bytes=MAX_FILE)
                except (PathRefused, OSError) as error:
                    self._left[name] = str(error)
                    continue
                total += content.size
                if total > MAX_BYTES:
                    raise UsageError(
                        f"The workspace has more than {readable_bytes(MAX_BYTES)} to send.",
                        remedy="Name what need not travel in leave_out of [machines.NAME].",
                    )
                _add(archive, f"files/{name}", content.data, content.mode, content.version.mtime_ns / 1e9)
                files[name] = content.version
        return Sent(files, gone)

    def sent(self, sent: Sent, found: FoundThere) -> None:
        """It is there: from now on that is how things are on both sides."""
        for name, version in sent.files.items():
            self._here[name] = version
            self._there[name] = found.files.get(name, "")
        for name in sent.gone:
            self._here.pop(name, None)
            self._there.pop(name, None)

    def wanted(self, found: FoundThere) -> list[str]:
        """What is new there, or changed, and may travel."""
        self._left |= dict.fromkeys(found.others, "no regular file, or its name is no text")
        names: list[str] = []
        total = 0
        for name, stamp in found.files.items():
            if stamp == self._there.get(name):
                continue
            total += found.sizes[name]
            if found.sizes[name] > MAX_FILE or total > MAX_BYTES or len(names) >= MAX_FILES:
                self._left[name] = f"{readable_bytes(found.sizes[name])}, too much; it stays there"
                total -= found.sizes[name]
            else:
                names.append(name)
        return names

    def take(self, found: FoundThere, archive: Path) -> None:
        """Makes the files here as they are there, where nobody changed them here meanwhile."""
        for listed, data, mode in unpack(archive, (".",), self._left):
            if listed in found.files and self._may_change(listed):
                self._write(listed, data, mode)
            self._there[listed] = found.files.get(listed, "")
        for name in self._there.keys() - found.files.keys():
            if self._may_change(name):
                self._remove(name)
            del self._there[name]

    def told(self) -> list[str]:
        """What did not travel, each file once."""
        new = {name: why for name, why in self._left.items() if name not in self._told}
        self._told |= new.keys()
        self._left.clear()
        if not new:
            return []
        named = "; ".join(f"{name} ({why})" for name, why in list(new.items())[:_NAMES])
        more = f"; and {len(new) - _NAMES:,} more" if len(new) > _NAMES else ""
        return [f"(did not travel: {named}{more})"]

    def _may_change(self, name: str) -> bool:
        try:
            now = self._files.version(name)
        except (PathRefused, OSError) as error:
            self._left[name] = str(error)
            return False
        if now != self._here.get(name):
            self._left[name] = "changed here while the command ran; that of here stays"
            self._told.discard(name)
            return False
        return True

    def _write(self, name: str, data: bytes, mode: int) -> None:
        try:
            known = self._here.get(name)
            if known and known.size == len(data) and self._files.read(name).data == data:
                return
            self._here[name] = self._files.write(name, data, mode=mode)
        except (PathRefused, OSError) as error:
            self._left[name] = str(error)

    def _remove(self, name: str) -> None:
        try:
            if self._here.pop(name, None):
                self._files.remove(name)
        except (PathRefused, OSError) as error:
            self._left[name] = str(error)

    def _walk(self) -> dict[str, Version]:
        found: dict[str, Version] = {}
        waiting = ["."]
        while waiting:
            folder = waiting.pop()
            try:
                entries = self._files.entries(folder)
            except OSError:  # it went meanwhile
                continue
            for entry in entries:
                name = entry.name if folder == "." else f"{folder}/{entry.name}"
                if entry.name in self._leave_out:
                    continue
                if entry.is_dir and not entry.is_link:
                    waiting.append(name)
                elif version := self._sendable(name):
                    found[name] = version
        if len(found) > MAX_FILES:
            raise UsageError(
                f"The workspace has more than {MAX_FILES:,} files to send.",
                remedy="Name what need not travel in leave_out of [machines.NAME].",
            )
        return found

    def _sendable(self, name: str) -> Version | None:
        try:
            now = (self._files.policy.workspace / name).lstat()
        except OSError:  # it went meanwhile
            return None
        if not stat.S_ISREG(now.st_mode):
            self._left[name] = "a link, or no regular file"
        elif now.st_size > MAX_FILE:
            self._left[name] = f"{readable_bytes(now.st_size)}, too much"
        else:
            return Version(now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns)
        return None


def _add(archive: tarfile.TarFile, name: str, data: bytes, mode: int = 0o600, mtime_s: float = 0.0) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.mtime = len(data), mode & 0o777, mtime_s
    archive.addfile(entry, io.BytesIO(data))
