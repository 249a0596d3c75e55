"""`goal schedule`, `schedules`, `unschedule` and `fire`.

Scheduling is an act of a person: at a terminal it asks, elsewhere it must be told `--yes`.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import click
import msgspec

from mainspring.app.operations.schedules import (
    GRACE_S,
    Handled,
    Schedule,
    fire_schedule,
    forget_schedule,
    keep_schedule,
    list_schedules,
    plan_schedule,
)
from mainspring.cli.config import load_config, refuse_no_gateway
from mainspring.cli.goal_options import options_of, start_options
from mainspring.cli.json_output import json_line
from mainspring.cli.options import NOT_NEGATIVE
from mainspring.cli.queue_options import queue_options, queue_place
from mainspring.cli.streams import is_person_there
from mainspring.cli.wake import say_other_daemon
from mainspring.documents.figures import local_time, money, when
from mainspring.errors import UsageError
from mainspring.secrets.screen import plain
from mainspring.settings import Config
from mainspring.system import host_name, user_name


@click.command("schedule")
@click.argument("cron")
@click.argument("goal", nargs=-1)
@start_options
@queue_options
@click.option(
    "--catch-up",
    type=click.Choice(["yes", "no"]),
    default="yes",
    show_default=True,
    help="Begin what was missed while the machine was off, once, when the daemon starts.",
)
@click.option(
    "--grace",
    "grace_h",
    type=NOT_NEGATIVE,
    default=GRACE_S / 3600,
    help="Maximum delay of a missed run, in hours.",
)
@click.option("--no-cost-cap", "is_uncapped", is_flag=True, help="Accept a schedule without a cost limit.")
@click.option("--yes", "is_agreed", is_flag=True, help="Do not ask for confirmation.")
def schedule_command(
    cron: str,
    goal: tuple[str, ...],
    folder: Path,
    profile: str,
    *,
    catch_up: str,
    grace_h: float,
    is_uncapped: bool,
    is_agreed: bool,
    is_json: bool,
    queue: str,
    labels: str,
    **given: Any,
) -> None:
    """Begin GOAL (a text, or a file as it is now) whenever CRON says: "0 2 * * mon-fri", @daily.

    Times are those of this machine's clock. A time that is left out when the clock is put forward runs an
    hour later, and one that comes twice runs once. The daemon keeps schedules, or workers of their queue; one
    must be running.
    """
    refuse_no_gateway()
    config = load_config()
    schedule = asyncio.run(
        plan_schedule(
            config,
            cron,
            " ".join(goal),
            options_of(folder, profile, **given),
            grace_s=grace_h * 3600 if catch_up == "yes" else 0.0,
            is_uncapped=is_uncapped,
            by=f"{user_name()}@{host_name()}",
            place=queue_place(queue, labels),
        )
    )
    _agree(schedule, is_agreed=is_agreed)
    kept = keep_schedule(config, schedule)
    if is_json:
        click.echo(json_line(kept.schedule))
    else:
        coming = _coming(kept.next_us, config)
        click.echo(f"schedule {kept.schedule.id}: next {coming}, mode {kept.schedule.mode}")
    say_other_daemon(config)
    if not kept.is_daemon_running:
        click.echo("The daemon is not running: mainspring daemon start", err=True)


@click.command("schedules")
@click.option("--json", "is_json", is_flag=True, help="Print one schedule per line as JSON.")
def schedules_command(*, is_json: bool) -> None:
    """List schedules with their next run and the result of the last one."""
    config = load_config()
    rows = asyncio.run(list_schedules(config))
    for row in rows:
        schedule, coming = row.schedule, _coming(row.next_us, config)
        if is_json:
            more = {"next": coming, "last": row.last, "last_state": row.last_state}
            click.echo(json_line({**msgspec.to_builtins(schedule), **more}))
        else:
            cap = f", at most {money(schedule.max_cost_usd)}" if schedule.max_cost_usd else ""
            line = schedule.goal.strip().partition("\n")[0]
            queue = f", queue {schedule.queue}" if schedule.queue else ""
            about = f"{schedule.mode}{cap}{queue}"
            click.echo(plain(f"{schedule.id}  {schedule.cron}  next {coming}  {about}  {line}"))
            if row.last is not None:
                click.echo(plain(f"  {_result(row.last, row.last_state)}"))
    if not rows and not is_json:
        click.echo("Nothing is scheduled.", err=True)


@click.command("unschedule")
@click.argument("schedule")
def unschedule_command(schedule: str) -> None:
    """Delete a schedule. A goal that it started goes on."""
    config = load_config()
    forgotten = forget_schedule(config, schedule)
    say_other_daemon(config)
    click.echo(f"{forgotten.name} is deleted")


@click.command("fire")
@click.argument("schedule")
def fire_command(schedule: str) -> None:
    """Start a schedule's goal now, run by the daemon or a worker; print its id."""
    config = load_config()
    click.echo(asyncio.run(fire_schedule(config, schedule)))
    say_other_daemon(config)


def _coming(at_us: int | None, config: Config) -> str:
    return local_time(at_us, config.zone) if at_us is not None else "never"


def _agree(schedule: Schedule, *, is_agreed: bool) -> None:
    if is_agreed:
        return
    if not is_person_there():
        raise UsageError(
            "A schedule runs unattended, so a person must confirm it.",
            remedy="Run this in a terminal, or pass --yes.",
        )
    cap = f"at most {money(schedule.max_cost_usd)}" if schedule.max_cost_usd else "no limit of its own"
    options = " ".join(schedule.arguments)
    if schedule.queue:
        options = f"queue {schedule.queue} {options}".rstrip()
    click.echo(plain(schedule.goal.strip()), err=True)
    click.echo(
        plain(f"  {schedule.cron} in {schedule.folder}; mode {schedule.mode}; each run {cap}; {options}"),
        err=True,
    )
    click.confirm("Begin this again and again, without asking?", abort=True, err=True)


def _result(last: Handled, state: str) -> str:
    began = f" {last.session} ({state or 'gone'})" if last.session else ""
    detail = f": {last.detail}" if last.detail else ""
    late = ", late" if last.how == "late" and last.outcome == "started" else ""
    return f"last {when(last.at_us)} {last.outcome}{late}{began}{detail}"
