"""The commands of `goal` that work on one: start, show, pause, resume, stop, change, best, report, schedule.
A goal is named by its session.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import click

from mainspring.app.goals import change_goal, goal_text
from mainspring.app.operations.goal_list import newest_goal, state_of
from mainspring.app.operations.goals import (
    BestResult,
    Order,
    begin_in_background,
    begin_in_queue,
    best_of,
    goal_standing,
    list_profiles,
    order_goal,
    restore_best,
)
from mainspring.cli.config import load_config, load_config_or_defaults, refuse_no_gateway
from mainspring.cli.goal_options import loop_options, options_of, start_options, wait_options
from mainspring.cli.goal_run import pursue
from mainspring.cli.json_output import json_line
from mainspring.cli.queue_options import queue_options, queue_place
from mainspring.cli.reports import write_report
from mainspring.cli.schedules import (
    fire_command,
    schedule_command,
    schedules_command,
    unschedule_command,
)
from mainspring.cli.timeline import print_back
from mainspring.documents.figures import money
from mainspring.documents.lines import as_text
from mainspring.events.counts import plural
from mainspring.secrets.screen import plain


@click.group("goal")
def goal_command() -> None:
    """Work towards a goal for hours or days: within limits, on record, with a report."""


for _command in (schedule_command, schedules_command, unschedule_command, fire_command):
    goal_command.add_command(_command)


@goal_command.command("start")
@click.argument("goal", nargs=-1)
@start_options
@click.option("--background", "is_background", is_flag=True, help="Run it in the daemon; print its id.")
@click.option(
    "--detach",
    "is_detached",
    is_flag=True,
    help="Leave it to a worker; without a shared store, to the daemon.",
)
@queue_options
def start_command(
    goal: tuple[str, ...],
    folder: Path,
    profile: str,
    *,
    is_json: bool,
    is_background: bool,
    is_detached: bool,
    queue: str,
    labels: str,
    **given: Any,
) -> None:
    """Work towards GOAL: a text, or a file that holds it."""
    options = options_of(folder, profile, **given)
    is_queued = is_detached and bool(load_config().store_url)
    if place := queue_place(queue, labels, is_queued=is_queued):
        click.echo(asyncio.run(begin_in_queue(load_config(), " ".join(goal), options, place)))
        return
    if is_background or is_detached:
        refuse_no_gateway()
        click.echo(asyncio.run(begin_in_background(load_config(), " ".join(goal), options)))
        return
    sys.exit(asyncio.run(pursue(" ".join(goal), "", options, is_json=is_json)))


@goal_command.command("resume")
@click.argument("session", default="")
@loop_options
@wait_options
def resume_command(session: str, *, is_json: bool, **given: Any) -> None:
    """Go on with a goal: after a crash, a pause, or a limit that is now higher."""
    name = session or asyncio.run(newest_goal(load_config(), Path.cwd()))
    sys.exit(asyncio.run(pursue("", name, options_of(Path(), "", **given), is_json=is_json)))


@goal_command.command("show")
@click.argument("session", default="")
def show_command(session: str) -> None:
    """Show where a goal stands (by default the newest of this folder)."""
    config = load_config_or_defaults()
    standing = asyncio.run(goal_standing(config, session or asyncio.run(newest_goal(config, Path.cwd()))))
    goal, row = standing.goal, standing.row
    total = f" of {goal.rules.max_iterations}" if goal.rules.max_iterations else ""
    lines = [
        f"goal {row.id} in {row.workspace}",
        f"  {goal.profile}, engine {goal.engine}, memory {goal.memory}",
        f"  {state_of(row)}: iteration {row.iterations}{total}, {money(row.cost_usd)}",
        *(f"  check: {command}" for command in goal.checks.commands),
        *(f"  file: {path}" for path in goal.checks.files),
        *(f"  target: {item.metric} {item.relation} {item.value:g}" for item in goal.checks.targets),
        *([f"  {as_text(standing.last)}"] if standing.last else []),
        *([f"  {as_text(standing.ended)}"] if standing.ended else []),
        "",
        goal.text.strip(),
    ]
    click.echo(plain("\n".join(lines)))


@goal_command.command("pause")
@click.argument("session", default="")
def pause_command(session: str) -> None:
    """Pause a goal (by default the newest of this folder); `goal resume` goes on with it."""
    _order(session, "pause")


@goal_command.command("stop")
@click.argument("session", default="")
def stop_command(session: str) -> None:
    """End a goal (by default the newest of this folder) and the processes that it runs."""
    _order(session, "stop")


@goal_command.command("change")
@click.argument("session")
@click.argument("goal", nargs=-1)
def change_command(session: str, goal: tuple[str, ...]) -> None:
    """Put another text, or file, in place of a paused goal; the old one stays on record."""
    text, _ = goal_text(" ".join(goal))
    asyncio.run(change_goal(session, text, load_config()))
    click.echo(f"changed; go on with it: mainspring goal resume {session}")


@goal_command.command("report")
@click.argument("session", default="")
@click.option(
    "--html", default="", metavar="FILE", help="Write one page that needs nothing else; - prints it."
)
@click.option("--markdown", default="", metavar="FILE", help="Write Markdown; - prints it.")
@click.option("--json", "is_json", is_flag=True, help="Print the facts as JSON.")
def report_command(session: str, html: str, markdown: str, *, is_json: bool) -> None:
    """Report on a goal (by default the newest of this folder), with the evidence for it."""
    config = load_config_or_defaults()
    name = session or asyncio.run(newest_goal(config, Path.cwd()))
    write_report(config, name, html=html, markdown=markdown, is_json=is_json)


@goal_command.command("best")
@click.argument("session", default="")
@click.option("--restore", "is_restored", is_flag=True, help="Put back the files that gave it; undoable.")
@click.option("--json", "is_json", is_flag=True, help="Print it as JSON.")
def best_command(session: str, *, is_restored: bool, is_json: bool) -> None:
    """Show the best result of a goal (by default the newest of this folder), and what gave it."""
    config = load_config() if is_restored else load_config_or_defaults()
    name = session or asyncio.run(newest_goal(config, Path.cwd()))
    best = asyncio.run(best_of(config, name))
    click.echo(json_line(best) if is_json else plain("\n".join(_best_lines(best))))
    if is_restored:
        print_back(asyncio.run(restore_best(config, name)), "files")


def _best_lines(best: BestResult) -> list[str]:
    unit = f" {best.unit}" if best.unit else ""
    values = [f"{each.median:.3g} ± {each.spread:.3g}{unit}" for each in (best.first, best.best)]
    sure = "" if best.is_sure else "; too few repeats to be sure"
    start = f"{values[0]} in iteration {best.first.iteration}"
    end = f"{values[1]} in iteration {best.best.iteration}"
    return [
        f"{best.metric}: {start}, {end} ({best.better} is better{sure})",
        *(f"  doubtful: {flag}" for flag in best.flags),
        *([f"  parameters: {best.parameters}"] if best.parameters else []),
        f"  files: as after event {best.state_seq}",
    ]


@goal_command.command("profiles")
def profiles_command() -> None:
    """List the kinds of loops."""
    for profile in list_profiles(load_config()):
        click.echo(f"{profile.name}: {profile.description}")


def _order(session: str, order: Order) -> None:
    config = load_config()
    name = session or asyncio.run(newest_goal(config, Path.cwd()))
    ordered = asyncio.run(order_goal(config, name, order))
    if ordered.ending:
        ended = f", {plural(ordered.processes, 'process')} ended now" if ordered.processes else ""
        click.echo(f"{ordered.session} has ended: {ordered.ending}{ended}")
    else:
        click.echo(f"{ordered.session}: {ordered.done}")
