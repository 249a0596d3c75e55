"""`fix`: a command that fails is made to pass, with every step on record."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from mainspring.app.operations.farm_base import uncommitted
from mainspring.app.operations.fix import (
    ATTEMPTS,
    MAX_REPEAT,
    TIMEOUT_S,
    FixHow,
    FixPlan,
    resume_fix,
    show_fix,
    start_fix,
)
from mainspring.app.operations.fix_report import AttemptReport, FixReport
from mainspring.cli.ask import approver
from mainspring.cli.config import load_config, offer_setup
from mainspring.cli.family_options import FAMILY_OPTIONS, OUTPUT_OPTIONS
from mainspring.cli.json_output import json_line
from mainspring.cli.options import POSITIVE, with_options
from mainspring.cli.system import say_limits
from mainspring.cli.turn import Lines, collect_garbage_again, obey_signals
from mainspring.documents.figures import money
from mainspring.documents.fix_lines import VERDICT_MARKS, outcome_words
from mainspring.errors import UsageError
from mainspring.events import MAX_ATTEMPTS, FixEnded, Limits
from mainspring.events.counts import plural
from mainspring.secrets.screen import plain
from mainspring.session.session import Session

_OF_RESUME = ("effort", "mode", "sandbox", "allow_unpriced", "allow_home")
_options = with_options(
    click.option(
        "--attempts",
        type=click.IntRange(1, MAX_ATTEMPTS),
        default=ATTEMPTS,
        show_default=True,
        help="Attempts, each from the same files; after failures a stronger tier of [tiers] takes over.",
    ),
    click.option(
        "--repeat",
        type=click.IntRange(1, MAX_REPEAT),
        default=1,
        show_default=True,
        help="How often the command must pass in a row; run as often to make it fail. For flaky tests.",
    ),
    click.option(
        "--timeout",
        type=POSITIVE,
        default=TIMEOUT_S,
        show_default=True,
        help="Maximum duration of one run of the command, or of all tests, in seconds.",
    ),
    click.option(
        "--check", "checks", multiple=True, help="Further command that must exit with 0 after the fix."
    ),
    click.option("--hint", default="", help="What you know about it; told to the agent."),
    click.option(
        "--allow-weaker-tests",
        "allows_weaker",
        is_flag=True,
        help="Accept a fix that deletes, skips or empties tests. It is told.",
    ),
    click.option(
        "--no-suite", "skips_suite", is_flag=True, help="Do not run the other tests of the project."
    ),
    click.option("--worktree", "in_worktree", is_flag=True, help="Work in a git worktree, on a new branch."),
    click.option(
        "--land", "is_landing", is_flag=True, help="With --worktree: merge the branch once it is fixed."
    ),
    click.option("--yes", "is_agreed", is_flag=True, help="With --land: agree to it, whatever its risk."),
    click.option("--model", "models", multiple=True, help="Model or tier. Given again: a fallback."),
    *FAMILY_OPTIONS,
    click.option("--resume", "session", default="", help="Go on with this fix, or land it."),
    click.option("--show", "shown", default="", help="Show how far this fix is."),
    click.option("--quiet", "is_quiet", is_flag=True, help="Print what came of it alone."),
    *OUTPUT_OPTIONS,
)


@click.command("fix")
@click.argument("command", default="")
@_options
def fix_command(
    command: str, session: str, shown: str, folder: Path, *, is_json: bool, is_landing: bool, **given: Any
) -> None:
    """Make COMMAND pass, which fails: `mainspring fix "pytest -q tests/test_x.py"`.

    It is run in the sandbox, twice; an agent says what it suspects and changes the code; then the command
    and all tests of the project are run again by mainspring. A fix that makes tests weaker or breaks others
    is refused, and after attempts in vain the files are as they were.

    Exit codes: 0 fixed, 1 not fixed or the command cannot run, 2 usage, 3 a person is needed, 4 budget spent,
    5 limit reached, 6 nothing to fix (the command passes), 7 flaky (see --repeat), 130 stopped.
    """
    if sum(map(bool, (command, session, shown))) != 1:
        raise UsageError(
            "Name a command, or a session with --resume or --show.",
            remedy='mainspring fix "pytest -q tests/test_x.py"',
        )
    if shown:
        _finish(asyncio.run(show_fix(load_config(), shown)), is_json=is_json)
    if command and not given["models"]:
        offer_setup()
    if given["in_worktree"] and (left := uncommitted(load_config(), folder)):
        names = f"{', '.join(left[:5])}{' …' if len(left) > 5 else ''}"
        click.echo(plain(f"! not committed, so not in the worktree: {names}"), err=True)
    given |= {"is_json": is_json, "is_landing": is_landing}
    _finish(asyncio.run(_run(command, session, folder, **given)), is_json=is_json)


def go_on(session: str, context: click.Context) -> None:
    """Goes on with the fix of a session as `resume` was asked to, and exits."""
    options = context.params
    for name in options:
        is_given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if is_given and name not in ("session", "models", "is_json", *_OF_RESUME):
            raise UsageError(
                f"Session {session} has a fix that is not over, and it takes no {name.replace('_', '-')}.",
                remedy=f"Go on with it: mainspring fix --resume {session}",
            )
    given = {name: options[name] for name in ("models", "is_json", *_OF_RESUME)}
    _finish(asyncio.run(_run("", session, Path(), **given)), is_json=options["is_json"])


async def _run(
    command: str,
    session: str,
    folder: Path,
    *,
    is_json: bool,
    is_quiet: bool = False,
    models: tuple[str, ...] = (),
    mode: str | None = None,
    sandbox: str | None = None,
    effort: Any = None,
    allow_unpriced: bool = False,
    allow_home: Any = False,
    timeout: float = TIMEOUT_S,
    max_cost_usd: float | None = None,
    max_tokens: int | None = None,
    is_landing: bool = False,
    is_agreed: bool = False,
    **plan: Any,
) -> FixReport:
    say_limits()
    watch = _Watch(is_quiet=is_json or is_quiet)
    how = FixHow(
        model=next(iter(models), ""),
        fallback=models[1:],
        mode=mode or "",
        sandbox=sandbox or "",
        effort=effort,
        allow_unpriced=allow_unpriced,
        allow_home=allow_home,
        approver=approver(),
        on_begin=watch.begin,
        on_event=watch.lines.show,
    )
    if command:
        limits = Limits(max_cost_usd=max_cost_usd, max_tokens=max_tokens)
        wanted = FixPlan(
            command=command,
            timeout_s=timeout,
            limits=limits,
            is_landing=is_landing,
            is_agreed=is_agreed,
            **plan,
        )
        work = start_fix(load_config(), folder, wanted, how)
    else:
        work = resume_fix(load_config(), session, how, is_landing=is_landing, is_agreed=is_agreed)
    try:
        return await work
    except asyncio.CancelledError:
        if not watch.is_stopped:
            raise
        return await show_fix(load_config(), watch.session)


class _Watch:
    """Shows what happens on standard error, and stops the work on a signal: a turn so that its end is
    recorded, a command of ours at once."""

    def __init__(self, *, is_quiet: bool) -> None:
        self.lines = Lines(is_structured=True, is_quiet=is_quiet)
        self.session = ""
        self._running: Session | None = None
        self._task: asyncio.Task[Any] | None = None

    def begin(self, session: Session) -> None:
        self.session, self._running, self._task = session.id, session, asyncio.current_task()
        click.echo(f"· session {session.id}; if interrupted: mainspring fix --resume {session.id}", err=True)
        if threading.current_thread() is threading.main_thread():  # the chat has signals of its own
            collect_garbage_again()
            obey_signals(self._stop)

    def _stop(self, _: signal.Signals) -> None:
        if self._running and self._running.is_running:
            self._running.stop_soon()
        elif self._task:
            self._task.cancel()

    @property
    def is_stopped(self) -> bool:
        """Whether a signal broke the work off; that is then dealt with."""
        return self._task is not None and bool(self._task.cancelling()) and not self._task.uncancel()


def _finish(report: FixReport, *, is_json: bool) -> None:
    click.echo(json_line(report) if is_json else plain(fix_text(report)))
    sys.exit(report.exit_code)


def fix_text(report: FixReport) -> str:
    """What came of a fix, and how that is known."""
    lines = [_heading(report)]
    if report.runs:
        lines.append(f"  reproduced: {report.failed_runs} of {plural(report.runs, 'run')} failed")
    if report.tests:
        lines.append(f"  failing: {', '.join(report.tests[:5])}")
    if report.places:
        lines.append(f"  points to: {', '.join(f'{each.path}:{each.line}' for each in report.places[:5])}")
    for attempt in report.attempts:
        lines += _attempt_lines(attempt)
    if report.files:
        lines.append(f"  changed: {', '.join(report.files)} ({plural(report.changed_lines, 'line')})")
    lines += [f"  not checked: {each}" for each in report.not_checked]
    lines += [f"  not put back: {each}" for each in report.left]
    if report.attempts and report.outcome not in ("fixed", None) and not report.left:
        lines.append("  the files are as they were before the attempts")
    lines += _next_lines(report)
    lines.append(f"(session {report.session}, {money(report.cost_usd)})")
    return "\n".join(lines)


def _heading(report: FixReport) -> str:
    if report.outcome is None:
        return f"not over ({report.detail}): {report.command}"
    ended = FixEnded(outcome=report.outcome, detail=report.detail)
    return f"{outcome_words(ended)}\n  command: {report.command}"


def _attempt_lines(attempt: AttemptReport) -> list[str]:
    mark = "✓" if attempt.is_passed else "✗" if attempt.ending else "…"
    model = attempt.model.rpartition("#")[2].rpartition("/")[2]
    lines = [f"  {mark} attempt {attempt.attempt} by {model}: {money(attempt.cost_usd)}"]
    for each in attempt.hypotheses:
        why = f" ({each.why})" if each.why else ""
        lines.append(f"      {VERDICT_MARKS[each.verdict]} {each.verdict}: {each.text}{why}")
    lines += [
        f"      {'✓' if check.passed else '✗'} {check.check}: {check.detail}" for check in attempt.checks
    ]
    return lines


def _next_lines(report: FixReport) -> list[str]:
    if report.outcome is None:
        return [f"Go on: mainspring fix --resume {report.session}"]
    if report.not_landed:
        return [f"Not landed: {report.not_landed}   (branch {report.branch})"]
    if report.is_landed:
        return ["The branch has landed."]
    if report.commit:
        return [f"Land it: mainspring fix --resume {report.session} --land   (branch {report.branch})"]
    return [f"Take it back: mainspring undo {report.session} --files"] if report.files else []
