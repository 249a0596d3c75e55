"""`!command`: a person runs a command in the session's sandbox; the model is told what came of it."""

from __future__ import annotations

import asyncio
import codecs
import time

from mainspring.app.operations.typed_commands import run_typed
from mainspring.chat.blocks import SHELL_SOURCE, took
from mainspring.chat.desk import Desk
from mainspring.events.counts import plural
from mainspring.secrets.screen import plain, plain_name

_SHOWN_LINES = 30
_NOTE_CHARS = 12_000
_KEPT_CHARS = 100_000


async def run_shell(desk: Desk, command: str) -> None:
    """Runs it under the rules of the session's mode; typing it was the consent. It is on record twice: by
    itself, as `mainspring execs` lists it, and as a note to the model."""
    state, since_s = desk.own.state, time.monotonic()
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    printed = ""
    with desk.chat.view.own_work("!", command, since_s) as take:

        def hear(chunk: bytes) -> None:
            nonlocal printed
            text = decoder.decode(chunk)
            printed = (printed + text)[-_KEPT_CHARS:]
            take(text)

        try:
            ran = await run_typed(
                desk.config,
                state.workspace,
                command,
                mode=state.mode,
                sandbox=desk.options.sandbox,
                allow_home=True,  # as the session was allowed when it was opened in this very folder
                on_output=hear,
            )
        except asyncio.CancelledError:
            _show(
                desk,
                command,
                " · ".join(filter(None, ("stopped", took(time.monotonic() - since_s)))),
                printed,
            )
            await _tell(desk, command, "stopped by the user", printed)
            raise
    if ran.is_ok:
        _show(desk, command, took(ran.took_s), ran.output, mark="✓")
    else:
        _show(desk, command, " · ".join(filter(None, (ran.ending, took(ran.took_s)))), ran.output)
    if ran.is_run:
        await _tell(desk, command, ran.ending, ran.output)


def _show(desk: Desk, command: str, tail: str, output: str, *, mark: str = "✗") -> None:
    palette = desk.surface.palette
    head = f"{palette.marked(mark)} {palette.paint('!', 'bold')} {plain_name(command)}"
    head += palette.paint(f" · {tail}", "dim") if tail else ""
    desk.write("\n".join([head, *_shown(output)]))


async def _tell(desk: Desk, command: str, ending: str, output: str) -> None:
    text = f"The user ran this command: {command}\n{ending}; output:\n{_bounded(output)}"
    await desk.own.note(text, SHELL_SOURCE)


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
