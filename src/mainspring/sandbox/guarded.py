"""One command under guard, seen from the event loop: its output, its end, what its guard says.

Everything is driven by readable descriptors; nothing polls and no thread waits.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from mainspring.sandbox import Command, OnOutput
from mainspring.sandbox.output import HeadAndTail

READ_SIZE = 256 * 1024
LAST_READS = 8
SCREEN = re.compile(rb"\x1b\[\?(?:1049|1047|47)h|Input is not from a terminal")
"""What a program writes that takes a whole screen for itself: it then waits for keys that never come."""
SCREEN_WITHIN = 64 * 1024
SCREEN_GRACE_S = 3.0
"""How long such a program may be silent before it counts as waiting."""


class GuardReport(msgspec.Struct, frozen=True):
    """What a guard said of its command; `failed` is a stage and an errno."""

    exited: int = 0
    cpu_s: float = 0.0
    max_rss: int = 0
    left: tuple[int, ...] = ()
    failed: tuple[str, int] | None = None
    crashed: str = ""
    limit: str = ""


class GuardedCommand:
    """One command under guard, seen from the event loop."""

    def __init__(self, control: socket.socket, streams: Sequence[int], command: Command) -> None:
        self._loop = asyncio.get_running_loop()
        self._control = control
        self._kept = {fd: HeadAndTail(command.max_output_bytes) for fd in streams}
        self._order = tuple(streams)
        self._open = set(streams)
        self._output_limit = command.limits.output_bytes
        self._total = 0
        self._is_collecting = True
        self._screen: asyncio.TimerHandle | None = None
        self.on_output: OnOutput | None = None
        self.limit = ""
        self.outlives = False
        self.exited: asyncio.Future[GuardReport] = self._loop.create_future()
        self.gone: asyncio.Future[None] = self._loop.create_future()
        # The loop would describe a socket at length, only to find that it does not know it yet.
        self._loop.add_reader(control.fileno(), self._hear)
        for fd in streams:
            os.set_blocking(fd, False)
            self._loop.add_reader(fd, self._read, fd)

    def end(self) -> None:
        """Asks the guard to end the tree; `gone` tells when that is done."""
        with suppress(OSError):
            self._control.send(b"end")

    def finish_output(self) -> tuple[HeadAndTail, ...]:
        """What has been written so far; later output is read and dropped, so that a writer never blocks."""
        for fd in tuple(self._open):
            for _ in range(LAST_READS):
                if not self._read(fd):
                    break
        self._is_collecting = False
        self._let_be()
        self.on_output = None
        return tuple(self._kept[fd] for fd in self._order)

    def abandon(self) -> None:
        """Lets go of everything; the guard ends the tree when the socket closes."""
        self._let_be()
        if self._control.fileno() >= 0:
            self._loop.remove_reader(self._control.fileno())
            self._control.close()
        for fd in tuple(self._open):
            self._close(fd)
        if not self.gone.done():
            self.gone.set_result(None)

    def _read(self, fd: int) -> bool:
        try:
            data = os.read(fd, READ_SIZE)
        except BlockingIOError:
            return False
        if not data:
            self._close(fd)
            return False
        if self._is_collecting:
            self._kept[fd].feed(data)
            if self.on_output is not None:
                self.on_output(data)
        if self._screen or (self._total < SCREEN_WITHIN and SCREEN.search(data)):
            self._let_be()
            self._screen = self._loop.call_later(SCREEN_GRACE_S, self._pass, "terminal")
        self._total += len(data)
        if self._output_limit and self._total > self._output_limit and not self.limit:
            self._pass("output")
        return True

    def _pass(self, limit: str) -> None:
        """The command went too far and ends; what it wrote by then is its result."""
        if not self.exited.done():
            self.limit = limit
            self.end()

    def _let_be(self) -> None:
        if self._screen is not None:
            self._screen.cancel()

    def _hear(self) -> None:
        try:
            packet = self._control.recv(1 << 20)
        except (BlockingIOError, ConnectionResetError):
            # A reset is told once, before the packets that are still queued.
            return
        if not packet:
            self._loop.remove_reader(self._control.fileno())
            self._control.close()
            if not self.exited.done():
                self.exited.set_result(GuardReport(crashed="its guard was killed"))
            if not self.gone.done():
                self.gone.set_result(None)
            return
        report = msgspec.json.decode(packet, type=GuardReport)
        if report.limit:
            self.limit = report.limit
        elif not self.exited.done():
            self.exited.set_result(report)

    def _close(self, fd: int) -> None:
        self._loop.remove_reader(fd)
        self._open.discard(fd)
        os.close(fd)
