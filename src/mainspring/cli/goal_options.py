"""The options of a goal: those that every loop has, and what they ask for."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import click

from mainspring.app.goals import GoalOptions, with_longest_wait
from mainspring.app.modes import CLASSIC_SANDBOXES, MODE_NAMES, RUNG_NAMES, classic_sandbox
from mainspring.app.operations.schedule_arguments import parse_target
from mainspring.cli.allow_home import ALLOW_HOME
from mainspring.cli.config import NO_GATEWAY
from mainspring.cli.options import NOT_NEGATIVE, POSITIVE, with_options
from mainspring.errors import UsageError
from mainspring.events import MAX_ATTEMPTS, Effort, Evaluation, GoalChecks

loop_options = with_options(
    click.option("--json", "is_json", is_flag=True, help="Print one event per line as JSON."),
    click.option("--engine", default="", help="Agent that takes the turns; see mainspring engines."),
    click.option("--model", "models", multiple=True, help="Model; given again: a fallback."),
    NO_GATEWAY,
    click.option("--effort", type=click.Choice(get_args(Effort)), help="Reasoning effort of the model."),
    click.option("--mode", type=click.Choice(MODE_NAMES), help="What needs approval."),
    click.option(
        "--sandbox",
        type=click.Choice((*RUNG_NAMES, *CLASSIC_SANDBOXES)),
        help="How to confine commands; read-only also means --mode plan, danger-full-access --mode yolo.",
    ),
    click.option("--on", "machine", default="", metavar="NAME", help="Machine that runs commands, over ssh."),
    click.option("--check", "checks", multiple=True, help="Command that must exit with 0."),
    click.option("--file", "files", multiple=True, help="File that must exist."),
    click.option("--target", "targets", multiple=True, help='Metric to reach, as "time<=1.5".'),
    click.option("--max-cost-usd", type=POSITIVE, help="Maximum cost of the whole goal, in US dollars."),
    click.option("--max-tokens", type=click.IntRange(min=1), help="Maximum tokens of the whole goal."),
    click.option(
        "--max-time",
        "max_time_s",
        type=POSITIVE,
        help="Maximum working time of the whole goal, in seconds.",
    ),
    click.option(
        "--max-idle",
        "max_idle_iterations",
        type=click.IntRange(min=1),
        help="Maximum iterations in a row without progress.",
    ),
    click.option("--max-failures", type=click.IntRange(min=1), help="Maximum failed iterations in a row."),
    click.option(
        "--max-refusals",
        type=click.IntRange(min=1),
        help="Maximum refused claims to be done.",
    ),
    click.option(
        "--stall", "stall_s", type=POSITIVE, help="End a wait after this many seconds without CPU use."
    ),
    click.option(
        "--iteration-steps", type=click.IntRange(min=1), help="Maximum model requests per iteration."
    ),
    click.option("--iteration-cost-usd", type=POSITIVE, help="Maximum cost per iteration, in US dollars."),
    click.option(
        "--iteration-time", "iteration_time_s", type=POSITIVE, help="Maximum seconds per iteration."
    ),
    click.option(
        "--attempts",
        type=click.IntRange(1, MAX_ATTEMPTS),
        help="Attempts at each iteration, from the same files, until its checks pass.",
    ),
    click.option("--evaluate", default="", help="Command that measures results after each iteration."),
    click.option("--repeats", type=click.IntRange(min=1), help="Runs of the --evaluate command, usually 3."),
    click.option("--frozen", multiple=True, help="File of a check or evaluation that must not change."),
    click.option(
        "--results",
        multiple=True,
        help="CSV or JSON file of which every number is a metric.",
    ),
    click.option("--minimize", default="", help="Metric to lower."),
    click.option("--maximize", default="", help="Metric to raise."),
    click.option("--memory", default="", help="Memory file, usually projects/memory.md."),
    click.option(
        "--allow-unpriced", is_flag=True, help="Accept a model of unknown price under a cost limit."
    ),
    ALLOW_HOME,
    click.option("--notify", multiple=True, help="Channel of [notify] that is told about this goal."),
    click.option("--max-iterations", type=click.IntRange(min=1), help="Maximum iterations."),
)
"""The options that every loop has."""
wait_options = with_options(
    click.option("--wait-seconds", "wait_s", type=NOT_NEGATIVE, help="Seconds between iterations."),
    click.option("--max-wait-seconds", "max_wait_s", type=NOT_NEGATIVE, help="Longest wait, in seconds."),
)
FOLDER = click.option("-C", "folder", type=click.Path(path_type=Path), default=Path(), help="The workspace.")
start_options = with_options(
    click.option("--profile", default="goal", help="Kind of loop: a name, or a TOML file."),
    loop_options,
    wait_options,
    FOLDER,
)
"""Those of `goal start`."""


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
        " stall_s iteration_steps iteration_cost_usd iteration_time_s wait_s max_wait_s attempts"
    )
    sandbox, mode = classic_sandbox(given["sandbox"] or "", given["mode"] or "")
    return GoalOptions(
        folder=folder,
        profile=profile,
        engine=given["engine"],
        checks=GoalChecks(
            commands=given["checks"], files=given["files"], targets=tuple(map(parse_target, given["targets"]))
        ),
        rules=with_longest_wait({name: given[name] for name in names.split() if given.get(name) is not None}),
        evaluation=Evaluation(
            command=given["evaluate"],
            repeats=given["repeats"] or 0,
            frozen=given["frozen"],
            better=better,
            metric=metric,
            results=given["results"],
        ),
        model=next(iter(given["models"]), ""),
        fallback=tuple(given["models"][1:]),
        effort=given["effort"],
        mode=mode,
        sandbox=sandbox,
        machine=given["machine"],
        memory=given["memory"],
        allow_unpriced=given["allow_unpriced"],
        allow_home=given["allow_home"],
        notify=given["notify"],
    )
