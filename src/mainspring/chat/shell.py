"""`!command`: a person runs a command in the session's sandbox; the model is told what came of it."""

from __future__ import annotations

import codecs
import time

from mainspring.app.operations.answers import consent
from mainspring.app.operations.commands import load_command, load_output
from mainspring.app.step import run_command
from mainspring.chat.blocks import SHELL_SOURCE, took
from mainspring.chat.desk import Desk
from mainspring.events.counts import plural
from mainspring.secrets.screen import plain, plain_name

_SHOWN_LINES = 30
_NOTE_CHARS = 12_000


async def run_shell(desk: Desk, command: str) -> None:
    """Runs it under the rules of the session's mode; typing it was the consent. It is on record twice: by
    itself, as `mainspring execs` lists it, and as a note to the model."""
    state, config, palette = desk.own.state, desk.config, desk.surface.palette
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    view = desk.chat.view
    view.begin_shell(command, time.monotonic())
    try:
        name = await run_command(
            ("bash", "-c", command),
            folder=state.workspace,
            mode="plan" if state.mode == "plan" else "auto",
            sandbox=desk.options.sandbox,
            allow_home=True,  # as the session was allowed when it was opened in this very folder
            approver=consent,
            on_output=lambda chunk: view.take_shell(decoder.decode(chunk)),
            config=config,
        )
    finally:
        view.end_shell()
    record = await load_command(config, name)
    out, err = (data.decode("utf-8", "replace") for data in await load_output(config, record))
    output = f"{out}{err}".strip("\n")
    seconds = ((record.ended_us or record.started_us) - record.started_us) / 1e6
    is_ok = record.exit_code == 0
    mark = palette.paint("✓", "green") if is_ok else palette.paint("✗", "red")
    is_run = record.exit_code is not None
    how = f"exit code {record.exit_code}" if is_run else f"{record.state}: {record.reason}"
    tail = " · ".join(filter(None, ("" if is_ok else how, took(seconds))))
    head = f"{mark} {palette.paint('!', 'bold')} {plain_name(command)}"
    head += palette.paint(f" · {tail}", "dim") if tail else ""
    desk.write("\n".join([head, *_shown(output)]))
    if is_run:
        await desk.own.note(
            f"The user ran this command: {command}\n{how}; output:\n{_bounded(output)}", SHELL_SOURCE
        )


def _shown(output: str) -> list[str]:
    lines = plain(output).split("\n") if output else []
    if len(lines) > _SHOWN_LINES:
        half = _SHOWN_LINES // 2
        lines = [*lines[:half], f"… {plural(len(lines) - 2 * half, 'more line')} …", *lines[-half:]]
    return [f"  {line}" for line in lines]


def _bounded(output: str) -> str:
    if len(output) <= _NOTE_CHARS:
        return output
    half = _NOTE_CHARS // 2
    return f"{output[:half]}\n… {len(output) - _NOTE_CHARS:,} characters left out …\n{output[-half:]}"
