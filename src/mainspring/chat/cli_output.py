"""What a command of the command line prints, for the slash command of the same name: one rendering for both.

The command runs in a thread with a loop of its own; what it prints goes into a text, not to the terminal, and
its last line is shown while it runs.
"""

from __future__ import annotations

import asyncio
import io
import shlex
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout

import click

from mainspring.chat.desk import Desk
from mainspring.cli.commands import mainspring
from mainspring.errors import UsageError


async def cli_output(desk: Desk, *arguments: str) -> str:
    """Raises what the command raises, wrong usage as a `UsageError`."""
    name, *rest = arguments
    with desk.chat.view.own_work(f"/{name}", shlex.join(rest), time.monotonic()) as take:
        desk.surface.refresh()
        return await asyncio.to_thread(_run, arguments, take)


class _Written(io.StringIO):
    shows_progress = True

    def __init__(self, on_text: Callable[[str], object]) -> None:
        super().__init__()
        self._on_text = on_text

    def write(self, text: str, /) -> int:
        self._on_text(text)
        return super().write(text)


def _run(arguments: tuple[str, ...], on_text: Callable[[str], object]) -> str:
    written = _Written(on_text)
    with redirect_stdout(written), redirect_stderr(written):
        try:
            mainspring.main(list(arguments), standalone_mode=False)
        except click.ClickException as error:
            raise UsageError(error.format_message()) from error
        except (click.exceptions.Exit, SystemExit):
            pass
    lines = written.getvalue().strip("\n").split("\n")
    return "\n".join(line.rpartition("\r")[2] for line in lines)
