"""`execs`: commands that were run without an agent, from the journals, without an event loop."""

from __future__ import annotations

import asyncio
import shlex
import sys
from typing import Any

import click
import msgspec

from mainspring.app.operations.steps import StepRecord, list_steps, load_output, load_step
from mainspring.cli.config import load_config_or_defaults
from mainspring.documents.lines import when
from mainspring.secrets.screen import plain

_LINE = 60


@click.group("execs", invoke_without_command=True)
@click.option("--json", "is_json", is_flag=True, help="Print one command per line as JSON.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="How many to list.")
@click.pass_context
def execs_command(context: click.Context, *, is_json: bool, limit: int) -> None:
    """List the commands that were run without an agent, the newest first."""
    if context.invoked_subcommand is not None:
        return
    steps = asyncio.run(list_steps(load_config_or_defaults(), limit=limit))
    for step in steps:
        click.echo(msgspec.json.encode(as_row(step)) if is_json else _line(step))
    if not steps and not is_json:
        click.echo("No commands yet. Run one: mainspring exec -- COMMAND", err=True)


@execs_command.command("show")
@click.argument("id")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON object.")
def show_command(id: str, *, is_json: bool) -> None:  # noqa: A002
    """Show one command with all of its output."""
    config = load_config_or_defaults()
    step = asyncio.run(load_step(config, id))
    stdout, stderr = (data.decode("utf-8", "replace") for data in asyncio.run(load_output(config, step)))
    if is_json:
        click.echo(msgspec.json.encode({**as_row(step), "stdout": stdout, "stderr": stderr}))
    else:
        _show(step, stdout, stderr)


def as_row(step: StepRecord) -> dict[str, Any]:
    return {
        "id": step.id,
        "state": step.state,
        "argv": step.argv,
        "cwd": step.cwd,
        "template": step.template,
        "label": step.label,
        "start": when(step.started_us),
        "end": when(step.ended_us) if step.ended_us else None,
        "exit_code": step.exit_code,
        "bytes": step.output_bytes,
        "reason": step.reason,
        "stdout_sha256": step.stdout.sha256 if step.stdout else None,
        "stderr_sha256": step.stderr.sha256 if step.stderr else None,
    }


def _line(step: StepRecord) -> str:
    code = "" if step.exit_code is None else step.exit_code
    command = plain(shlex.join(step.argv))[:_LINE]
    return (
        f"{step.id}  {when(step.started_us)}  {step.state:<9} {code:>4} {step.output_bytes:>11,}  {command}"
    )


def _show(step: StepRecord, stdout: str, stderr: str) -> None:
    for name, value in as_row(step).items():
        shown = shlex.join(step.argv) if name == "argv" else value
        if shown not in (None, ""):
            click.echo(plain(f"{name}: {shown}"))
    for name, blob, text in (("stdout", step.stdout, stdout), ("stderr", step.stderr, stderr)):
        if blob is not None:
            click.echo(f"--- {name}")
            click.echo(plain(text), nl=False)
    sys.stdout.flush()
