"""`run`. What takes a turn (`turn.py`) is loaded once it is wanted, so that `--help` does not wait for models
and sandboxes.
"""

from __future__ import annotations

import asyncio
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from mainspring.cli.blocking import wait_for
from mainspring.cli.config import load_config, offer_setup
from mainspring.cli.piped import with_piped
from mainspring.cli.queue_options import leave_control, queue_options, queue_place
from mainspring.cli.server_option import with_server
from mainspring.cli.turn_options import turn_options
from mainspring.errors import UsageError
from mainspring.events import MAX_ATTEMPTS
from mainspring.secrets.screen import plain

_TURN = "mainspring.cli.turn"


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
