"""The daemon of a data folder: start it, end it, wake it, and what it does now."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import msgspec

from mainspring.app.operations.cleaning import retained
from mainspring.app.operations.daemon_company import company_of_daemon
from mainspring.app.operations.devices import Access
from mainspring.app.operations.workers import queued_sessions
from mainspring.app.stores import sessions_of, shared_files
from mainspring.catalog import Owner
from mainspring.daemon.files import RESTART, DaemonFiles, DaemonRecord, RunResult
from mainspring.daemon.launch import ensure, launch, tell_ready
from mainspring.daemon.supervisor import Daemon
from mainspring.errors import MainspringError
from mainspring.goals.schedules import Schedules, next_us
from mainspring.sandbox.detached import READY_FD
from mainspring.settings import Config

__all__ = [
    "RESTART",
    "UNIT",
    "ComingGoal",
    "DaemonStatus",
    "RunningGoal",
    "ServiceUnit",
]

STOP_WITHIN_S = 120.0
UNIT = "mainspring.service"
_FOLLOW_S = 0.5
_LOOK_S = 0.1


class RunningGoal(msgspec.Struct, frozen=True, kw_only=True):
    session: str
    pid: int
    started_us: int
    goal: str


class ComingGoal(msgspec.Struct, frozen=True, kw_only=True):
    schedule: str
    at_us: int
    goal: str


class DaemonStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Without an `owner` it is not running. `left_alone` says of sessions that are not resumed why."""

    owner: Owner | None
    max_running: int
    running: tuple[RunningGoal, ...]
    coming: tuple[ComingGoal, ...]
    results: tuple[RunResult, ...]
    left_alone: dict[str, str]
    problem: str


class ServiceUnit(msgspec.Struct, frozen=True):
    """A systemd user unit, and where systemd looks for it."""

    path: Path
    text: str


def start_daemon(config: Config, *, is_sessions: bool = False, web_port: int | None = None) -> int:
    """Starts it, and gives its pid when it is up; with `is_sessions` it resumes crashed sessions without a
    goal too, with a `web_port` it also keeps `mainspring serve` running."""
    web = [] if web_port is None else ["--web", "--web-port", str(web_port)]
    return launch(config, [*(["--sessions"] if is_sessions else []), *web]).pid


def web_address(config: Config, within_s: float = 15.0) -> str:
    """Where the page of this machine is, with its token, once it is; empty when it does not come up."""
    access, deadline = Access(config), time.monotonic() + within_s
    while not (address := access.address) and time.monotonic() < deadline:
        time.sleep(_LOOK_S)
    return f"{address}/#token={access.token}" if address else ""


def wake_daemon(config: Config) -> bool:
    """Makes the daemon look at once at what there is to do; False when none runs."""
    return DaemonFiles(config.home).wake()


def hand_over(config: Config, session: str) -> None:
    """Leaves the interrupted turn of a session to the daemon, which is started when none runs."""
    DaemonFiles(config.home).hand_over(session)
    ensure(config)


def other_version(config: Config) -> str:
    """What to tell a person when the daemon that runs is of another version; empty when not."""
    return DaemonFiles(config.home).other_version()


async def run_daemon(
    config: Config,
    say: Callable[[str], None],
    *,
    is_sessions: bool,
    is_once: bool,
    is_detached: bool,
    web_port: int | None = None,
) -> None:
    """Is the daemon until a signal ends it; each line of its log is said as well. With `is_detached` it is
    the process that `start_daemon` has started."""
    if is_detached:
        os.set_inheritable(READY_FD, False)  # noqa: FBT003 - that is how it is called
        os.chdir("/")
    if is_sessions:
        replace = msgspec.structs.replace
        daemon = replace(config.settings.daemon, sessions=True)
        config = replace(config, settings=replace(config.settings, daemon=daemon))
    place = DaemonFiles(config.home)

    def log(line: str) -> None:
        place.write_log(line)
        say(line)

    with place.held():
        others = partial(queued_sessions, config) if config.store_url else None
        sessions, files = sessions_of(config), shared_files(config)
        daemon = Daemon(config, place, log, sessions, partial(retained, config), others, files)
        async with company_of_daemon(config, web_port, log):
            await daemon.run(tell_ready if is_detached else _nothing, is_once=is_once)


def stop_daemon(config: Config) -> tuple[str, ...] | None:
    """Asks it to end, and waits; gives the sessions that were interrupted, or None when it is not running."""
    place = DaemonFiles(config.home)
    if place.owner() is None:
        return None
    left = place.signal(signal.SIGTERM, wait_s=STOP_WITHIN_S)
    if left is not None:
        raise MainspringError(
            f"The daemon, {left.name}, is still running.",
            remedy="`mainspring daemon logs` shows what it waits for.",
        )
    return tuple(place.load().interrupted)


async def daemon_status(config: Config) -> DaemonStatus:
    """Whether it runs, what it runs, and what comes next."""
    place = DaemonFiles(config.home)
    owner, record = place.owner(), place.load()
    now_us = time.time_ns() // 1000
    try:
        schedules, problem = Schedules(shared_files(config)).all(), ""
    except MainspringError as error:
        schedules, problem = (), str(error)
    times = [(next_us(each, now_us, config.zone), each) for each in schedules]
    coming = (
        ComingGoal(schedule=each.id, at_us=at_us, goal=each.goal)
        for at_us, each in times
        if at_us is not None
    )
    return DaemonStatus(
        owner=owner,
        max_running=config.settings.daemon.max_running,
        running=await _running(config, record) if owner else (),
        coming=tuple(sorted(coming, key=lambda each: (each.at_us, each.schedule))),
        results=tuple(record.results),
        left_alone=record.left_alone if owner else {},
        problem=problem,
    )


def log_path(config: Config) -> Path:
    return DaemonFiles(config.home).log


def follow_log(path: Path, position: int) -> Iterator[bytes]:
    """What is added to a log after a position, for ever."""
    while True:
        time.sleep(_FOLLOW_S)
        if path.stat().st_size < position:
            position = 0
        with path.open("rb") as file:
            file.seek(position)
            added = file.read()
        position += len(added)
        yield added


def service_unit(config: Config) -> ServiceUnit:
    """A unit by which systemd keeps the daemon of this data folder running."""
    base = config.variable("XDG_CONFIG_HOME") or f"{config.variable('HOME') or '~'}/.config"
    path = Path(base).expanduser() / "systemd" / "user" / UNIT
    variables = {name: config.variable(name) for name in ("PATH", "MAINSPRING_HOME")}
    environment = [f'Environment="{name}={_escaped(value)}"' for name, value in variables.items() if value]
    lines = [
        "[Unit]",
        "Description=mainspring: scheduled goals, and goals that were interrupted",
        "After=network.target",
        "",
        "[Service]",
        "Type=exec",
        f"ExecStart={_escaped(shlex.quote(sys.executable))} -P -m mainspring daemon run",
        *environment,
        "# Keys of providers, one NAME=value a line:",
        f"EnvironmentFile=-{_escaped(str(config.folder / 'daemon.env'))}",
        "Restart=on-failure",
        "# The daemon interrupts its goals itself, and they record it.",
        "KillMode=process",
        f"TimeoutStopSec={STOP_WITHIN_S:g}",
        "",
        "[Install]",
        "WantedBy=default.target",
    ]
    return ServiceUnit(path, "\n".join(lines) + "\n")


def install_unit(unit: ServiceUnit) -> None:
    unit.path.parent.mkdir(parents=True, exist_ok=True)
    unit.path.write_text(unit.text, "utf-8")


def _nothing() -> None:
    pass


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")


async def _running(config: Config, record: DaemonRecord) -> tuple[RunningGoal, ...]:
    rows = {row.id: row for row in await sessions_of(config).rows() if row.id in record.runs}
    return tuple(
        RunningGoal(session=run.session, pid=run.pid, started_us=run.started_us, goal=rows[run.session].goal)
        for run in record.runs.values()
        if run.session in rows
    )
