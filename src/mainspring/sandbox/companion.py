"""A process of our own that serves us: it gets one line, answers with one, and never outlives us.

It holds the other end of a pipe that only we hold, so that it ends when we do, however we end. What it prints
besides goes to a file that has no name, for the day on which it does not start.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import IO

from mainspring.errors import SandboxError

_TOLD_BYTES = 2000
_MAX_LINE = 256 * 1024 * 1024


class Companion:
    """One such process, after it answered."""

    def __init__(self, process: asyncio.subprocess.Process, log: IO[bytes], answer: bytes) -> None:
        self._process = process
        self._log = log
        self.answer = answer

    @property
    def is_alive(self) -> bool:
        return self._process.returncode is None

    @property
    def pid(self) -> int:
        return self._process.pid

    def log_tail(self) -> str:
        """The end of what it printed."""
        return _tail(self._log)

    async def close(self) -> None:
        await _end(self._process)
        self._log.close()


async def start_companion(
    module: str, line: bytes, *, environment: Mapping[str, str], timeout_s: float
) -> Companion:
    """Starts one of our modules as a program, in an environment of its own. `SandboxError` when it ends or
    the time is over before it answered."""
    log = import_module("tempfile").TemporaryFile()
    process: asyncio.subprocess.Process | None = None
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-m",
            module,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            env=dict(environment),
            start_new_session=True,
        )
        async with asyncio.timeout(timeout_s):
            answer = await _exchange(process, line)
        if not answer.endswith(b"\n"):
            raise SandboxError(f"{module} ended before it answered: {_tail(log)}")
        return Companion(process, log, answer)
    except BaseException as error:
        if process is not None:
            await _end(process)
        log.close()
        if isinstance(error, TimeoutError):
            raise SandboxError(f"{module} did not answer within {timeout_s:g} s.") from error
        raise


async def open_companion(module: str, *, environment: Mapping[str, str]) -> tuple[Companion, CompanionLink]:
    """Starts one of our modules as a program with which we go on talking: its standard input is one socket,
    its only argument the number of another, over which descriptors are handed."""
    log = import_module("tempfile").TemporaryFile()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    our_side, their_side = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        with theirs, their_side:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-I",
                "-m",
                module,
                str(their_side.fileno()),
                stdin=theirs.fileno(),
                stdout=log,
                stderr=log,
                env=dict(environment),
                pass_fds=[their_side.fileno()],
                start_new_session=True,
            )
    except BaseException as error:
        for each in (ours, our_side, log):
            each.close()
        if isinstance(error, OSError):
            raise SandboxError(f"{module} cannot be started: {error.strerror}.") from error
        raise
    reader, writer = await asyncio.open_connection(sock=ours, limit=_MAX_LINE)
    return Companion(process, log, b""), CompanionLink(reader, writer, our_side)


class CompanionLink:
    """Our ends of the two sockets: lines both ways, and descriptors to the companion."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, descriptors: socket.socket
    ) -> None:
        self.reader = reader
        self._writer = writer
        self._descriptors = descriptors

    async def send(self, line: bytes, descriptors: Sequence[int] = ()) -> None:
        """Sends a line, and before it descriptors, which stay the caller's. Raises `ConnectionError` when
        the companion is gone."""
        if descriptors:
            socket.send_fds(self._descriptors, [b"d"], list(descriptors))
        self._writer.write(line + b"\n")
        await self._writer.drain()

    def close(self) -> None:
        self._descriptors.close()
        self._writer.close()


async def _exchange(process: asyncio.subprocess.Process, line: bytes) -> bytes:
    asked, answered = process.stdin, process.stdout
    if asked is None or answered is None:
        raise AssertionError("both were asked for as pipes")
    try:
        asked.write(line + b"\n")
        await asked.drain()
    except (BrokenPipeError, ConnectionResetError):
        # It ended at once; that it gives no answer says so.
        pass
    return await answered.readline()


async def _end(process: asyncio.subprocess.Process) -> None:
    """It keeps nothing that a gentler end would save."""
    if process.returncode is None:
        process.kill()
    await process.communicate()  # which also closes its pipes


def _tail(log: IO[bytes]) -> str:
    size = os.fstat(log.fileno()).st_size
    end = os.pread(log.fileno(), _TOLD_BYTES, max(0, size - _TOLD_BYTES))
    return end.decode("utf-8", "replace").strip()
