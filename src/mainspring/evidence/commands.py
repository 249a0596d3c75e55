"""Runs a command line that decides something (a check, an evaluation), and keeps the end of what it said."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping

import msgspec

from mainspring.errors import PathRefused
from mainspring.events import Blob
from mainspring.sandbox import Command, CommandResult, Confinement, Sandbox
from mainspring.sandbox.files import Files
from mainspring.workspace import Keep

MAX_KEPT_BYTES = 64_000
_MAX_LINE = 200
_NO_BYTECODE = {"PYTHONDONTWRITEBYTECODE": "1"}
"""Python takes bytecode for that of a file whose size and second of change are the same: what one attempt
left would be judged again in the place of the next."""


class Ran(msgspec.Struct, frozen=True):
    """What a command line did: `said` is the end of its output, `line` the last line of it."""

    finished: CommandResult
    said: bytes
    line: str

    @property
    def is_passed(self) -> bool:
        return self.finished.exit_code == 0 and not self.finished.stopped

    @property
    def told(self) -> str:
        """How it ended, in one line."""
        how = self.finished.stopped or f"exit code {self.finished.exit_code}"
        return f"{how}: {self.line}" if self.line else how


async def run_line(
    sandbox: Sandbox,
    files: Files,
    line: str,
    timeout_s: float,
    *,
    policy: Confinement | None = None,
    env: Mapping[str, str] | None = None,
) -> Ran:
    """Runs a command line in the workspace of `files`; one that is not the sandbox's own has its `policy`."""
    command = Command(
        argv=("bash", "-c", line),
        cwd=files.policy.workspace,
        timeout_s=timeout_s,
        policy=policy,
        env={**_NO_BYTECODE, **(env or {})},
    )
    finished = await sandbox.run(command)
    said = finished.stdout[-MAX_KEPT_BYTES:]
    if finished.stderr.strip():
        said += b"\n[stderr]\n" + finished.stderr[-MAX_KEPT_BYTES:]
    shown = finished.stderr if finished.stderr.strip() and finished.exit_code else finished.stdout
    lines = shown[-MAX_KEPT_BYTES:].decode("utf-8", "replace").splitlines()
    last = next((text.strip() for text in reversed(lines) if text.strip()), "")
    return Ran(finished, said, last[:_MAX_LINE])


async def kept(ran: Ran, keep: Keep) -> Blob | None:
    """What it said as a blob; None when it said nothing."""
    return await keep(ran.said, "text/plain") if ran.said.strip() else None


def drop_bytecode(paths: Iterable[str], files: Files) -> None:
    """Removes what Python has cached of these files: it would run in place of a source that was not changed.
    For a thread."""
    for folder in {posixpath.dirname(path) for path in paths if path.endswith(".py")}:
        cache = posixpath.join(folder, "__pycache__")
        try:
            for entry in files.entries(cache):
                if entry.name.endswith(".pyc"):
                    files.remove(f"{cache}/{entry.name}")
        except (OSError, PathRefused):
            continue  # there is none, or nobody may write there
