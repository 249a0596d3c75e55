"""`goal`: start, list, show, pause, resume, stop, change, report. A goal is named by its session."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import click
import msgspec

from mainspring.app import goals
from mainspring.app.goals import GoalOptions
from mainspring.approvals import LEVELS, MODES
from mainspring.approvals.screen import plain
from mainspring.cli.pursuing import pursue
from mainspring.cli.render import as_text, money, when
from mainspring.cli.reports import write_report
from mainspring.config import load_config
from mainspring.errors import UsageError
from mainspring.events import Effort, Evaluation, GoalChecks, GoalEnded, GoalPaused, Target
from mainspring.goals.control import Order, tell
from mainspring.goals.profiles import load_profile, profile_names
from mainspring.journal.index import SessionRow
from mainspring.journal.store import Store
from mainspring.sandbox import LADDER

_TARGET = re.compile(r"\s*([\w.:/%-]+)\s*(<=|>=|==|<|>)\s*(-?[\d.]+(?:[eE][+-]?\d+)?)\s*")
_POSITIVE = click.FloatRange(min=0, min_open=True)


@click.group("goal")
def goal_command() -> None:
    """Work towards a goal for hours or days: within limits, on record, with a report."""


def loop_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that every loop has."""
    options = [
        click.option("--json", "is_json", is_flag=True, help="Print one event per line as JSON."),
        click.option("--engine", default="", help="Who takes the turns; see mainspring engines."),
        click.option("--model", "models", multiple=True, help="Model; given again: a fallback."),
        click.option("--effort", type=click.Choice(get_args(Effort)), help="How hard the model thinks."),
        click.option("--mode", type=click.Choice([*MODES, *LEVELS]), help="What needs approval."),
        click.option("--sandbox", type=click.Choice(LADDER), help="How commands are confined."),
        click.option("--check", "checks", multiple=True, help="Command that must exit with 0."),
        click.option("--file", "files", multiple=True, help="File that must exist."),
        click.option("--target", "targets", multiple=True, help='Metric to reach, as "time<=1.5".'),
        click.option("--max-cost-usd", type=_POSITIVE, help="Money for the whole goal."),
        click.option("--max-tokens", type=click.IntRange(min=1), help="Tokens for the whole goal."),
        click.option("--max-time", "max_time_s", type=_POSITIVE, help="Seconds for the whole goal."),
        click.option(
            "--max-idle", "max_idle_iterations", type=click.IntRange(min=1), help="Idle iterations."
        ),
        click.option("--max-failures", type=click.IntRange(min=1), help="Failed iterations in a row."),
        click.option("--max-refusals", type=click.IntRange(min=1), help="Times that done may be refused."),
        click.option(
            "--stall", "stall_s", type=_POSITIVE, help="Wake after so many seconds without CPU use."
        ),
        click.option("--iteration-steps", type=click.IntRange(min=1), help="Model requests per iteration."),
        click.option("--iteration-cost-usd", type=_POSITIVE, help="Money per iteration."),
        click.option("--iteration-time", "iteration_time_s", type=_POSITIVE, help="Seconds per iteration."),
        click.option("--evaluate", default="", help="Command by which we measure after each iteration."),
        click.option("--repeats", type=click.IntRange(min=1), default=3, help="Times that it is run."),
        click.option("--frozen", multiple=True, help="File of the evaluation that must not change."),
        click.option("--minimize", default="", help="Metric that should become lower."),
        click.option("--maximize", default="", help="Metric that should become higher."),
        click.option("--allow-unpriced", is_flag=True, help="Run under a cost limit with an unknown price."),
        click.option("--max-iterations", type=click.IntRange(min=1), help="Iterations of the goal."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def wait_options(command: Callable[..., Any]) -> Callable[..., Any]:
    options = [
        click.option(
            "--wait-seconds", "wait_s", type=click.FloatRange(min=0), help="Pause between iterations."
        ),
        click.option("--max-wait-seconds", "max_wait_s", type=_POSITIVE, help="Longest wait."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


_FOLDER = click.option("-C", "folder", type=click.Path(path_type=Path), default=Path(), help="The workspace.")


@goal_command.command("start")
@click.argument("goal", nargs=-1)
@click.option("--profile", default="goal", help="Kind of loop: a name, or a TOML file.")
@loop_options
@wait_options
@_FOLDER
def start_command(goal: tuple[str, ...], folder: Path, profile: str, *, is_json: bool, **given: Any) -> None:
    """Work towards GOAL: a text, or a file that holds it."""
    options = options_of(folder, profile, **given)
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
    for row in _goals():
        if is_json:
            click.echo(msgspec.json.encode(row).decode())
        else:
            state = f"{row.goal_state}, {row.iterations} iterations, {money(row.cost_usd)}"
            click.echo(plain(f"{row.id}  {when(row.updated_us)}  {state}  {row.goal}"))


@goal_command.command("show")
@click.argument("session")
def show_command(session: str) -> None:
    """Show where a goal stands."""
    config = load_config()
    store = Store(config.home)
    name = store.find(session)
    goal = asyncio.run(goals.load_goal(store, name))
    row = next(row for row in _goals() if row.id == name)
    rules = goal.now.rules
    total = f" of {rules.max_iterations}" if rules.max_iterations else ""
    lines = [
        f"goal {name} in {row.workspace}",
        f"  {goal.now.profile}, engine {goal.now.engine}, memory {goal.now.memory}",
        f"  {row.goal_state}: iteration {row.iterations}{total}, {money(row.cost_usd)}",
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
    name = store.find(session) if session else _newest_here()
    write_report(store, name, html=html, markdown=markdown, is_json=is_json)


@goal_command.command("profiles")
def profiles_command() -> None:
    """List the kinds of loops."""
    folder = load_config().folder
    for name in profile_names(folder):
        click.echo(f"{name}: {load_profile(name, folder).description}")


def options_of(folder: Path, profile: str, **given: Any) -> GoalOptions:
    """What the options of a loop ask for."""
    better, metric = "", ""
    if given["minimize"] and given["maximize"]:
        raise UsageError("A goal minimizes or maximizes one metric, not both.")
    if given["minimize"] or given["maximize"]:
        better = "lower" if given["minimize"] else "higher"
        metric = given["minimize"] or given["maximize"]
    names = (
        "max_iterations max_cost_usd max_tokens max_time_s max_idle_iterations max_failures max_refusals"
        " stall_s iteration_steps iteration_cost_usd iteration_time_s wait_s max_wait_s"
    )
    return GoalOptions(
        folder=folder,
        profile=profile,
        engine=given["engine"],
        checks=GoalChecks(
            commands=given["checks"], files=given["files"], targets=tuple(map(parse_target, given["targets"]))
        ),
        rules={name: given[name] for name in names.split() if given.get(name) is not None},
        evaluation=Evaluation(
            command=given["evaluate"],
            repeats=given["repeats"],
            frozen=given["frozen"],
            better=better,
            metric=metric,
        ),
        model=next(iter(given["models"]), ""),
        fallback=tuple(given["models"][1:]),
        effort=given["effort"],
        mode=given["mode"] or "",
        sandbox=given["sandbox"] or "",
        allow_unpriced=given["allow_unpriced"],
    )


def parse_target(text: str) -> Target:
    found = _TARGET.fullmatch(text)
    if found is None:
        raise UsageError(f"The target {text!r} cannot be read.", remedy='Write it as "time<=1.5".')
    return Target(metric=found[1], relation=found[2], value=float(found[3]))  # pyright: ignore[reportArgumentType]


def _tell(session: str, order: Order, event: GoalPaused | GoalEnded) -> None:
    store = Store(load_config().home)
    name = store.find(session)
    goal = asyncio.run(goals.load_goal(store, name))
    if goal.ended is not None:
        click.echo(f"{name} has ended: {goal.ended.ending}")
        return
    told = asyncio.run(tell(store, name, order, event))
    click.echo(f"{name}: {told}")


def _goals() -> list[SessionRow]:
    return [row for row in Store(load_config().home).sessions() if row.goal]


def _newest_here() -> str:
    here = str(Path.cwd().resolve())
    for row in _goals():
        if row.workspace == here:
            return row.id
    raise UsageError("No goal was worked on in this folder.", remedy="Name one: mainspring goal list.")
