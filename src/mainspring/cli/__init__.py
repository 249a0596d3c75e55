"""The command line. Each command lives in a module of its own that is imported when it is called."""

from __future__ import annotations

import gc
import sys

from mainspring import __version__
from mainspring.cli.streams import run_with_streams


def main() -> None:
    """The entry point of the `mainspring` command."""
    run_with_streams(_run)


def _run() -> None:
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"mainspring {__version__}\n")
        return
    gc.disable()  # nothing is garbage while a command starts; who runs for long turns it on again
    try:
        from mainspring.cli.commands import run_command  # noqa: PLC0415 - `--version` must not wait for it
    except KeyboardInterrupt:
        sys.exit(130)
    run_command()
