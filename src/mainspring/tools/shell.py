"""Runs a command line in the sandbox and tells all of it: exit code, output, what was left running."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from msgspec import Meta

from mainspring.sandbox import Command, Finished
from mainspring.tools import Output, Place, Tool
from mainspring.tools.bounds import bounded
from mainspring.tools.files import described
from mainspring.tools.schema import Arguments

_MAX_SHOWN = 24_000


class ShellArguments(Arguments, frozen=True):
    command: Annotated[str, Meta(min_length=1, description="Command line for bash")]
    timeout_s: Annotated[float, Meta(gt=0, le=3600, description="Seconds until it is ended")] = 120


async def _run(arguments: ShellArguments, place: Place) -> Output:
    command = Command(
        argv=("bash", "-c", arguments.command), cwd=place.workspace, timeout_s=arguments.timeout_s
    )
    sandbox = await place.sandbox()
    finished = await sandbox.run(
        command, on_output=lambda chunk: place.show(chunk.decode("utf-8", errors="replace"))
    )
    is_error = finished.exit_code != 0 or bool(finished.stopped)
    output = Output(text=told(finished), is_error=is_error, exit_code=finished.exit_code)
    return await bounded(output, place, limit=min(_MAX_SHOWN, place.room))


def told(finished: Finished) -> str:
    """The result in words: nothing that happened is left out."""
    stdout = finished.stdout.decode("utf-8", errors="replace")
    stderr = finished.stderr.decode("utf-8", errors="replace")
    lines = [f"exit code {finished.exit_code}" + (f" ({finished.stopped})" if finished.stopped else "")]
    if finished.dropped_bytes:
        lines.append(f"({finished.dropped_bytes:,} bytes of output were dropped)")
    if finished.left_running:
        pids = ", ".join(map(str, finished.left_running))
        lines.append(f"still running in the background: {pids}")
    if stdout:
        lines += ["stdout:", stdout.rstrip("\n")] if stderr else [stdout.rstrip("\n")]
    if stderr:
        lines += ["stderr:", stderr.rstrip("\n")]
    return "\n".join(lines)


TOOL = Tool(
    name="shell",
    description=described(Path(__file__)),
    arguments=ShellArguments,
    effect="execute",
    command=lambda arguments: arguments.command,
    run=_run,
)
