"""Whether a goal is done: by commands that exit with 0, files that are there, and what was measured.

Nobody's word counts here. Each look is recorded with its exit code, output and hash, so that the report can
cite it. A check is a command of the user, confined like every other command.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from mainspring.errors import SandboxError
from mainspring.events import CheckEnded
from mainspring.sandbox import Command, Sandbox

TIMEOUT_S = 1800.0
_SHOWN = 4000


async def run_check(
    command: str, sandbox: Sandbox, workspace: Path, *, iteration: int
) -> tuple[CheckEnded, bytes]:
    """Runs one command; gives what to record, and its whole output."""
    asked = Command(argv=("bash", "-c", command), cwd=workspace, timeout_s=TIMEOUT_S)
    try:
        finished = await sandbox.run(asked)
    except SandboxError as error:
        failed = CheckEnded(
            iteration=iteration,
            check=command,
            kind="command",
            passed=False,
            detail=f"not run: {error.message}",
        )
        return failed, b""
    output = finished.stdout + finished.stderr
    passed = finished.exit_code == 0 and not finished.stopped
    detail = finished.stopped or f"exit code {finished.exit_code}"
    ended = CheckEnded(
        iteration=iteration,
        check=command,
        kind="command",
        passed=passed,
        exit_code=finished.exit_code,
        detail=detail,
        sha256=hashlib.sha256(output).hexdigest(),
        duration_s=round(finished.duration_s, 3),
    )
    return ended, output


def look_for(name: str, workspace: Path, *, iteration: int) -> CheckEnded:
    """Whether a file that must exist is there, inside the workspace, with something in it."""
    path = (workspace / name).resolve()
    detail, digest = "not there", ""
    if not path.is_relative_to(workspace.resolve()):
        detail = "outside the workspace"
    elif path.is_file():
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        size = path.stat().st_size
        detail = f"{size:,} bytes" if size else "empty"
    elif path.exists():
        detail = "not a file"
    passed = bool(digest) and detail != "empty"
    return CheckEnded(
        iteration=iteration, check=name, kind="file", passed=passed, detail=detail, sha256=digest
    )


def failing_text(check: CheckEnded, output: bytes) -> str:
    """What the agent is told about a check that failed."""
    text = output.decode("utf-8", "replace").strip()
    cut = f"…\n{text[-_SHOWN:]}" if len(text) > _SHOWN else text
    return f"{check.check} ({check.detail})" + (f"\n{cut}" if cut else "")
