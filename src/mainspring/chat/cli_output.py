"""What a command of the command line prints, for the slash command of the same name: one rendering for both.

The command runs in a thread with a loop of its own; what it prints goes into a text, not to the terminal.
"""

from __future__ import annotations

import asyncio
import io
from contextlib import redirect_stderr, redirect_stdout

import click

from mainspring.cli.commands import mainspring
from mainspring.errors import UsageError


async def cli_output(*arguments: str) -> str:
    """Raises what the command raises, wrong usage as a `UsageError`."""
    return await asyncio.to_thread(_run, arguments)


def _run(arguments: tuple[str, ...]) -> str:
    written = io.StringIO()
    with redirect_stdout(written), redirect_stderr(written):
        try:
            mainspring.main(list(arguments), standalone_mode=False)
        except click.ClickException as error:
            raise UsageError(error.format_message()) from error
        except (click.exceptions.Exit, SystemExit):
            pass
    return written.getvalue().strip("\n")
