"""`goal schedule`, `schedules`, `unschedule` and `fire`; and handing a goal to the daemon.

Scheduling is an act of a person: at a terminal it asks, elsewhere it must be told `--yes`.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import sys
import time
from pathlib import Path
from typing import Any

import click
import msgspec

from mainspring.app.goals import GoalOptions, goal_text, is_priced, start_goal
from mainspring.app.policies import DEFAULT_MODE
from mainspring.approvals.screen import plain
from mainspring.cli.ask import is_there
from mainspring.cli.goal_options import options_of, start_options
from mainspring.cli.numbers import NOT_NEGATIVE
from mainspring.cli.render import local_time, money, when
from mainspring.cli.wake import wake_daemon
from mainspring.config import Config, load_config
from mainspring.daemon.launch import ensure
from mainspring.daemon.place import Handled, Place
from mainspring.errors import UsageError
from mainspring.goals.cron import parse_cron
from mainspring.goals.profiles import load_profile
from mainspring.goals.schedules import GRACE_S, Schedule, Schedules, next_us
from mainspring.journal.store import Store

_NOT_RECORDED = {"folder", "is_json", "mode"}


@click.command("schedule")
@click.argument("cron")
@click.argument("goal", nargs=-1)
@start_options
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
    help="Hours that it may be late.",
)
@click.option("--no-cost-cap", "is_uncapped", is_flag=True, help="Let it cost whatever its limits allow.")
@click.option("--yes", "is_agreed", is_flag=True, help="Do not ask.")
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
    **given: Any,
) -> None:
    """Begin GOAL (a text, or a file as it is now) whenever CRON says: "0 2 * * mon-fri", @daily.

    Times are those of this machine's clock. A time that is left out when the clock is put forward runs an
    hour later, and one that comes twice runs once. The daemon keeps schedules; it must be running.
    """
    config = load_config()
    parse_cron(cron)
    text, _ = goal_text(" ".join(goal))
    place = folder.expanduser().resolve()
    if not place.is_dir():
        raise UsageError(f"The workspace {place} is not a folder.", remedy="Choose one with -C.")
    options = options_of(place, profile, **given)
    cap_usd = _cost_cap(options, config)
    if cap_usd is None and not is_uncapped and asyncio.run(is_priced(options, config)):
        raise UsageError(
            "A schedule spends again and again, and this one has no limit of its cost.",
            remedy="Give it --max-cost-usd, which holds for each run, or --no-cost-cap.",
        )
    schedule = Schedule(
        cron=cron,
        goal=text,
        folder=str(place),
        arguments=tuple(_arguments({**given, "profile": profile})),
        mode=options.mode or config.settings.mode or DEFAULT_MODE,
        max_cost_usd=cap_usd,
        grace_s=grace_h * 3600 if catch_up == "yes" else 0.0,
        by=_who(),
        scheduled_us=time.time_ns() // 1000,
    )
    _agree(schedule, is_agreed=is_agreed)
    kept = Schedules(config.home).add(schedule)
    at_us = next_us(kept, kept.scheduled_us, config.zone)
    if is_json:
        click.echo(msgspec.json.encode(kept).decode())
    else:
        coming = local_time(at_us, config.zone) if at_us is not None else "never"
        click.echo(f"schedule {kept.id}: next {coming}, mode {kept.mode}")
    if not wake_daemon(config.home):
        click.echo("The daemon is not running: mainspring daemon start", err=True)


@click.command("schedules")
@click.option("--json", "is_json", is_flag=True, help="Print one schedule per line as JSON.")
def schedules_command(*, is_json: bool) -> None:
    """List what is scheduled, when it comes next, and what became of it last."""
    config = load_config()
    found, handled = Schedules(config.home).all(), Place(config.home).load().handled
    states = {row.id: row.goal_state for row in Store(config.home).sessions() if row.goal}
    for schedule in found:
        at_us = next_us(schedule, time.time_ns() // 1000, config.zone)
        coming = local_time(at_us, config.zone) if at_us is not None else "never"
        last = handled.get(schedule.id)
        state = states.get(last.session, "") if last else ""
        if is_json:
            more = {"next": coming, "last": last, "last_state": state}
            click.echo(msgspec.json.encode({**msgspec.to_builtins(schedule), **more}).decode())
        else:
            cap = f", at most {money(schedule.max_cost_usd)}" if schedule.max_cost_usd else ""
            line = schedule.goal.strip().partition("\n")[0]
            click.echo(plain(f"{schedule.id}  {schedule.cron}  next {coming}  {schedule.mode}{cap}  {line}"))
            if last is not None:
                click.echo(plain(f"  {_result(last, state)}"))
    if not found and not is_json:
        click.echo("Nothing is scheduled.", err=True)


@click.command("unschedule")
@click.argument("schedule")
def unschedule_command(schedule: str) -> None:
    """Forget a schedule. What it began goes on."""
    config = load_config()
    schedules = Schedules(config.home)
    found = schedules.find(schedule)
    schedules.remove(found)
    wake_daemon(config.home)
    click.echo(f"{found.name} is forgotten")


@click.command("fire")
@click.argument("schedule")
def fire_command(schedule: str) -> None:
    """Begin a schedule's goal now, for the daemon to work on; print its id."""
    config = load_config()
    found = Schedules(config.home).find(schedule)
    context = _recorded.make_context("start", [*found.arguments, "--mode", found.mode])
    given: dict[str, Any] = {**context.params, "folder": Path(found.folder)}
    options = msgspec.structs.replace(options_of(**given), by=found.name)
    click.echo(asyncio.run(_begin(found.goal, options)))
    wake_daemon(config.home)


def hand_over(given: str, options: GoalOptions) -> str:
    """Begins a goal and leaves it to the daemon, which is started when it is not running; gives its id."""
    session = asyncio.run(_begin(given, options))
    config = load_config()
    if not wake_daemon(config.home):
        ensure(config)
    return session


async def _begin(given: str, options: GoalOptions) -> str:
    async with start_goal(given, options) as pursuit:
        return pursuit.session.id


@click.command("start")
@start_options
def _recorded(**_: Any) -> None:
    """What the options of a schedule are read by, when it is due."""


def _arguments(given: dict[str, Any]) -> list[str]:
    """The options as they were given, for `goal start` to read again."""
    words: list[str] = []
    for option in _recorded.params:
        value = given.get(option.name or "")
        if option.name in _NOT_RECORDED or value in (None, (), "", False) or value == option.default:
            continue
        for each in value if isinstance(value, tuple) else (value,):  # pyright: ignore[reportUnknownVariableType]
            words += [option.opts[0]] if each is True else [option.opts[0], str(each)]  # pyright: ignore[reportUnknownArgumentType]
    return words


def _cost_cap(options: GoalOptions, config: Config) -> float | None:
    rules = load_profile(options.profile or "goal", config.folder).rules
    given: float | None = options.rules.get("max_cost_usd")
    return next(
        (cap for cap in (given, rules.max_cost_usd, config.settings.caps.goal.usd) if cap is not None), None
    )


def _agree(schedule: Schedule, *, is_agreed: bool) -> None:
    if is_agreed:
        return
    if not is_there(sys.stdin):
        raise UsageError(
            "A schedule acts again and again with nobody there, so a person must agree to it.",
            remedy="Run this at a terminal, or with --yes.",
        )
    cap = f"at most {money(schedule.max_cost_usd)}" if schedule.max_cost_usd else "no limit of its own"
    options = " ".join(schedule.arguments)
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


def _who() -> str:
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = str(os.getuid())
    return f"{name}@{os.uname().nodename}"
