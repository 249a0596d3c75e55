"""`farm`: one task attempted in parallel git worktrees, compared, and the best one landed."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from mainspring.app.operations.farm import (
    AT_ONCE,
    Farm,
    FarmAttempt,
    FarmHow,
    FarmPlan,
    land_farm,
    resume_farm,
    start_farm,
)
from mainspring.app.operations.farm_base import uncommitted
from mainspring.cli.ask import approver
from mainspring.cli.config import load_config, offer_setup
from mainspring.cli.family_options import FAMILY_OPTIONS, OUTPUT_OPTIONS
from mainspring.cli.json_output import json_line
from mainspring.cli.options import with_options
from mainspring.cli.piped import with_piped
from mainspring.documents.figures import money
from mainspring.errors import UsageError
from mainspring.events import MAX_ATTEMPTS, AttemptEnded, AttemptStarted, Effort, Limits
from mainspring.events.counts import plural
from mainspring.secrets.screen import plain

_HEAD = ("", "attempt", "model", "checks", "change", "cost", "time", "risk", "branch")
_options = with_options(
    click.option(
        "-n",
        "attempts",
        type=click.IntRange(1, MAX_ATTEMPTS),
        help="Attempts; by default one per model, at least 2.",
    ),
    click.option("--model", "models", multiple=True, help="Model or tier; several are taken in turn."),
    click.option(
        "--hint", "hints", multiple=True, help="Told to some attempts only; several are taken in turn."
    ),
    click.option(
        "--check", "checks", multiple=True, help="Command that must exit with 0; may be given several times."
    ),
    click.option(
        "--judge", default="", help="Model that decides between attempts that are equal in checks and risk."
    ),
    click.option(
        "--parallel",
        type=click.IntRange(min=1),
        default=AT_ONCE,
        show_default=True,
        help="Attempts at a time.",
    ),
    *FAMILY_OPTIONS,
    click.option(
        "--land", "lands", is_flag=True, help="Bring the best attempt into the current branch, if it passes."
    ),
    click.option("--yes", "is_agreed", is_flag=True, help="With --land: agree to it, whatever its risk."),
    click.option("--drop", "drops", is_flag=True, help="With --land: remove the branches of the others."),
    click.option("--resume", "session", default="", help="Go on with this farm, or land it."),
    *OUTPUT_OPTIONS,
)


@click.command("farm")
@click.argument("task", default="")
@_options
def farm_command(
    task: str,
    session: str,
    folder: Path,
    *,
    lands: bool,
    drops: bool,
    is_agreed: bool,
    is_json: bool,
    **given: Any,
) -> None:
    """Attempt TASK several times at once, each in a git worktree of its own, check all with the same
    commands, and name the best. Each stays as a branch; --land brings the best one into yours."""
    if not session and not (task := with_piped(task.strip())):
        raise UsageError("The task is empty.", remedy='Say what to do: mainspring farm -n 3 "fix the bug".')
    if not (session or given["models"]):
        offer_setup()
    farm, problem = asyncio.run(_farm(task, session, folder, lands=lands, **given)), None
    if farm.best and lands and farm.is_passed and not farm.is_landed:
        try:
            landing = land_farm(load_config(), farm.session, drops=drops, is_agreed=is_agreed)
            moved = asyncio.run(landing)
        except UsageError as error:  # what came of the attempts is shown all the same
            problem = error
        else:
            farm = replace(farm, is_landed=True)
            click.echo(plain(f"attempt {farm.best} landed on {moved.base} as {moved.commit[:12]}"), err=True)
    click.echo(json_line(farm) if is_json else plain(farm_table(farm)))
    if problem:
        raise problem
    sys.exit(0 if farm.is_passed else 3 if farm.open else 1)


async def _farm(
    task: str,
    session: str,
    folder: Path,
    *,
    lands: bool,
    attempts: int | None,
    models: tuple[str, ...],
    hints: tuple[str, ...],
    checks: tuple[str, ...],
    judge: str,
    parallel: int,
    effort: Effort | None,
    mode: str | None,
    sandbox: str | None,
    max_cost_usd: float | None,
    max_tokens: int | None,
    allow_unpriced: bool,
    allow_home: Any,
) -> Farm:
    how = FarmHow(
        mode=mode or "",
        sandbox=sandbox or "",
        effort=effort,
        allow_unpriced=allow_unpriced,
        allow_home=allow_home,
        approver=approver(),
        at_once=parallel,
        on_change=_tell,
    )
    if session:
        return await resume_farm(load_config(), session, how)
    plan = FarmPlan(
        task=task,
        attempts=attempts or max(len(models), 2),
        models=models,
        hints=hints,
        checks=checks,
        judge=judge,
        limits=Limits(max_cost_usd=max_cost_usd, max_tokens=max_tokens),
        is_landing=lands,
    )
    if left := uncommitted(load_config(), folder):
        shown = f"{', '.join(left[:5])}{' …' if len(left) > 5 else ''}"
        click.echo(plain(f"! not committed, so not in the attempts: {shown}"), err=True)
    return await start_farm(load_config(), folder, plan, how)


def _tell(event: AttemptStarted | AttemptEnded) -> None:
    if isinstance(event, AttemptStarted):
        model = f" by {event.model}" if event.model else ""
        text = f"· attempt {event.attempt}{model}: session {event.session}"
    else:
        mark = "✓" if event.is_passed else "✗"
        text = f"{mark} attempt {event.attempt}: {_checks(event)}, {event.ending} {event.detail}".rstrip()
    click.echo(plain(text), err=True)


def farm_table(farm: Farm) -> str:
    """What came of each attempt, and which is the best."""
    rows = [_HEAD, *(_row(farm, each) for each in farm.attempts)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(_HEAD))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    if farm.best:
        landed = " It has landed." if farm.is_landed else ""
        lines.append(f"\nThe best is attempt {farm.best}: {farm.reason}.{landed}")
        if not farm.is_landed and farm.attempt(farm.best).ended:
            lines.append(f"Land it: mainspring farm --resume {farm.session} --land")
    else:
        lines.append(
            f"\n{plural(len(farm.open), 'attempt')} not over: mainspring farm --resume {farm.session}"
        )
    return "\n".join(lines)


def _row(farm: Farm, attempt: FarmAttempt) -> tuple[str, ...]:
    started, ended = attempt.started, attempt.ended
    model = started.model.rpartition("#")[2].rpartition("/")[2]
    if ended is None:
        return ("", str(started.attempt), model, "not over", "", "", "", "", started.branch)
    change = (
        f"{plural(len(ended.files), 'file')}, {plural(ended.changed_lines, 'line')}"
        if ended.commit
        else "none"
    )
    return (
        "▸" if farm.best == started.attempt else "",
        str(started.attempt),
        model,
        _checks(ended),
        change,
        money(ended.used.usd),
        f"{ended.used.time_s:.0f} s",
        ", ".join(ended.risks) or "none seen",
        started.branch,
    )


def _checks(ended: AttemptEnded) -> str:
    total = len(ended.passed) + len(ended.failed)
    return f"{len(ended.passed)} of {total} passed" if total else ended.ending
