"""Standard input as part of the task (`git diff | mainspring run "review this"`), or all of it (`run -`)."""

from __future__ import annotations

import io
import os
import select
import stat
import sys

import click

from mainspring.errors import UsageError

_MAX_BYTES = 4 << 20
_SILENT_S = 2.0


def with_piped(task: str) -> str:
    """The task with what was piped in; `-` or no task at all means that alone. A terminal, a closed input and
    /dev/null are not read."""
    if task == "-":
        return _read(is_wanted=True)
    piped = _read(is_wanted=not task)
    if task and piped:
        return f"{task}\n\nFrom standard input:\n\n{piped}"
    return task or piped


def _read(*, is_wanted: bool) -> str:
    """What is piped in. Beside a task, a pipe that stays silent is left alone: whoever started us may have
    given us one and never close it."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except io.UnsupportedOperation:  # a stream in memory
        mode = 0
    is_given = stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)
    if not is_given and (not is_wanted or sys.stdin.isatty()):
        return ""
    if is_given and not select.select([sys.stdin], [], [], _SILENT_S)[0]:
        if not is_wanted:
            click.echo("nothing came from standard input; going on without it", err=True)
            return ""
        click.echo("reading standard input until it ends (< /dev/null gives none)", err=True)
    data = sys.stdin.buffer.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise UsageError(
            f"Standard input has more than {_MAX_BYTES >> 20} MiB.",
            remedy="Write it to a file in the workspace, and name that file in the task.",
        )
    return data.decode("utf-8", "replace").replace("\0", "\N{REPLACEMENT CHARACTER}").strip()
