"""The background processes of all sessions, also of those that nobody runs now.

They are found by their folders and asked through their keepers, so neither function needs to own
a journal; the session itself records the end when it next looks.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from mainspring.app.operations.sessions import journal_of
from mainspring.app.records import vault_of
from mainspring.app.stores import sessions_of
from mainspring.catalog import Sessions
from mainspring.errors import JournalError, SandboxError, UsageError
from mainspring.folds.processes import FOLDER, Processes, is_alive
from mainspring.goals.fold import load_goal
from mainspring.goals.left_running import booted_us, started_us, still_running
from mainspring.journal import events_in
from mainspring.sandbox.background import Background, Status
from mainspring.sandbox.custody.tree import command_line
from mainspring.sandbox.held import release
from mainspring.secrets.screen import plain
from mainspring.settings import Config

_HANDLE = re.compile(r"p[1-9][0-9]*")
_TAIL_BYTES = 32 * 1024
_KINDS = ("ProcessStarted", "ProcessEnded")


class LiveProcess(msgspec.Struct, frozen=True, kw_only=True):
    """A live background process. `state` is `running`, or `left` when only what it started still runs; what
    an outside engine left running for a goal has no handle and ends with the goal."""

    handle: str
    session: str
    pid: int
    started_us: int
    state: str
    stays: bool
    command: str


class StoppedProcess(msgspec.Struct, frozen=True, kw_only=True):
    """`set_aside` are protected paths that it had changed, and that were set aside or put back."""

    handle: str
    was_alive: bool
    exit_code: int | None
    set_aside: tuple[str, ...] = ()


class ProcessOutput(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of what a process wrote; ask from `next_offset` on for what follows."""

    handle: str
    text: str
    next_offset: int
    is_running: bool
    exit_code: int | None = None


async def list_processes(config: Config, session: str = "") -> list[LiveProcess]:
    """The live background processes of a session, or of all of them."""
    store = sessions_of(config)
    names = [await store.find(session)] if session else sorted(await store.names())
    rows = [row for name in names for row in await _rows(config, name, store.directory(name) / FOLDER)]
    since_us = booted_us()
    goals = {row.id for row in await store.rows() if row.goal and row.updated_us >= since_us}
    return rows + [row for name in names if name in goals for row in await _left_by_engines(store, name)]


async def _left_by_engines(store: Sessions, session: str) -> list[LiveProcess]:
    try:
        left = (await load_goal(store, session)).left
    except JournalError:
        return []
    return [
        LiveProcess(
            handle="",
            session=session,
            pid=pid,
            started_us=started_us(pid) or left[pid],
            state="left",
            stays=False,
            command=command_line(pid),
        )
        for pid in still_running(left)
    ]


async def stop_process(config: Config, session: str, handle: str) -> StoppedProcess:
    """Ends a background process with all that it started."""
    store = sessions_of(config)
    name = await store.find(session)
    background = _found(store, name, handle)
    was_alive = is_alive(background.status())
    status = await background.stop("stopped by a person")
    if is_alive(status):
        raise SandboxError(
            f"The process {handle} is still running.", remedy=f"Look again with `mainspring ps {name}`."
        )
    return StoppedProcess(
        handle=handle,
        was_alive=was_alive,
        exit_code=status.exit_code,
        set_aside=tuple(release(background.folder)),
    )


async def process_output(
    config: Config, session: str, handle: str, since: int | None = None
) -> ProcessOutput:
    """What a background process wrote from a byte on, or its end; secrets are hidden. Of one whose output is
    gone with its session's work, only that it has ended."""
    store = sessions_of(config)
    name = await store.find(session)
    is_kept = (store.directory(name) / FOLDER / handle).is_dir()
    if not is_kept and (known := (await _recorded(config, name)).get(handle)):
        code = known.ended.exit_code if known.ended else None
        return ProcessOutput(handle=handle, text="", next_offset=since or 0, is_running=False, exit_code=code)
    background = _found(store, name, handle)
    status = background.status()
    start = max(status.output_bytes - _TAIL_BYTES, 0) if since is None else since
    read = await asyncio.to_thread(background.output, start, _TAIL_BYTES)
    data, end = read.data, read.data.rfind(b"\n") + 1
    is_more = is_alive(status) or read.next_offset < status.output_bytes
    if is_more and end:  # whole lines: neither a letter nor a secret is torn
        data = data[:end]
    text = vault_of(store, name, config).redact(data.decode("utf-8", "replace"))
    return ProcessOutput(
        handle=handle,
        text=plain(text),
        next_offset=read.next_offset - len(read.data) + len(data),
        is_running=is_alive(status),
        exit_code=status.exit_code,
    )


def _found(store: Sessions, session: str, handle: str) -> Background:
    folder = store.directory(session) / FOLDER / handle
    if not _HANDLE.fullmatch(handle) or not folder.is_dir():
        raise UsageError(
            f"Session {session} has no background process {handle}.", remedy="`mainspring ps` lists them."
        )
    return Background(folder)


async def _rows(config: Config, session: str, folder: Path) -> list[LiveProcess]:
    live = list(_live(folder))
    known = await _recorded(config, session) if live else Processes()
    return [_row(session, background, status, known) for background, status in live]


def _row(session: str, background: Background, status: Status, known: Processes) -> LiveProcess:
    process = known.get(background.folder.name)
    return LiveProcess(
        handle=background.folder.name,
        session=session,
        pid=status.pid,
        started_us=int(status.started * 1e6),
        state="running" if status.state == "running" else "left",
        stays=process.started.is_staying if process else False,
        command=process.started.command if process else "",
    )


def _live(folder: Path) -> Iterator[tuple[Background, Status]]:
    found = [path for path in folder.iterdir() if _HANDLE.fullmatch(path.name)] if folder.is_dir() else []
    for path in sorted(found, key=lambda path: int(path.name[1:])):
        background = Background(path)
        try:
            status = background.status()
        except SandboxError:
            continue  # it never started: there is nothing that could live
        if is_alive(status):
            yield background, status


async def _recorded(config: Config, session: str) -> Processes:
    """What the journal says of them. When it cannot be read, they are listed without commands."""
    processes = Processes()
    try:
        async with journal_of(config, session) as reader:
            async for recorded in events_in(reader, kinds=_KINDS):
                processes.apply(recorded)
    except JournalError:
        pass
    return processes
