"""`daemon`: start, stop, status, logs, run and unit. There is one per data folder."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import click

from mainspring import __version__
from mainspring.app.operations.daemon import (
    RESTART,
    UNIT,
    DaemonStatus,
    daemon_status,
    follow_log,
    install_unit,
    log_path,
    run_daemon,
    service_unit,
    start_daemon,
    stop_daemon,
    web_address,
)
from mainspring.cli.config import NO_GATEWAY, load_config
from mainspring.cli.json_output import json_line
from mainspring.cli.options import with_options
from mainspring.cli.system import need_custody
from mainspring.documents.figures import local_time, when
from mainspring.secrets.screen import plain
from mainspring.settings import Config

_NOT_RUNNING = 3
_SHOWN = 5

_SESSIONS = click.option(
    "--sessions", "is_sessions", is_flag=True, help="Resume crashed sessions without a goal too."
)

_WEB = with_options(
    click.option("--web", "is_web", is_flag=True, help="Keep `mainspring serve` running, for this machine."),
    click.option(
        "--web-port", type=click.IntRange(0, 65535), default=8790, show_default=True, help="Its port."
    ),
)


@click.group("daemon")
def daemon_command() -> None:
    """A background process that begins scheduled goals, and goes on with those that were interrupted."""


@daemon_command.command("start")
@_SESSIONS
@_WEB
@NO_GATEWAY
def start_command(*, is_sessions: bool, is_web: bool, web_port: int) -> None:
    """Start the daemon, and return when it runs."""
    need_custody("The daemon")
    config = load_config()
    pid = start_daemon(config, is_sessions=is_sessions, web_port=web_port if is_web else None)
    click.echo(f"The daemon runs: process {pid}.")
    if is_web:
        click.echo(web_address(config) or "The page did not come up; see mainspring daemon logs.")


@daemon_command.command("run")
@_SESSIONS
@click.option("--once", "is_once", is_flag=True, help="Do what is due, wait until it has ended, and return.")
@click.option("--detached", "is_detached", is_flag=True, hidden=True)
@_WEB
@NO_GATEWAY
def run_command(*, is_sessions: bool, is_once: bool, is_detached: bool, is_web: bool, web_port: int) -> None:
    """Run the daemon in the foreground until a signal ends it."""
    need_custody("The daemon")

    def say(line: str) -> None:
        if not is_detached:
            click.echo(plain(line), err=True)

    asyncio.run(
        run_daemon(
            load_config(),
            say,
            is_sessions=is_sessions,
            is_once=is_once,
            is_detached=is_detached,
            web_port=web_port if is_web else None,
        )
    )


@daemon_command.command("stop")
def stop_command() -> None:
    """Ask it to end, and wait: the goals that it runs are interrupted, and go on with the next start."""
    interrupted = stop_daemon(load_config())
    if interrupted is None:
        click.echo("The daemon is not running.")
        return
    click.echo("The daemon is stopped.")
    for session in interrupted:
        click.echo(f"  {session} was interrupted, and goes on with the next start")


@daemon_command.command("status")
@click.option("--json", "is_json", is_flag=True, help="Print it as JSON.")
def status_command(*, is_json: bool) -> None:
    """Show whether it runs, what it runs, and what comes next. The exit code is 3 when it does not run."""
    config = load_config()
    status = asyncio.run(daemon_status(config))
    found = _fields(status, config)
    if is_json:
        click.echo(json_line(found))
    else:
        click.echo(plain("\n".join(_lines(found))))
    sys.exit(0 if status.owner else _NOT_RUNNING)


@daemon_command.command("logs")
@click.option("-n", "count", type=click.IntRange(min=0), default=50, show_default=True, help="Lines to show.")
@click.option("-f", "is_followed", is_flag=True, help="Follow the log.")
def logs_command(count: int, *, is_followed: bool) -> None:
    """Show its log. What a goal's process had to say is in its session's folder, daemon.log."""
    log = log_path(load_config())
    if not log.exists():
        click.echo("The daemon has not run yet.", err=True)
        return
    text = log.read_bytes()
    lines = text.decode("utf-8", "replace").splitlines()
    for line in lines[len(lines) - count :] if count else []:
        click.echo(plain(line))
    for added in follow_log(log, len(text)) if is_followed else ():
        click.echo(plain(added.decode("utf-8", "replace")), nl=False)


@daemon_command.command("unit")
@click.option("--install", "is_installed", is_flag=True, help="Install it as a systemd user unit.")
def unit_command(*, is_installed: bool) -> None:
    """Print a systemd user unit, and how to enable it."""
    unit = service_unit(load_config())
    if is_installed:
        install_unit(unit)
        click.echo(f"Written: {unit.path}", err=True)
    else:
        click.echo(unit.text, nl=False)
        click.echo(f"\nPut it at {unit.path} (or run this with --install).", err=True)
    click.echo(f"Enable it: systemctl --user daemon-reload && systemctl --user enable --now {UNIT}", err=True)
    click.echo("To run it while nobody is logged in: loginctl enable-linger", err=True)


def _fields(status: DaemonStatus, config: Config) -> dict[str, Any]:
    owner = status.owner
    return {
        "running": owner is not None,
        "pid": owner.pid if owner else None,
        "host": owner.host if owner else None,
        "since": when(owner.since_us) if owner else None,
        "version": owner.version if owner else None,
        "max_running": status.max_running,
        "goals": [
            {"id": each.session, "pid": each.pid, "since": when(each.started_us), "goal": each.goal}
            for each in status.running
        ],
        "next": [
            {
                "schedule": each.schedule,
                "at": local_time(each.at_us, config.zone),
                "goal": each.goal.strip().partition("\n")[0][:100],
            }
            for each in status.coming
        ],
        "last": [
            {"id": each.session, "at": when(each.at_us), "state": each.state, "exit_code": each.exit_code}
            for each in status.results
        ],
        "left_alone": status.left_alone,
        "problem": status.problem,
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
