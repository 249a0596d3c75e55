"""`!command`: a person runs a command in the session's sandbox; the model is told what came of it."""

from __future__ import annotations

import codecs
import time

from mainspring.app.operations.typed_commands import run_typed
from mainspring.chat.blocks import SHELL_SOURCE, took
from mainspring.chat.desk import Desk
from mainspring.events.counts import plural
from mainspring.secrets.screen import plain, plain_name

_SHOWN_LINES = 30
_NOTE_CHARS = 12_000


async def run_shell(desk: Desk, command: str) -> None:
    """Runs it under the rules of the session's mode; typing it was the consent. It is on record twice: by
    itself, as `mainspring execs` lists it, and as a note to the model."""
    state, palette, view = desk.own.state, desk.surface.palette, desk.chat.view
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    with view.own_work("!", command, time.monotonic()) as take:
        ran = await run_typed(
            desk.config,
            state.workspace,
            command,
            mode=state.mode,
            sandbox=desk.options.sandbox,
            allow_home=True,  # as the session was allowed when it was opened in this very folder
            on_output=lambda chunk: take(decoder.decode(chunk)),
        )
    mark = palette.paint("✓", "green") if ran.is_ok else palette.paint("✗", "red")
    tail = " · ".join(filter(None, ("" if ran.is_ok else ran.ending, took(ran.took_s))))
    head = f"{mark} {palette.paint('!', 'bold')} {plain_name(command)}"
    head += palette.paint(f" · {tail}", "dim") if tail else ""
    desk.write("\n".join([head, *_shown(ran.output)]))
    if ran.is_run:
        await desk.own.note(
            f"The user ran this command: {command}\n{ran.ending}; output:\n{_bounded(ran.output)}",
            SHELL_SOURCE,
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
