"""`exec`: one command in the sandbox, decided by policy and kept on record, without an agent."""

from __future__ import annotations

import asyncio
import codecs
import signal
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import click

from mainspring.app.modes import MODE_NAMES, RUNG_NAMES
from mainspring.app.operations.commands import CommandRecord, load_command, load_output
from mainspring.app.step import run_command
from mainspring.app.workspaces import AllowHome
from mainspring.cli.allow_home import ALLOW_HOME
from mainspring.cli.ask import approver
from mainspring.cli.config import load_config
from mainspring.cli.exec_list import as_row
from mainspring.cli.json_output import json_line
from mainspring.cli.options import POSITIVE
from mainspring.cli.system import need_custody
from mainspring.secrets.screen import plain
from mainspring.settings import Config
from mainspring.system import stop_signals

_MIB = 1024 * 1024
_REFUSED = 3


@click.command("exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("argv", nargs=-1, required=True, metavar="-- COMMAND...")
@click.option("--timeout", type=POSITIVE, help="End it after this many seconds.")
@click.option("--cpu", type=click.IntRange(min=1), help="Maximum CPU time in seconds.")
@click.option("--mem", type=click.IntRange(min=0), help="Maximum memory in MiB (1024; 0: as any command).")
@click.option("--template", default="", help="Limits from [steps.NAME] of config.toml.")
@click.option("--mode", type=click.Choice(MODE_NAMES), default=None, help="What needs approval.")
@click.option("--sandbox", type=click.Choice(RUNG_NAMES), default=None, help="How to confine it.")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON object instead of its output.")
@click.option("-C", "folder", type=click.Path(path_type=Path), default=Path(), help="Folder to run it in.")
@ALLOW_HOME
def exec_command(
    argv: tuple[str, ...],
    *,
    timeout: float | None,
    cpu: int | None,
    mem: int | None,
    template: str,
    mode: str | None,
    sandbox: str | None,
    is_json: bool,
    folder: Path,
    allow_home: AllowHome,
) -> None:
    """Run COMMAND in the sandbox when the policy allows it, and record its output.

    The exit code is the command's own; 3 when it was refused, 130 when it was interrupted.
    """
    need_custody("`exec`")
    config = load_config()
    is_live = not is_json and sys.stdout.isatty()
    asking = run_command(
        argv,
        folder=folder,
        template=template,
        timeout_s=timeout,
        cpu_s=cpu,
        memory_bytes=mem and mem * _MIB,
        mode=mode or "",
        sandbox=sandbox or "",
        allow_home=allow_home,
        approver=approver(),
        on_output=_live() if is_live else None,
        config=config,
    )
    try:
        name = asyncio.run(_stoppable(asking))
    except asyncio.CancelledError:
        sys.exit(130)
    command = asyncio.run(load_command(config, name))
    if is_json:
        click.echo(json_line(as_row(command)))
    else:
        _print(command, config, is_live=is_live)
    sys.exit(_REFUSED if command.state == "refused" else command.exit_code)


def _print(command: CommandRecord, config: Config, *, is_live: bool) -> None:
    if not is_live:
        for stream, data in zip(
            (sys.stdout, sys.stderr), asyncio.run(load_output(config, command)), strict=True
        ):
            stream.buffer.write(data)
            stream.flush()
    code = "" if command.exit_code is None else f", exit code {command.exit_code}"
    click.echo(f"command {command.id} {command.state}{code} ({plain(command.reason)})", err=True)


def _live() -> Callable[[bytes], None]:
    """Shows output on the terminal as it comes, where it cannot do more than be read."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    return lambda chunk: click.echo(plain(decoder.decode(chunk)), nl=False)


async def _stoppable(asking: Coroutine[Any, Any, str]) -> str:
    """Ends the command when we are asked to end, so that this is on record."""
    if task := asyncio.current_task():
        for number in stop_signals():
            if number != signal.SIGINT:  # asyncio cancels the task by itself then
                asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    return await asking
