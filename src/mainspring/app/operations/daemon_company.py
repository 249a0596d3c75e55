"""What the daemon keeps beside its goals: the server of this machine, when that is wanted, the indexes of
repositories, and the sending of what people are to be told, also what processes that were killed had recorded
and not told."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from importlib import import_module
from urllib.parse import urlsplit

from mainspring.app.operations.daemon_index import keep_indexes
from mainspring.app.operations.daemon_telemetry import keep_telemetry
from mainspring.app.operations.devices import Access
from mainspring.daemon.files import DaemonFiles, has_ended
from mainspring.errors import MainspringError
from mainspring.notify.outbox import Outbox
from mainspring.sandbox.detached import start_detached
from mainspring.settings import Config, load_config
from mainspring.system import open_process

_LOOK_S = 5.0
_ADDRESS_LOOK_S = 0.1
_FIRST_PAUSE_S, _MAX_PAUSE_S = 1.0, 60.0
_STEADY_S = 60.0
_DELIVER_S, _PLAN_S = 30.0, 300.0


@asynccontextmanager
async def company_of_daemon(
    config: Config, web_port: int | None, say: Callable[[str], None]
) -> AsyncGenerator[None]:
    """For as long as the block runs. With a `web_port` the server runs there, unless there is one already."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_deliver(config, say))]
        if config.settings.work.index != "off":
            tasks.append(group.create_task(keep_indexes(config, say, _exit_code)))
        tasks.append(group.create_task(keep_telemetry(config, say)))
        if web_port is not None:
            tasks.append(group.create_task(_keep_web(config, web_port, say)))
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()


async def _keep_web(config: Config, port: int, say: Callable[[str], None]) -> None:
    """Starts the server, and again when it has ended: soon, and ever more seldom while it does not last."""
    loop, access, pause_s = asyncio.get_running_loop(), Access(config), _FIRST_PAUSE_S
    while True:
        if access.address:  # of somebody else, or of a daemon that was killed
            await asyncio.sleep(_LOOK_S)
            continue
        began_s = loop.time()
        log = DaemonFiles(config.home).log
        pid = start_detached(["serve", "--port", str(port)], environment=config.environment, log=log)
        try:
            port = port or await _port_of(access, pid)
            code = await _exit_code(pid)
        except asyncio.CancelledError:
            with suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, signal.SIGTERM)
                _reaped(pid)
            raise
        pause_s = _FIRST_PAUSE_S if loop.time() - began_s > _STEADY_S else min(pause_s * 2, _MAX_PAUSE_S)
        say(f"the web server has ended (exit code {code}); it is started again in {pause_s:g} s")
        await asyncio.sleep(pause_s)


async def _port_of(access: Access, pid: int) -> int:
    """The port that the server found for itself, so that it keeps its address; 0 when it ended before."""
    handle = open_process(pid)
    try:
        while not (address := access.address):
            if has_ended(handle):
                return 0
            await asyncio.sleep(_ADDRESS_LOOK_S)
        return urlsplit(address).port or 0
    finally:
        os.close(handle)


async def _exit_code(pid: int) -> int:
    loop, ended, handle = asyncio.get_running_loop(), asyncio.Event(), open_process(pid)
    loop.add_reader(handle, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(handle)
        os.close(handle)
    return _reaped(pid)


def _reaped(pid: int) -> int:
    """The exit code of a child that has ended, or is about to."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


async def _deliver(config: Config, say: Callable[[str], None]) -> None:
    """Sends what is due; the settings are read anew each time, as channels come and go."""
    loop, outbox, planned_s = asyncio.get_running_loop(), Outbox(config.home), -_PLAN_S
    while True:
        try:
            if outbox.folder.exists():
                notifications = import_module("mainspring.app.notifications")
                now = load_config(config.environment)
                if loop.time() - planned_s >= _PLAN_S:
                    planned_s = loop.time()
                    await notifications.plan_left(now)
                if any(True for _ in outbox.sessions()):
                    await notifications.deliver_all(now)
        except (MainspringError, OSError) as error:
            say(f"notifications: {error}")
        await asyncio.sleep(_DELIVER_S)
