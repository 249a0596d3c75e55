"""`run` and `resume`, and the options of a turn. What takes it (`turn.py`) is loaded once it is wanted, so
that `--help` does not wait for models and sandboxes.
"""

from __future__ import annotations

import asyncio
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import click

from mainspring.app.modes import MODE_NAMES, RUNG_NAMES
from mainspring.cli.allow_home import ALLOW_HOME
from mainspring.cli.blocking import wait_for
from mainspring.cli.config import NO_GATEWAY, NOTIFY, load_config, newest_here, offer_setup
from mainspring.cli.options import POSITIVE, with_options
from mainspring.cli.piped import with_piped
from mainspring.cli.queue_options import leave_control, queue_options, queue_place
from mainspring.cli.server_option import with_server
from mainspring.errors import UsageError
from mainspring.events import MAX_ATTEMPTS, Effort, Profile
from mainspring.secrets.screen import plain

_TURN = "mainspring.cli.turn"
turn_options = with_options(
    click.option("--json", "is_json", is_flag=True, help="Print one event per line as JSON."),
    click.option("--quiet", "is_quiet", is_flag=True, help="Print the answer alone, and what went wrong."),
    click.option(
        "--engine",
        default="",
        help="Who takes the turn: builtin, codex, claude, gemini, opencode, acp:COMMAND, exec:COMMAND.",
    ),
    click.option(
        "--model",
        "models",
        multiple=True,
        help="Model (anthropic/claude-…, provider@URL#name) or tier (fast). Given again: a fallback."
        " When turns keep failing, a stronger tier of [tiers] takes over; without [tiers] none does.",
    ),
    NO_GATEWAY,
    NOTIFY,
    click.option("--fallback", multiple=True, help="Model to use when the one before it fails."),
    click.option("--effort", type=click.Choice(get_args(Effort)), help="Reasoning effort of the model."),
    click.option(
        "--profile",
        type=click.Choice(get_args(Profile)),
        default=None,
        help="What the model can do: a small one gets few tools and short texts. By default by its size.",
    ),
    click.option(
        "--mode",
        type=click.Choice(MODE_NAMES),
        default=None,
        help="What needs approval, by name or as a level of autonomy.",
    ),
    click.option(
        "--sandbox",
        type=click.Choice(RUNG_NAMES),
        default=None,
        help="How to confine commands.",
    ),
    click.option(
        "--on",
        "machine",
        default="",
        metavar="NAME",
        help="Machine of [machines] that runs commands, over ssh.",
    ),
    click.option("--max-steps", type=click.IntRange(min=1), help="Maximum model requests in this turn."),
    click.option("--max-tokens", type=click.IntRange(min=1), help="Maximum tokens of the whole session."),
    click.option(
        "--max-cost-usd",
        type=POSITIVE,
        help="Maximum cost of the whole session, in US dollars.",
    ),
    click.option(
        "--max-cost-usd-today",
        type=POSITIVE,
        help="Maximum cost of all sessions together today (local time).",
    ),
    click.option("--max-calls", type=click.IntRange(min=1), help="Maximum tool calls in this turn."),
    click.option(
        "--allow-unpriced", is_flag=True, help="Accept a model of unknown price under a cost limit."
    ),
    ALLOW_HOME,
    click.option("--timeout", type=POSITIVE, help="Maximum duration of this turn, in seconds."),
    click.option(
        "--attach",
        multiple=True,
        type=click.Path(path_type=Path),
        help="Image, PDF or text file to send with the message.",
    ),
    click.option("--output-schema", type=click.Path(path_type=Path), help="JSON schema of the answer."),
)
"""The options that `run` and `resume` share."""


@click.command("run")
@click.argument("task", default="")
@turn_options
@click.option(
    "--input-format",
    type=click.Choice(["text", "jsonl"]),
    default="text",
    help="jsonl: a program drives the session with lines of JSON (see `mainspring schema`); needs --json.",
)
@click.option("-C", "folder", type=click.Path(path_type=Path), default=Path(), help="The workspace.")
@click.option("--branch", "is_branched", is_flag=True, help="Work on a new git branch.")
@click.option(
    "--attempts",
    type=click.IntRange(1, MAX_ATTEMPTS),
    help="Attempts from the same conversation and files, until one passes; else the best is kept."
    " By default 1, and 3 for a small model where a test command is known.",
)
@click.option(
    "--check",
    "checks",
    multiple=True,
    help="Command that must exit with 0 for an attempt to pass; may be given several times.",
)
@queue_options
@with_server("run")
def run_command(
    task: str, folder: Path, *, is_branched: bool, input_format: str, queue: str, labels: str, **options: Any
) -> None:
    """Give an agent TASK to do in the workspace, with nobody at the keyboard. What is piped in is added to
    it, or is the task (`-`). The answer goes to standard output, everything else to standard error."""
    if input_format == "jsonl":
        options["control"] = _control(**options)
    elif not (task := with_piped(task.strip())):
        raise UsageError("The task is empty.", remedy='Say what to do: mainspring run "make the tests pass".')
    if place := queue_place(queue, labels, **options):
        options["control"] = leave_control(place, is_branched=is_branched, **options)
    if not (options["models"] or options["engine"]):
        offer_setup()
    if task.startswith("/") or "@" in task:
        task = _prepared(task, folder, options)
    turn = import_module(_TURN)
    sys.exit(wait_for(turn.take_turn(task, "", folder, is_branched=is_branched, **options)))


def _prepared(task: str, folder: Path, options: dict[str, Any]) -> str:
    """What a task stands for that names a command, a prompt or a resource; any other as it is."""
    operation = import_module("mainspring.app.operations.user_commands")
    given = {name: options[name] or "" for name in ("mode", "sandbox")}
    prepared = asyncio.run(
        operation.prepare_line(
            load_config(), folder.expanduser().resolve(), task, allow_home=options["allow_home"], **given
        )
    )
    if prepared is None:
        return task
    for notice in prepared.notices:
        click.echo(plain(notice), err=True)
    if prepared.model and not options["models"]:
        options["models"] = (prepared.model,)
    return prepared.text


def _control(*, is_json: bool, attempts: int | None, checks: tuple[str, ...], **_: Any) -> Any:
    if not is_json:
        raise UsageError(
            "--input-format jsonl needs --json.", remedy="Add --json: events come as lines of JSON."
        )
    if attempts or checks:
        raise UsageError("--attempts and --check are for one task.", remedy="Leave them out with jsonl.")
    return import_module("mainspring.protocols.jsonl").JsonControl()


@click.command("retry")
@click.argument("session", default="")
@turn_options
def retry_command(session: str, **options: Any) -> None:
    """Take back the last turn of SESSION (by default the newest of this folder), with what it did to files,
    and ask the same again: with another --model or --effort, if given."""
    session = session or newest_here(load_config())
    turn = import_module(_TURN)
    sys.exit(wait_for(turn.take_turn("", session, is_retry=True, **options)))


@click.command("resume")
@click.argument("session", default="")
@click.argument("text", default="")
@turn_options
def resume_command(session: str, text: str, **options: Any) -> None:
    """Continue SESSION (by default the newest of this folder), and tell it TEXT if given; `-` is what is
    piped in."""
    session = session or newest_here(load_config())
    text = with_piped(text) if text == "-" else text
    sessions = import_module("mainspring.app.operations.sessions")
    if not text and asyncio.run(sessions.has_open_tasks(load_config(), session)):
        import_module("mainspring.cli.tasks").go_on(session, click.get_current_context())
    if not text and asyncio.run(sessions.has_open_fix(load_config(), session)):
        import_module("mainspring.cli.fix").go_on(session, click.get_current_context())
    turn = import_module(_TURN)
    sys.exit(wait_for(turn.take_turn(text, session, **options)))
