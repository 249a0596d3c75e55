"""A background command, known by its folder alone: it lives in its keeper's custody, not in ours.

After a crash and restart of ours, `Background(folder)` is the same command again, with its output and its
exit code. A process number that was given to somebody else meanwhile is recognised and never signalled.
"""

from __future__ import annotations

import asyncio
import base64
import errno
import os
import select
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import msgspec

from mainspring.disk.files import closing_descriptor
from mainspring.disk.formats import refuse_newer_json
from mainspring.errors import SandboxError
from mainspring.sandbox.custody import FOLDER_FORMAT
from mainspring.sandbox.custody.tree import stat
from mainspring.system import boot_clock, open_process

STOP_WITHIN_S = 2.0
ROOM_WITHIN_S = 2.0
PIECE = 2048


class Meta(msgspec.Struct, frozen=True):
    """Who the keeper is; `format_version` is that of everything in its folder, and of its orders."""

    keeper: int
    keeper_start: int
    pid: int
    pid_start: int
    boot: str
    started: float
    is_terminal: bool
    format_version: int = 1


class Exit(msgspec.Struct, frozen=True):
    exited: int
    left: tuple[int, ...]
    stopped: str
    ended: float
    cpu_s: float = 0.0


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """`lost` means that the keeper died without a word: the outcome is unknown.

    `left_running` are processes that outlive the command itself and are still in custody.
    """

    state: Literal["running", "exited", "lost"]
    pid: int
    started: float
    exit_code: int | None = None
    stopped: str = ""
    ended: float | None = None
    left_running: tuple[int, ...] = ()
    output_bytes: int = 0


class BackgroundOutput(msgspec.Struct, frozen=True):
    """A piece of output; ask for `next_offset` to go on. `skipped` bytes before it are no longer kept."""

    data: bytes
    next_offset: int
    skipped: int = 0


def _until_writable(fd: int) -> None:
    poller = select.poll()
    poller.register(fd, select.POLLOUT)
    poller.poll(ROOM_WITHIN_S * 1000)


class Background:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def status(self) -> Status:
        meta = self._meta()
        ended = self._exit()
        with self._keeper(meta) as keeper:
            is_kept = keeper is not None
        # It may have ended between the two looks.
        ended = ended or self._exit()
        state = "running" if is_kept else "lost"
        status = Status(state=state, pid=meta.pid, started=meta.started, output_bytes=self._size())
        if ended is None:
            return status
        return msgspec.structs.replace(
            status,
            state="exited",
            exit_code=ended.exited,
            stopped=ended.stopped,
            ended=ended.ended,
            left_running=ended.left if is_kept else (),
        )

    @property
    def keeper(self) -> int:
        """The process below which everything that the command started is found."""
        return self._meta().keeper

    def output(self, since: int = 0, max_bytes: int = 64 * 1024) -> BackgroundOutput:
        """What was written from a byte on; of very long output the middle is gone."""
        for offset, path in self._segments():
            try:
                end = offset + path.stat().st_size
                if end <= since:
                    continue
                start = max(since, offset)
                with path.open("rb") as file:
                    file.seek(start - offset)
                    data = file.read(max_bytes)
            except FileNotFoundError:
                # It was the oldest piece, and has just been dropped.
                continue
            return BackgroundOutput(data, start + len(data), start - since)
        return BackgroundOutput(b"", max(since, self._size()))

    def send(self, data: bytes) -> None:
        """Types into the command's input; without a terminal it goes down a pipe."""
        for start in range(0, len(data), PIECE):
            self._order({"input": base64.b64encode(data[start : start + PIECE]).decode()})

    def close_input(self) -> None:
        self._order({"eof": True})

    async def stop(self, reason: str = "stopped") -> Status:
        """Ends the command with all that it started."""
        if self.status().state == "running" or self.status().left_running:
            try:
                self._order({"stop": reason})
            except SandboxError:
                # It ended by itself in this moment.
                return self.status()
            await self._wait_for_keeper(STOP_WITHIN_S)
        return self.status()

    async def wait(self, timeout_s: float | None = None) -> Status:
        """Returns when nothing of the command is left, or the time is over."""
        await self._wait_for_keeper(timeout_s)
        return self.status()

    async def _wait_for_keeper(self, timeout_s: float | None) -> None:
        with self._keeper(self._meta()) as keeper:
            if keeper is None:
                return
            loop = asyncio.get_running_loop()
            ended: asyncio.Future[None] = loop.create_future()
            loop.add_reader(keeper, lambda: ended.done() or ended.set_result(None))
            try:
                await asyncio.wait({ended}, timeout=timeout_s)
            finally:
                loop.remove_reader(keeper)

    @contextmanager
    def _keeper(self, meta: Meta) -> Generator[int | None]:
        """A descriptor of the keeper while it lives; a later process of the same number is not it."""
        try:
            fd = open_process(meta.keeper)
        except OSError as error:
            if error.errno not in (errno.ESRCH, errno.ENOSYS):
                raise
            yield None
            return
        with closing_descriptor(fd):
            found = stat(meta.keeper)
            is_same_boot = boot_clock()[0] == meta.boot
            is_it = found is not None and found.start == meta.keeper_start and found.state not in "ZX"
            yield fd if is_it and is_same_boot else None

    def _order(self, order: dict[str, Any]) -> None:
        try:
            fd = os.open(self.folder / "control", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise SandboxError("This background command has ended.") from error
        try:
            # The keeper never waits for its command, so there is soon room.
            _until_writable(fd)
            # Below PIPE_BUF, so orders of several writers do not mix.
            os.write(fd, import_module("json").dumps(order).encode() + b"\n")
        except BlockingIOError as error:
            raise SandboxError("The command does not read its input.", remedy="Try again later.") from error
        finally:
            os.close(fd)

    def _meta(self) -> Meta:
        path = self.folder / "meta.json"
        try:
            data = path.read_bytes()
            refuse_newer_json(path, data, FOLDER_FORMAT)
            return msgspec.json.decode(data, type=Meta)
        except (OSError, msgspec.DecodeError) as error:
            raise SandboxError(f"There is no background command in {self.folder}.") from error

    def _exit(self) -> Exit | None:
        try:
            return msgspec.json.decode((self.folder / "exit.json").read_bytes(), type=Exit)
        except FileNotFoundError:
            return None

    def _segments(self) -> list[tuple[int, Path]]:
        found = [(int(path.suffix[1:]), path) for path in self.folder.glob("output.*")]
        return sorted(found)

    def _size(self) -> int:
        segments = self._segments()
        if not segments:
            return 0
        offset, path = segments[-1]
        return offset + path.stat().st_size
