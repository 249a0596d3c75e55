"""Standard input and output as lines of a protocol, for as long as this process speaks it.

With `StandardLines`, standard output holds the protocol and nothing else: what prints goes to standard error
from then on. Reading and writing never hold up the event loop.
"""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Self

_CHUNK = 65_536
_MAX_LINE = 64 * 1024 * 1024


class LineTooLong(Exception):
    """A line has more bytes than any message may have; it was skipped."""


class InputLines:
    """Standard input. Lines are read as far as somebody wants them."""

    def __init__(self) -> None:
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue(maxsize=4)
        self._buffer = bytearray()
        self._is_skipping = False

    def start(self) -> None:
        """From here on it is read, in a thread: it may be a file, a pipe or a terminal."""
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._read_all, args=(loop,), daemon=True).start()

    async def read(self) -> bytes | None:
        """The next line without its end, or None after the last; raises `LineTooLong` for such a line."""
        while True:
            line, newline, rest = self._buffer.partition(b"\n")
            if newline:
                self._buffer = rest
                if self._is_skipping:
                    self._is_skipping = False
                    continue
                return bytes(line)
            if len(self._buffer) > _MAX_LINE:
                self._buffer.clear()
                if not self._is_skipping:
                    self._is_skipping = True
                    raise LineTooLong
            chunk = await self._chunks.get()
            if not chunk:
                last, self._buffer = bytes(self._buffer), bytearray()
                self._chunks.put_nowait(b"")
                return last if last and not self._is_skipping else None
            self._buffer += chunk

    def _read_all(self, loop: asyncio.AbstractEventLoop) -> None:
        chunk = b"-"
        while chunk:
            try:
                chunk = os.read(0, _CHUNK)
            except OSError:  # it is no longer there: the same as its end
                chunk = b""
            try:
                asyncio.run_coroutine_threadsafe(self._chunks.put(chunk), loop).result()
            except RuntimeError:  # the loop is over
                return


class StandardLines(InputLines):
    """Both of them; use `async with`, once in a process."""

    def __init__(self) -> None:
        super().__init__()
        self._output = -1
        self._writer = ThreadPoolExecutor(1, "lines")

    async def __aenter__(self) -> Self:
        self._output = os.dup(1)
        os.dup2(2, 1)
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.shutdown(wait=False, cancel_futures=True)

    async def write(self, line: bytes) -> None:
        """Writes a line; raises `ConnectionError` when nobody reads any more."""
        await asyncio.get_running_loop().run_in_executor(self._writer, self._write, line + b"\n")

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._output, view) :]
