"""A cache of file contents outside the workspace, so that they are safe before a command may destroy them.

Two append-only files in a folder that one process at a time holds: `contents` with the bytes, `log` with
which path had which content at which status. Both may be deleted at any time: what is read is checked by its
hash, and what is missing is kept again. A file whose content git already holds is only noted. Nothing is
synced: after a power cut the worst is a content that counts as not covered.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from mainspring.disk.files import closing_descriptor, make_folder
from mainspring.events.decoding import DECODE_ERRORS
from mainspring.system import try_lock
from mainspring.workspace.tree import TreeEntry

MEGABYTE = 1024 * 1024
MAX_BYTES = 1024 * MEGABYTE
_FORMAT = 1
_SLOTS = 8
_WASTE_BYTES = 64 * 1024 * 1024
_LENGTH_BYTES = 4
_FULL = "full"
"""A file that says that there was no room, for whoever frees some."""


class KeptContent(msgspec.Struct, frozen=True, array_like=True, tag="c", gc=False):
    """A content and where it lies: at an offset of `contents`, or as an object of git."""

    sha256: str
    size: int
    offset: int = -1
    object_id: str = ""


class SeenContent(msgspec.Struct, frozen=True, array_like=True, tag="s", gc=False):
    """A path as it was; None when it is gone."""

    path: str
    entry: TreeEntry | None = None


class Format(msgspec.Struct, frozen=True, array_like=True, tag="v", gc=False):
    """The version of a log, its first record; a log without one has version 1."""

    version: int


_ENCODE = msgspec.msgpack.Encoder().encode
_DECODE = msgspec.msgpack.Decoder(list[KeptContent | SeenContent | Format]).decode


class Contents:
    def __init__(self, folder: Path, *, max_bytes: int = MAX_BYTES) -> None:
        """`OSError` when the folder cannot be used."""
        self._folder, self._lock = _hold(folder)
        self._max_bytes = max_bytes
        self.is_full = False
        self._kept: dict[str, KeptContent] = {}
        self._unsaved: list[KeptContent | SeenContent] = []
        self._data = os.open(self._folder / "contents", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._size = os.fstat(self._data).st_size
        self._log = os.open(self._folder / "log", os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def load(self) -> dict[str, TreeEntry] | None:
        """What was known about paths when the last process left; None when nobody has looked yet."""
        seen: dict[str, TreeEntry] = {}
        records = 0
        for record in self._records():
            records += 1
            if isinstance(record, KeptContent):
                if record.offset + record.size <= self._size:
                    self._kept[record.sha256] = record
            elif record.entry is None:
                seen.pop(record.path, None)
            else:
                seen[record.path] = record.entry
        needed = {entry.content for entry in seen.values()}
        needed_bytes = sum(
            kept.size for key, kept in self._kept.items() if key in needed and kept.offset >= 0
        )
        if self._size - needed_bytes > max(_WASTE_BYTES, needed_bytes):
            self._start_over()
        if not self._size and not self._kept and not records:
            self.see("", None)
            return None
        return {path: self._certain(entry) for path, entry in seen.items()}

    def has(self, sha256: str) -> bool:
        return sha256 in self._kept

    def keep(self, sha256: str, data: bytes) -> str:
        """Keeps the bytes; gives why not when that is impossible."""
        if sha256 in self._kept:
            return ""
        if self._size + len(data) > self._max_bytes:
            self.is_full = True
            if len(data) <= self._max_bytes:
                (self._folder / _FULL).touch(mode=0o600)
            return f"the {self._max_bytes // MEGABYTE} MB for contents are used up"
        try:
            written = os.pwrite(self._data, data, self._size)
        except OSError as error:
            return f"it could not be kept: {error.strerror}"
        if written != len(data):
            return "it could not be kept: the disk is full"
        self._note(KeptContent(sha256, len(data), self._size))
        self._size += len(data)
        return ""

    def keep_object(self, sha256: str, size: int, object_id: str) -> None:
        """Notes that git holds the content."""
        if sha256 not in self._kept:
            self._note(KeptContent(sha256, size, -1, object_id))

    def see(self, path: str, entry: TreeEntry | None) -> None:
        self._unsaved.append(SeenContent(path, entry))

    def get(
        self, wanted: Iterable[str], from_git: Callable[[list[str]], Iterator[bytes | None]]
    ) -> Iterator[tuple[str, bytes]]:
        """The contents that are still there, one at a time."""
        objects: list[KeptContent] = []
        for sha256 in wanted:
            kept = self._kept.get(sha256)
            if kept is None:
                continue
            if kept.offset < 0:
                objects.append(kept)
                continue
            data = os.pread(self._data, kept.size, kept.offset)
            if hashlib.sha256(data).hexdigest() == sha256:
                yield sha256, data
        found = from_git([kept.object_id for kept in objects]) if objects else iter(())
        for kept, data in zip(objects, found, strict=False):
            if data is not None and hashlib.sha256(data).hexdigest() == kept.sha256:
                yield kept.sha256, data

    def save(self) -> None:
        """Writes down what was noted. Losing it costs time and, after a crash, knowledge; never a file."""
        if not self._unsaved:
            return
        is_new = os.fstat(self._log).st_size == 0
        body = _ENCODE([Format(_FORMAT), *self._unsaved] if is_new else self._unsaved)
        self._unsaved = []
        try:
            os.write(self._log, len(body).to_bytes(_LENGTH_BYTES, "big") + body)
        except OSError:
            os.ftruncate(self._log, 0)

    def close(self) -> None:
        self.save()
        os.close(self._data)
        os.close(self._log)
        os.close(self._lock)

    def _note(self, kept: KeptContent) -> None:
        self._kept[kept.sha256] = kept
        self._unsaved.append(kept)

    def _certain(self, entry: TreeEntry) -> TreeEntry:
        """The entry, marked to be read again when its content is lost."""
        if not entry.content or entry.content in self._kept:
            return entry
        return msgspec.structs.replace(entry, content="", reason="its content was lost", is_fresh=True)

    def _records(self) -> Iterator[KeptContent | SeenContent]:
        data = memoryview(_read_all(self._log))
        position = 0
        while position + _LENGTH_BYTES <= len(data):
            length = int.from_bytes(data[position : position + _LENGTH_BYTES], "big")
            position += _LENGTH_BYTES
            try:
                records = _DECODE(data[position : position + length])
            except DECODE_ERRORS:
                # The process died while it wrote this, or the file is damaged: what follows cannot be found.
                os.ftruncate(self._log, position - _LENGTH_BYTES)
                return
            if any(isinstance(record, Format) and record.version != _FORMAT for record in records[:1]):
                self._start_over()
                return
            yield from (record for record in records if not isinstance(record, Format))
            position += length

    def _start_over(self) -> None:
        self._kept = {}
        self._size = 0
        os.ftruncate(self._data, 0)
        os.ftruncate(self._log, 0)
        (self._folder / _FULL).unlink(missing_ok=True)


def was_full(place: Path) -> bool:
    """Whether a content was refused here that would fit if nothing else was kept."""
    return (place / _FULL).exists()


def is_in_use(place: Path) -> bool:
    """Whether a session looks after its workspace with this folder of contents now."""
    try:
        lock = os.open(place / "lock", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    with closing_descriptor(lock):
        return not try_lock(lock)


def _hold(folder: Path) -> tuple[Path, int]:
    """The first free folder of this name and a lock on it; two sessions in one workspace have one each."""
    for slot in range(_SLOTS):
        place = folder.with_name(f"{folder.name}-{slot}")
        make_folder(place)
        lock = os.open(place / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if try_lock(lock):
            return place, lock
        os.close(lock)
    raise OSError(0, f"{_SLOTS} sessions look after this workspace already")


def _read_all(fd: int) -> bytes:
    return os.pread(fd, os.fstat(fd).st_size, 0)
