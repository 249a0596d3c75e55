"""`goal`: start, list, show, pause, resume, stop, change, report, schedule. It is named by its session."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from mainspring.app import goals
from mainspring.approvals.screen import plain
from mainspring.cli.goal_options import loop_options, options_of, start_options, wait_options
from mainspring.cli.pursuing import pursue
from mainspring.cli.render import as_text, money, when
from mainspring.cli.reports import write_report
from mainspring.cli.schedules import (
    fire_command,
    hand_over,
    schedule_command,
    schedules_command,
    unschedule_command,
)
from mainspring.config import load_config
from mainspring.errors import UsageError
from mainspring.events import GoalEnded, GoalPaused
from mainspring.goals.control import Order
from mainspring.goals.profiles import load_profile, profile_names
from mainspring.journal.index import SessionRow
from mainspring.journal.store import Store


@click.group("goal")
def goal_command() -> None:
    """Work towards a goal for hours or days: within limits, on record, with a report."""


for _command in (schedule_command, schedules_command, unschedule_command, fire_command):
    goal_command.add_command(_command)


@goal_command.command("start")
@click.argument("goal", nargs=-1)
@start_options
@click.option("--background", "is_background", is_flag=True, help="Let the daemon work on it; print its id.")
def start_command(
    goal: tuple[str, ...],
    folder: Path,
    profile: str,
    *,
    is_json: bool,
    is_background: bool,
    **given: Any,
) -> None:
    """Work towards GOAL: a text, or a file that holds it."""
    options = options_of(folder, profile, **given)
    if is_background:
        click.echo(hand_over(" ".join(goal), options))
        return
    sys.exit(asyncio.run(pursue(" ".join(goal), "", options, is_json=is_json)))


@goal_command.command("resume")
@click.argument("session", default="")
@loop_options
@wait_options
def resume_command(session: str, *, is_json: bool, **given: Any) -> None:
    """Go on with a goal: after a crash, a pause, or a limit that is now higher."""
    name = session or _newest_here()
    sys.exit(asyncio.run(pursue("", name, options_of(Path(), "", **given), is_json=is_json)))


@goal_command.command("list")
@click.option("--json", "is_json", is_flag=True, help="Print one goal per line as JSON.")
def list_command(*, is_json: bool) -> None:
    """List goals, the most recent first."""
    rows = _goals()
    if not rows and not is_json:
        click.echo('No goals yet. Begin one: mainspring goal start "…"', err=True)
    for row in rows:
        if is_json:
            click.echo(msgspec.json.encode(row).decode())
        else:
            click.echo(
                f"{row.id}  {when(row.updated_us)}  {state_of(row):<18}  {row.iterations:>3} iterations"
                f"  {money(row.cost_usd):>9}  {plain(row.goal)}"
            )


@goal_command.command("show")
@click.argument("session", default="")
def show_command(session: str) -> None:
    """Show where a goal stands (by default the newest of this folder)."""
    store = Store(load_config().home)
    name = asyncio.run(store.find(session)) if session else _newest_here()
    goal = asyncio.run(goals.load_goal(store, name))
    row = next(row for row in _goals() if row.id == name)
    rules = goal.now.rules
    total = f" of {rules.max_iterations}" if rules.max_iterations else ""
    lines = [
        f"goal {name} in {row.workspace}",
        f"  {goal.now.profile}, engine {goal.now.engine}, memory {goal.now.memory}",
        f"  {state_of(row)}: iteration {row.iterations}{total}, {money(row.cost_usd)}",
        *(f"  check: {command}" for command in goal.now.checks.commands),
        *(f"  file: {path}" for path in goal.now.checks.files),
        *(f"  target: {item.metric} {item.relation} {item.value:g}" for item in goal.now.checks.targets),
        *([f"  {as_text(goal.last)}"] if goal.last else []),
        *([f"  {as_text(goal.ended)}"] if goal.ended else []),
        "",
        goal.now.text.strip(),
    ]
    click.echo(plain("\n".join(lines)))


@goal_command.command("pause")
@click.argument("session")
def pause_command(session: str) -> None:
    """Stop the work on a goal; `goal resume` goes on with it."""
    _tell(session, "pause", GoalPaused(reason="Paused by request."))


@goal_command.command("stop")
@click.argument("session")
def stop_command(session: str) -> None:
    """End a goal and whatever it runs."""
    _tell(session, "stop", GoalEnded(ending="stopped", reason="Stopped by request.", exit_code=130))


@goal_command.command("change")
@click.argument("session")
@click.argument("goal", nargs=-1)
def change_command(session: str, goal: tuple[str, ...]) -> None:
    """Put another text, or file, in the place of a paused goal; the old one stays on record."""
    text, _ = goals.goal_text(" ".join(goal))
    asyncio.run(goals.change_goal(session, text, load_config()))
    click.echo(f"changed; go on with it: mainspring goal resume {session}")


@goal_command.command("report")
@click.argument("session", default="")
@click.option(
    "--html", default="", metavar="FILE", help="Write one page that needs nothing else; - prints it."
)
@click.option("--markdown", default="", metavar="FILE", help="Write Markdown; - prints it.")
@click.option("--json", "is_json", is_flag=True, help="Print the facts as JSON.")
def report_command(session: str, html: str, markdown: str, *, is_json: bool) -> None:
    """Tell what became of a goal (by default the newest of this folder), with the evidence for it."""
    store = Store(load_config().home)
    name = asyncio.run(store.find(session)) if session else _newest_here()
    write_report(store, name, html=html, markdown=markdown, is_json=is_json)


@goal_command.command("profiles")
def profiles_command() -> None:
    """List the kinds of loops."""
    folder = load_config().folder
    for name in profile_names(folder):
        click.echo(f"{name}: {load_profile(name, folder).description}")


def _tell(session: str, order: Order, event: GoalPaused | GoalEnded) -> None:
    config = load_config()
    store = Store(config.home)
    name = asyncio.run(store.find(session))
    goal = asyncio.run(goals.load_goal(store, name))
    if goal.ended is not None:
        click.echo(f"{name} has ended: {goal.ended.ending}")
        return
    told = asyncio.run(goals.tell_goal(name, order, event, config))
    click.echo(f"{name}: {told}")


def state_of(row: SessionRow) -> str:
    """How a goal stands, in two words at most."""
    if row.goal_state == "done":
        return "done, verified" if row.is_verified else "done, unverified"
    return "running, waiting" if row.goal_state == "running" and row.is_waiting else row.goal_state


def _goals() -> list[SessionRow]:
    return [row for row in asyncio.run(Store(load_config().home).rows()) if row.goal]


def _newest_here() -> str:
    here = str(Path.cwd().resolve())
    for row in _goals():
        if row.workspace == here:
            return row.id
    raise UsageError("No goal was worked on in this folder.", remedy="Name one: mainspring goal list.")
