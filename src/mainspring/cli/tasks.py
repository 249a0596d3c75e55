"""`tasks`: a graph of tasks from a file, each done by an agent, side by side where nothing stands between."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from mainspring.app.operations.tasks import (
    AT_ONCE,
    TasksHow,
    TasksRun,
    plan_tasks,
    resume_tasks,
    show_tasks,
    start_tasks,
)
from mainspring.cli.ask import approver
from mainspring.cli.config import load_config, offer_setup
from mainspring.cli.family_options import FAMILY_OPTIONS, OUTPUT_OPTIONS
from mainspring.cli.json_output import json_line
from mainspring.cli.options import with_options
from mainspring.documents.figures import money
from mainspring.documents.task_tree import MARKS, TaskRow, task_tree
from mainspring.errors import UsageError
from mainspring.events import Limits
from mainspring.events.counts import plural
from mainspring.secrets.screen import plain

_OF_RESUME = ("effort", "mode", "sandbox", "allow_unpriced", "allow_home")
_options = with_options(
    click.option("--model", default="", help="Model or tier of tasks that name none."),
    click.option(
        "--parallel",
        type=click.IntRange(1, 8),
        default=AT_ONCE,
        show_default=True,
        help="Tasks at a time.",
    ),
    *FAMILY_OPTIONS,
    click.option("--check-only", "is_checked_only", is_flag=True, help="Check the file, and do nothing."),
    click.option("--resume", "session", default="", help="Go on with the tasks of this session."),
    click.option("--show", "shown", default="", help="Show how far the tasks of this session are."),
    *OUTPUT_OPTIONS,
)


@click.command("tasks")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@_options
def tasks_command(
    file: Path | None,
    session: str,
    shown: str,
    folder: Path,
    *,
    is_checked_only: bool,
    is_json: bool,
    **given: Any,
) -> None:
    """Have the tasks of FILE done, each by an agent in a copy of the workspace: those that need nothing more
    side by side, the others after what they need. A task that fails blocks only what needs it."""
    if sum(map(bool, (file, session, shown))) != 1:
        raise UsageError(
            "Name a file, or a session with --resume or --show.", remedy="mainspring tasks FILE.toml"
        )
    if shown:
        _finish(asyncio.run(show_tasks(load_config(), shown)), is_json=is_json)
    if file and is_checked_only:
        tasks = plan_tasks(load_config(), folder, file, given["model"])
        click.echo(plain(f"{file}: {plural(len(tasks), 'task')} can be done."))
        return
    if file and not given["model"]:
        plan_tasks(load_config(), folder, file)  # what is wrong with it is said before anything is asked
        offer_setup()
    _finish(asyncio.run(_run(file, session, folder, **given)), is_json=is_json)


def go_on(session: str, context: click.Context) -> None:
    """Goes on with the tasks of a session as `resume` was asked to, and exits."""
    options = context.params
    for name in options:
        is_given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if is_given and name not in ("session", "is_json", *_OF_RESUME):
            raise UsageError(
                f"Session {session} has tasks that are not over, and they take no {name.replace('_', '-')}.",
                remedy=f"Go on with them: mainspring tasks --resume {session}",
            )
    given = {name: options[name] for name in _OF_RESUME}
    _finish(asyncio.run(_run(None, session, Path(), **given)), is_json=options["is_json"])


async def _run(
    file: Path | None,
    session: str,
    folder: Path,
    *,
    mode: str | None,
    sandbox: str | None,
    parallel: int = AT_ONCE,
    max_cost_usd: float | None = None,
    max_tokens: int | None = None,
    **given: Any,
) -> TasksRun:
    how = TasksHow(
        limits=Limits(max_cost_usd=max_cost_usd, max_tokens=max_tokens),
        mode=mode or "",
        sandbox=sandbox or "",
        approver=approver(),
        at_once=parallel,
        on_begin=_tell_session,
        on_change=_tell,
        **given,
    )
    if file:
        return await start_tasks(load_config(), folder, file, how)
    return await resume_tasks(load_config(), session, how)


def _tell_session(session: str) -> None:
    click.echo(f"· session {session}; if it is interrupted: mainspring tasks --resume {session}", err=True)


def _tell(row: TaskRow) -> None:
    who = f" by {row.agent or 'general'}: session {row.session}" if row.state == "running" else ""
    why = f": {row.why}" if row.why else ""
    click.echo(plain(f"{MARKS[row.state]} {row.name} {row.state}{who}{why}"), err=True)


def _finish(run: TasksRun, *, is_json: bool) -> None:
    """Prints what came of the tasks, and exits with 0 only when all of them are done."""
    if is_json:
        click.echo(json_line(run))
    else:
        done = sum(row.state == "done" for row in run.tasks)
        click.echo(plain(task_tree(run.tasks)))
        click.echo(f"\n{done} of {plural(len(run.tasks), 'task')} done, {money(run.cost_usd)}")
        if not run.is_over:
            click.echo(f"Go on: mainspring tasks --resume {run.session}")
    sys.exit(0 if run.is_done else 1 if run.is_over else 3)
