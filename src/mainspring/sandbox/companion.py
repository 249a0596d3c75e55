"""A process of our own that serves us: it gets one line, answers with one, and never outlives us.

It holds the other end of a pipe that only we hold, so that it ends when we do, however we end. What it prints
besides goes to a file that has no name, for the day on which it does not start.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Mapping
from typing import IO

from mainspring.errors import SandboxError

_TOLD_BYTES = 2000


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
    log = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
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
