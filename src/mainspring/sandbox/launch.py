"""Our side of custody: ask the warden for a guard, collect output, end on time-out or cancellation.

A command is finished when its guard says that it exited, not when its pipes close. What it leaves
running is remembered, and ended when its time is over or we close.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from mainspring.disk.files import make_folder
from mainspring.errors import SandboxError
from mainspring.sandbox import TIMED_OUT, Command, CommandResult, OnOutput
from mainspring.sandbox.background import Background
from mainspring.sandbox.custody.child import receive
from mainspring.sandbox.guarded import GuardedCommand, GuardReport
from mainspring.sandbox.limits import WATCHED_LIMITS, name_of, passed_by
from mainspring.sandbox.warden_client import WardenClient, broken

FIRST_EXTRA_FD = 100
END_WITHIN_S = 1.0


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """How a rung wants a command started.

    `extra` descriptors appear in the program as 100, 101 and so on, and are closed here once handed over.
    `joins` are namespaces that it enters first, or that guards attend; they stay open here.
    `is_wrapped` says that the program is a wrapper with a pid namespace, whose own processes are not the
    command's. `status`, read and closed here, tells what the wrapper says of its own success.
    """

    argv: tuple[str, ...]
    env: dict[str, str]
    cwd: str
    rlimits: Sequence[tuple[int, int]] = ()
    cgroups: Sequence[str] = ()
    drop: bool = False
    ruleset: int = -1
    seccomp: bytes = b""
    extra: Sequence[int] = ()
    joins: Sequence[int] = ()
    is_wrapped: bool = False
    status: int = -1


class Custody:
    """Runs launches to their end and remembers what they left running."""

    def __init__(self, warden: WardenClient | None = None) -> None:
        self._warden = warden or WardenClient()
        self._left: dict[GuardedCommand, asyncio.TimerHandle] = {}

    async def run(self, launch: Launch, command: Command, on_output: OnOutput | None = None) -> CommandResult:
        try:
            return await self._run(launch, command, on_output)
        finally:
            for fd in (launch.status, launch.ruleset):
                if fd >= 0:
                    os.close(fd)

    async def _run(self, launch: Launch, command: Command, on_output: OnOutput | None) -> CommandResult:
        started = time.monotonic()
        running = self._start(launch, command)
        running.on_output = on_output
        try:
            report, stopped = await self._outcome(running, command.timeout_s)
        except asyncio.CancelledError:
            running.end()
            await asyncio.wait({running.gone}, timeout=END_WITHIN_S)
            raise
        finally:
            if not running.exited.done() or running.exited.cancelled():
                running.abandon()
        if report.crashed or report.failed:
            running.abandon()
            return _not_started(report, command, time.monotonic() - started)
        kept = running.finish_output()
        if report.left and not stopped and command.is_whole:
            running.end()
            await asyncio.wait({running.gone}, timeout=END_WITHIN_S)
            running.abandon()
        elif report.left and not stopped:
            running.outlives = command.outlives
            remaining_s = max(0.0, started + command.timeout_s - time.monotonic())
            self._leave(running, remaining_s)
        else:
            running.abandon()
        if launch.status >= 0 and not stopped and not running.limit:
            _check_wrapper(launch.status, kept[-1].text())
        limit = running.limit or passed_by(command.limits, report.exited, report.max_rss)
        return CommandResult(
            exit_code=report.exited,
            stdout=b"" if command.stdout >= 0 else kept[0].text(),
            stderr=kept[-1].text(),
            duration_s=time.monotonic() - started,
            stopped=stopped or (limit and name_of(limit, command.limits)),
            left_running=report.left,
            dropped_bytes=sum(stream.dropped for stream in kept),
            cpu_s=report.cpu_s,
            max_rss_bytes=report.max_rss,
        )

    async def keep(
        self, launch: Launch | CommandResult, command: Command, folder: Path, *, is_terminal: bool
    ) -> Background:
        """Hands a command to a keeper; returns when it runs."""
        if isinstance(launch, CommandResult):
            raise SandboxError(launch.stderr.decode(errors="replace").strip())
        folder = await asyncio.to_thread(_made, folder)
        kept = {
            "keep": str(folder),
            "is_terminal": is_terminal,
            "life_s": command.timeout_s,
            "limit_names": {kind: name_of(kind, command.limits) for kind in WATCHED_LIMITS},
        }
        held = [fd for fd in (launch.ruleset, *launch.extra) if fd >= 0]
        # The keeper holds the reading end, so that a wrapper which tells its status does not die of it.
        status = [launch.status] if launch.status >= 0 else []
        try:
            fds = [*held, *launch.joins, *status]
            control = self._warden.ask({**_job(launch, command), **kept}, fds)
        finally:
            for fd in (*held, *status):
                os.close(fd)
        report = await _first_word(control)
        if report.crashed or report.failed:
            refusal = _not_started(report, command, 0.0)
            raise SandboxError(refusal.stderr.decode(errors="replace").strip())
        return Background(folder)

    async def loopback(self) -> tuple[int, ...]:
        """Makes a network of its own; the namespaces to join, none when that is not possible here."""
        control = self._warden.ask({"loopback": True}, [])
        return await asyncio.to_thread(_handed_over, control)

    async def attend(self, joins: tuple[int, ...]) -> bool:
        """Has guards wait in these namespaces, so that commands need not join them; whether they can."""
        report = await _first_word(self._warden.attend(joins))
        if report.crashed:
            self._warden.leave(joins)
        return not report.crashed

    def leave(self, joins: tuple[int, ...]) -> None:
        """Lets guards go that wait in namespaces, and must be told before these are closed."""
        self._warden.leave(joins)

    async def end_left(self) -> None:
        """Ends what commands left running."""
        await self._end(tuple(self._left))

    async def close(self) -> None:
        await self._end(tuple(running for running in self._left if not running.outlives))
        for running in tuple(self._left):
            self._forget(running)
        self._warden.close()

    async def _end(self, left: tuple[GuardedCommand, ...]) -> None:
        for running in left:
            running.end()
        if left:
            await asyncio.wait({running.gone for running in left}, timeout=END_WITHIN_S)
        for running in left:
            self._forget(running)

    def _start(self, launch: Launch, command: Command) -> GuardedCommand:
        ends: list[int] = []
        try:
            for _ in range(1 if command.stdout >= 0 else 2):
                ends += os.pipe2(os.O_CLOEXEC)
            output = command.stdout if command.stdout >= 0 else ends[1]
            before = [output, ends[-1], *(fd for fd in (launch.ruleset, *launch.extra) if fd >= 0)]
            behind = [command.stdin] if command.stdin >= 0 else []
            job, joins = _job(launch, command), tuple(launch.joins)
            control = self._warden.ask_inside(joins, {**job, "joins": 0}, before + behind)
            control = control or self._warden.ask(job, [*before, *joins, *behind])
        except OSError as error:
            for fd in ends:
                os.close(fd)
            raise broken("cannot open a pipe", error) from error
        except SandboxError:
            for fd in ends:
                os.close(fd)
            raise
        finally:
            for fd in launch.extra:
                os.close(fd)
        for fd in ends[1::2]:
            os.close(fd)
        return GuardedCommand(control, ends[::2], command)

    async def _outcome(self, running: GuardedCommand, timeout_s: float) -> tuple[GuardReport, str]:
        try:
            async with asyncio.timeout(timeout_s):
                return await asyncio.shield(running.exited), ""
        except TimeoutError:
            running.end()
        await asyncio.wait({running.exited}, timeout=END_WITHIN_S)
        # Only a process that the kernel itself holds (a dead network disk) is not dead by now.
        report = running.exited.result() if running.exited.done() else GuardReport(exited=128 + 9)
        return report, f"{TIMED_OUT} after {timeout_s:g} s"

    def _leave(self, running: GuardedCommand, remaining_s: float) -> None:
        loop = asyncio.get_running_loop()
        self._left[running] = loop.call_later(remaining_s, running.end)
        running.gone.add_done_callback(lambda _: self._forget(running))

    def _forget(self, running: GuardedCommand) -> None:
        if timer := self._left.pop(running, None):
            timer.cancel()
            running.abandon()


def _made(folder: Path) -> Path:
    make_folder(folder)
    return folder.resolve()


def _handed_over(control: socket.socket) -> tuple[int, ...]:
    with control:
        control.settimeout(END_WITHIN_S)
        try:
            return tuple(receive(control))
        except OSError:
            return ()


async def _first_word(control: socket.socket) -> GuardReport:
    with control:
        packet = await asyncio.get_running_loop().sock_recv(control, 1 << 16)
    return (
        msgspec.json.decode(packet, type=GuardReport)
        if packet
        else GuardReport(crashed="its keeper was killed")
    )


def _job(launch: Launch, command: Command) -> dict[str, Any]:
    return {
        "argv": launch.argv,
        "env": launch.env,
        "cwd": launch.cwd,
        "rlimits": launch.rlimits,
        "cgroups": launch.cgroups,
        "drop": launch.drop,
        "confine": launch.ruleset >= 0,
        "seccomp": launch.seccomp.hex(),
        "joins": len(launch.joins),
        "extra": [FIRST_EXTRA_FD + index for index in range(len(launch.extra))],
        "is_wrapped": launch.is_wrapped,
        "has_input": command.stdin >= 0,
        "max_output": command.max_output_bytes,
        "cpu_s": command.limits.cpu_s,
        "disk": str(command.cwd),
        "disk_reserve": command.limits.disk_reserve_bytes,
        "disk_bytes": command.limits.disk_bytes,
        "new_files": command.limits.new_files,
        "outlives": command.outlives,
    }


def _not_started(report: GuardReport, command: Command, duration_s: float) -> CommandResult:
    """A program that cannot be executed is the command's failure; anything else is ours."""
    if report.failed is None:
        raise SandboxError(f"Custody of `{command.argv[0]}` was lost: {report.crashed.strip()}.")
    stage, number = report.failed
    reason = os.strerror(number)
    if stage == "exec":
        return refused(command.argv[0], reason, 127 if number == 2 else 126, duration_s)
    if stage == "chdir":
        return refused(str(command.cwd), reason, 126, duration_s)
    raise SandboxError(f"The sandbox could not be set up ({stage}): {reason}.")


def _check_wrapper(status: int, stderr: bytes) -> None:
    """bubblewrap reports an exit code only of a program that it did start."""
    if b"exit-code" not in os.read(status, 4096):
        reason = stderr.decode(errors="replace").strip() or "the wrapper died"
        raise SandboxError(f"The sandbox could not be set up: {reason}.")


def refused(what: str, reason: str, exit_code: int, duration_s: float = 0.0) -> CommandResult:
    text = f"{what}: {reason}\n".encode(errors="surrogateescape")
    return CommandResult(exit_code=exit_code, stdout=b"", stderr=text, duration_s=duration_s)
