"""`daemon`: start, stop, status, logs, run and unit. There is one per data folder."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import msgspec

from mainspring import __version__
from mainspring.approvals.screen import plain
from mainspring.cli.render import local_time, when
from mainspring.config import Config, load_config
from mainspring.daemon.keeping import Daemon
from mainspring.daemon.launch import launch, tell_ready
from mainspring.daemon.place import RESTART, Place, Record
from mainspring.errors import MainspringError
from mainspring.goals.schedules import Schedules, next_us
from mainspring.journal.owner import Owner
from mainspring.journal.store import Store
from mainspring.sandbox.detached import READY_FD

_STOP_WITHIN_S = 120.0
_FOLLOW_S = 0.5
_NOT_RUNNING = 3
_SHOWN = 5
_UNIT = "mainspring.service"

_SESSIONS = click.option(
    "--sessions", "is_sessions", is_flag=True, help="Resume crashed sessions without a goal too."
)


@click.group("daemon")
def daemon_command() -> None:
    """A background process that begins scheduled goals, and goes on with those that were interrupted."""


@daemon_command.command("start")
@_SESSIONS
def start_command(*, is_sessions: bool) -> None:
    """Start it, and return when it is up."""
    owner = launch(load_config(), ["--sessions"] if is_sessions else [])
    click.echo(f"The daemon runs: process {owner.pid}.")


@daemon_command.command("run")
@_SESSIONS
@click.option("--once", "is_once", is_flag=True, help="Do what is due, wait until it has ended, and return.")
@click.option("--detached", "is_detached", is_flag=True, hidden=True)
def run_command(*, is_sessions: bool, is_once: bool, is_detached: bool) -> None:
    """Be the daemon, in the foreground, until a signal ends it."""
    if is_detached:
        os.set_inheritable(READY_FD, False)  # noqa: FBT003 - that is how it is called
        os.chdir("/")
    config = load_config()
    if is_sessions:
        replace = msgspec.structs.replace
        daemon = replace(config.settings.daemon, sessions=True)
        config = replace(config, settings=replace(config.settings, daemon=daemon))
    place = Place(config.home)

    def say(line: str) -> None:
        place.write_log(line)
        if not is_detached:
            click.echo(plain(line), err=True)

    ready: Callable[[], None] = tell_ready if is_detached else _nothing
    with place.held():
        asyncio.run(_run(config, place, say, ready, is_once=is_once))


async def _run(
    config: Config, place: Place, say: Callable[[str], None], ready: Callable[[], None], *, is_once: bool
) -> None:
    await Daemon(config, place, say).run(ready, is_once=is_once)


def _nothing() -> None:
    pass


@daemon_command.command("stop")
def stop_command() -> None:
    """Ask it to end, and wait: the goals that it runs are interrupted, and go on with the next start."""
    place = Place(load_config().home)
    if place.owner() is None:
        click.echo("The daemon is not running.")
        return
    left = place.signal(signal.SIGTERM, wait_s=_STOP_WITHIN_S)
    if left is not None:
        raise MainspringError(
            f"The daemon, process {left.pid} on {left.host}, has not ended yet.",
            remedy="mainspring daemon logs says what it waits for.",
        )
    click.echo("The daemon is stopped.")
    for session in place.load().interrupted:
        click.echo(f"  {session} was interrupted, and goes on with the next start")


@daemon_command.command("status")
@click.option("--json", "is_json", is_flag=True, help="Print it as JSON.")
def status_command(*, is_json: bool) -> None:
    """Show whether it runs, what it runs, and what comes next. The exit code is 3 when it does not run."""
    config = load_config()
    place = Place(config.home)
    owner, record = place.owner(), place.load()
    found = _status(config, owner, record)
    if is_json:
        click.echo(msgspec.json.encode(found).decode())
    else:
        click.echo(plain("\n".join(_lines(found))))
    sys.exit(0 if owner else _NOT_RUNNING)


@daemon_command.command("logs")
@click.option("-n", "count", type=click.IntRange(min=0), default=50, show_default=True, help="Lines to show.")
@click.option("-f", "is_followed", is_flag=True, help="Go on with what is added.")
def logs_command(count: int, *, is_followed: bool) -> None:
    """Show its log. What a goal's process had to say is in its session's folder, daemon.log."""
    log = Place(load_config().home).log
    if not log.exists():
        click.echo("The daemon has not run yet.", err=True)
        return
    text = log.read_bytes()
    lines = text.decode("utf-8", "replace").splitlines()
    for line in lines[len(lines) - count :] if count else []:
        click.echo(plain(line))
    position = len(text)
    while is_followed:
        time.sleep(_FOLLOW_S)
        if log.stat().st_size < position:
            position = 0
        with log.open("rb") as file:
            file.seek(position)
            added = file.read()
        position += len(added)
        click.echo(plain(added.decode("utf-8", "replace")), nl=False)


@daemon_command.command("unit")
@click.option("--install", "is_installed", is_flag=True, help="Write it to where systemd looks for it.")
def unit_command(*, is_installed: bool) -> None:
    """Print a systemd user unit, and how to enable it."""
    config = load_config()
    base = config.variable("XDG_CONFIG_HOME") or f"{config.variable('HOME') or '~'}/.config"
    path = Path(base).expanduser() / "systemd" / "user" / _UNIT
    text = _unit(config)
    if is_installed:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        click.echo(f"Written: {path}", err=True)
    else:
        click.echo(text, nl=False)
        click.echo(f"\nPut it at {path} (or run this with --install).", err=True)
    click.echo(
        f"Enable it: systemctl --user daemon-reload && systemctl --user enable --now {_UNIT}", err=True
    )
    click.echo("To run it while nobody is logged in: loginctl enable-linger", err=True)


def _unit(config: Config) -> str:
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
        f"TimeoutStopSec={_STOP_WITHIN_S:g}",
        "",
        "[Install]",
        "WantedBy=default.target",
    ]
    return "\n".join(lines) + "\n"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")


def _status(config: Config, owner: Owner | None, record: Record) -> dict[str, Any]:
    zone, now_us = config.zone, time.time_ns() // 1000
    rows = {row.id: row for row in Store(config.home).sessions() if row.id in record.runs} if owner else {}
    try:
        schedules, problem = Schedules(config.home).all(), ""
    except MainspringError as error:
        schedules, problem = (), str(error)
    coming = sorted((at, each) for each in schedules if (at := next_us(each, now_us, zone)) is not None)
    return {
        "running": owner is not None,
        "pid": owner.pid if owner else None,
        "host": owner.host if owner else None,
        "since": when(owner.since_us) if owner else None,
        "version": owner.version if owner else None,
        "max_running": config.settings.daemon.max_running,
        "goals": [
            {"id": run.session, "pid": run.pid, "since": when(run.started_us), "goal": rows[run.session].goal}
            for run in record.runs.values()
            if run.session in rows
        ],
        "next": [
            {"schedule": each.id, "at": local_time(at, zone), "goal": _first_line(each.goal)}
            for at, each in coming
        ],
        "last": [
            {"id": each.session, "at": when(each.at_us), "state": each.state, "exit_code": each.exit_code}
            for each in record.results
        ],
        "left_alone": record.left_alone if owner else {},
        "problem": problem,
    }


def _lines(found: dict[str, Any]) -> list[str]:
    if not found["running"]:
        lines = ["The daemon is not running. Start it: mainspring daemon start"]
    else:
        lines = [
            f"The daemon runs: process {found['pid']} since {found['since']}, version {found['version']}."
        ]
        if found["version"] != __version__:
            lines.append(f"  this is version {__version__}. {RESTART}")
    lines += [f"  runs {each['id']}, process {each['pid']}: {each['goal']}" for each in found["goals"]]
    lines += [f"  next {each['at']}, {each['schedule']}: {each['goal']}" for each in found["next"][:_SHOWN]]
    lines += [f"  ended {each['at']}, {each['id']}: {each['state']}" for each in found["last"][:_SHOWN]]
    lines += [
        f"  left alone {session}: {why}; mainspring goal resume {session}"
        for session, why in found["left_alone"].items()
    ]
    return [*lines, *([f"  problem: {found['problem']}"] if found["problem"] else [])]


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0][:100]
