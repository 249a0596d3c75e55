"""What a command is given to read and what it prints, for a caller who follows it line by line.

The caller owns every descriptor. A reader that is slow slows the command down; a line that is too long is
cut, so neither fills our memory.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import msgspec

from mainspring.disk.files import closing_descriptor

PIECE = 64 * 1024
MAX_LINE = 1024 * 1024


class Line(msgspec.Struct, frozen=True):
    """One line without its end; `is_cut` says that it was longer than is kept."""

    data: bytes
    is_cut: bool = False


class Printed:
    """The lines that come out of a pipe; `theirs` is the end that a command writes to."""

    def __init__(self, reader: asyncio.StreamReader, theirs: int) -> None:
        self._reader = reader
        self._last = secrets.token_hex(16).encode()
        self.theirs = theirs
        self.total_bytes = 0

    def let_go(self) -> None:
        """The lines end once nobody else holds the other end."""
        if self.theirs >= 0:
            os.close(self.theirs)
            self.theirs = -1

    async def end(self) -> None:
        """The lines end with what is written by now, whoever still holds the other end."""
        if self.theirs >= 0:
            await asyncio.to_thread(os.write, self.theirs, b"\n" + self._last + b"\n")
            self.let_go()

    async def lines(self) -> AsyncGenerator[Line]:
        empty = 0
        async for line in self._lines():
            if line.data == self._last:
                # The line break before it ended the last line, or made an empty one.
                empty = max(empty - 1, 0)
                break
            if not line.data:
                empty += 1
                continue
            for _ in range(empty):
                yield Line(b"")
            empty = 0
            yield line
        for _ in range(empty):
            yield Line(b"")

    async def _lines(self) -> AsyncGenerator[Line]:
        kept, is_cut = bytearray(), False
        while piece := await self._reader.read(PIECE):
            self.total_bytes += len(piece)
            *whole, rest = piece.split(b"\n")
            for part in whole:
                is_cut = _add(kept, part) or is_cut
                yield Line(bytes(kept), is_cut)
                kept.clear()
                is_cut = False
            is_cut = _add(kept, rest) or is_cut
        if kept:
            yield Line(bytes(kept), is_cut)


def _add(kept: bytearray, part: bytes) -> bool:
    room = MAX_LINE - len(kept)
    kept += part[:room]
    return len(part) > room


@asynccontextmanager
async def printed() -> AsyncGenerator[Printed]:
    """A pipe whose one end a command writes to."""
    async with reading() as (reader, theirs):
        found = Printed(reader, theirs)
        try:
            yield found
        finally:
            found.let_go()


@asynccontextmanager
async def reading() -> AsyncGenerator[tuple[asyncio.StreamReader, int]]:
    """A reader, and the descriptor at the other end of its pipe, which is the caller's to close."""
    ours, theirs = os.pipe2(os.O_CLOEXEC)
    loop, reader = asyncio.get_running_loop(), asyncio.StreamReader(limit=PIECE)
    file = os.fdopen(ours, "rb", 0)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
    try:
        yield reader, theirs
    finally:
        transport.close()


@asynccontextmanager
async def written(data: bytes) -> AsyncGenerator[int]:
    """A descriptor from which a text of any length can be read."""
    with closing_descriptor(os.memfd_create("input", os.MFD_CLOEXEC)) as fd:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        os.lseek(fd, 0, os.SEEK_SET)
        yield fd


@asynccontextmanager
async def conversation() -> AsyncGenerator[tuple[asyncio.StreamWriter, int]]:
    """A writer, and the descriptor at the other end of its pipe."""
    theirs, ours = os.pipe2(os.O_CLOEXEC)
    loop = asyncio.get_running_loop()
    file = os.fdopen(ours, "wb", 0)
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, file)
    try:
        yield asyncio.StreamWriter(transport, protocol, None, loop), theirs
    finally:
        transport.close()
        os.close(theirs)
