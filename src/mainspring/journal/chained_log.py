"""A log of its own beside the sessions, to which many processes append: a line each, in one hash chain.

`head` is kept beside the lines and says how far the log went, so that lines that are gone are missed. Who
appends after such a loss goes on from the head: the gap stays visible. A line that a crash left half-written
was never acknowledged, and is cut off by the next append.
"""

import asyncio
import errno
import os
import stat
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from mainspring.disk.files import closing_descriptor, locked, write_private
from mainspring.errors import JournalError, JournalUnwritable
from mainspring.events.decoding import DECODE_ERRORS
from mainspring.journal.anchor import Anchor
from mainspring.journal.daily import anchors_in, append_line, today
from mainspring.journal.hashchain import GENESIS, chain

_KIND = "log"
_TAIL = 64 * 1024
_PAGE = 500


class LogLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line. `hash` covers the hash before it, its number, its time and its body, byte for byte."""

    seq: int
    time_us: int
    hash: str
    body: msgspec.Raw


class LogHead(msgspec.Struct, frozen=True):
    """The number and hash of the newest line; before the first one 0 and zeros."""

    seq: int = 0
    hash: str = GENESIS.hex()


class ChainedLog(Protocol):
    async def add(self, bodies: Sequence[bytes]) -> list[LogLine]:
        """Adds a line for each body, durable on return, nothing between them."""
        ...

    def read(self, after: int = 0) -> AsyncGenerator[LogLine | None]:
        """The lines with a number above `after`, as they lie there; None for one that is no line."""
        ...

    async def head(self) -> LogHead:
        """How far the log went, as it is kept beside the lines."""
        ...

    async def drop(self, until: int) -> int:
        """Takes away the lines up to this number; gives how many there were."""
        ...


def next_lines(before: LogHead, bodies: Sequence[bytes]) -> list[LogLine]:
    """The lines that come after another."""
    lines = list[LogLine]()
    now_us = time.time_ns() // 1000
    for body in bodies:
        hash_ = chain(bytes.fromhex(before.hash), before.seq + 1, now_us, _KIND, body).hex()
        lines.append(LogLine(seq=before.seq + 1, time_us=now_us, hash=hash_, body=msgspec.Raw(body)))
        before = LogHead(before.seq + 1, hash_)
    return lines


def is_next(before: str, line: LogLine) -> bool:
    """Whether a line is what was added after the hash before it."""
    try:
        return (
            chain(bytes.fromhex(before), line.seq, line.time_us, _KIND, bytes(line.body)).hex() == line.hash
        )
    except ValueError:
        return False


def keep_head(path: Path, name: str, head: LogHead) -> None:
    """Adds a line about a log to the daily lines about sessions, which are kept elsewhere."""
    append_line(path, today(), name, Anchor(events=head.seq, head=head.hash))


def kept_heads(path: Path, name: str) -> list[LogHead]:
    """What the daily lines say about a log."""
    return [LogHead(each.events, each.head) for each in anchors_in(path, name)] if path.exists() else []


class ChainedLogFile:
    """A log in a folder of this machine: `log.jsonl`, and `head.json` beside it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "log.jsonl"
        self._head = folder / "head.json"

    async def add(self, bodies: Sequence[bytes]) -> list[LogLine]:
        return await asyncio.to_thread(self._append, bodies)

    async def read(self, after: int = 0) -> AsyncGenerator[LogLine | None]:
        lines = self._lines()
        while page := await asyncio.to_thread(_page, lines):
            for line in page:
                if line is None or line.seq > after:
                    yield line

    async def head(self) -> LogHead:
        return self._kept_head()

    async def drop(self, until: int) -> int:
        return await asyncio.to_thread(self._drop, until)

    def _append(self, bodies: Sequence[bytes]) -> list[LogLine]:
        try:
            with locked(self._path):
                with closing_descriptor(self._opened(os.O_RDWR | os.O_APPEND | os.O_CREAT)) as file:
                    lines = next_lines(_newer(_tail(file), self._kept_head()), bodies)
                    _write(file, b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
                    os.fsync(file)
                head = msgspec.json.encode(LogHead(lines[-1].seq, lines[-1].hash))
                write_private(self._head, head, is_synced=False)
        except OSError as error:
            raise JournalUnwritable(
                f"The log {self._path} cannot be written ({error.strerror}).",
                remedy="Free some space, or make the data folder writable.",
            ) from error
        return lines

    def _kept_head(self) -> LogHead:
        try:
            return msgspec.json.decode(self._head.read_bytes(), type=LogHead)
        except (OSError, msgspec.MsgspecError):  # verifying says that it is gone or no head
            return LogHead()

    def _opened(self, flags: int) -> int:
        file = os.open(self._path, flags | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise OSError(errno.EINVAL, "it is no file")
        return file

    def _lines(self) -> Iterator[LogLine | None]:
        try:
            with os.fdopen(self._opened(os.O_RDONLY), "rb") as file:
                for line in file:
                    if line.endswith(b"\n"):
                        yield _line(line)
        except FileNotFoundError:
            return
        except OSError as error:
            raise JournalError(
                f"The log {self._path} cannot be read ({error.strerror}).", remedy="Check its permissions."
            ) from error

    def _drop(self, until: int) -> int:
        with locked(self._path):
            kept = list[bytes]()
            dropped = 0
            for data in self._path.read_bytes().splitlines(keepends=True):
                line = _line(data)
                is_old = line is not None and line.seq <= until
                dropped += is_old
                kept.extend(() if is_old else (data,))
            write_private(self._path, b"".join(kept))
            return dropped


def _write(file: int, data: bytes) -> None:
    """Adds all of it, or, when the disk is full, nothing."""
    size, left = os.fstat(file).st_size, data
    try:
        while left:
            left = left[os.write(file, left) :]
    except OSError:
        os.ftruncate(file, size)
        raise


def _page(lines: Iterator[LogLine | None]) -> list[LogLine | None]:
    return [line for _, line in zip(range(_PAGE), lines, strict=False)]


def _line(data: bytes) -> LogLine | None:
    try:
        return msgspec.json.decode(data, type=LogLine)
    except DECODE_ERRORS:
        return None


def _newer(tail: LogLine | None, head: LogHead) -> LogHead:
    """What the next line comes after: the last line, unless the head says that more was there."""
    return LogHead(tail.seq, tail.hash) if tail is not None and tail.seq >= head.seq else head


def _tail(file: int) -> LogLine | None:
    """The last line; what a crash left behind it is cut off."""
    size = os.fstat(file).st_size
    wanted = _TAIL
    while size:
        start = max(0, size - wanted)
        data = os.pread(file, size - start, start)
        end = data.rfind(b"\n")
        begin = data.rfind(b"\n", 0, max(end, 0)) if end >= 0 else -1
        if end >= 0 and (begin >= 0 or start == 0):
            if start + end + 1 < size:
                os.ftruncate(file, start + end + 1)
            return _line(data[begin + 1 : end])
        if start == 0:
            os.ftruncate(file, 0)
            return None
        wanted *= 4
    return None
