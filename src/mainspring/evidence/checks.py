"""Whether a goal is done: by commands that exit with 0, files that are there, and what was measured.

Nobody's word counts here. Each look is recorded with its exit code, output and hash, so that the report can
cite it. A check is a command of the user, confined like every other command.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from mainspring.disk.untrusted import open_untrusted
from mainspring.errors import SandboxError
from mainspring.events import CheckEnded, Evaluation
from mainspring.evidence.commands import kept, run_line
from mainspring.evidence.evaluation import frozen_changes
from mainspring.sandbox import Sandbox
from mainspring.sandbox.files import Files
from mainspring.workspace import Keep

TIMEOUT_S = 1800.0
_SHOWN = 4000
_MAX_NAME = 200


async def run_check(
    line: str, sandbox: Sandbox, files: Files, keep: Keep, *, iteration: int, timeout_s: float = TIMEOUT_S
) -> CheckEnded:
    """Runs one command line; gives what to record."""
    try:
        ran = await run_line(sandbox, files, line, timeout_s)
    except SandboxError as error:
        detail = f"not run: {error.message}"
        return CheckEnded(iteration=iteration, check=line, kind="command", passed=False, detail=detail)
    finished = ran.finished
    return CheckEnded(
        iteration=iteration,
        check=line,
        kind="command",
        passed=ran.is_passed,
        exit_code=finished.exit_code,
        detail=finished.stopped or f"exit code {finished.exit_code}",
        output=await kept(ran, keep),
        sha256=hashlib.sha256(finished.stdout + finished.stderr).hexdigest(),
        duration_s=round(finished.duration_s, 3),
    )


def look_for(name: str, workspace: Path, *, iteration: int) -> CheckEnded:
    """Whether a file that must exist is there, inside the workspace, with something in it."""
    path = (workspace / name).resolve()
    detail, digest = "not there", ""
    if not path.is_relative_to(workspace.resolve()):
        detail = "outside the workspace"
    elif path.exists():
        try:
            with open_untrusted(path) as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
                size = os.fstat(file.fileno()).st_size
            detail = f"{size:,} bytes" if size else "empty"
        except OSError as error:
            detail = error.strerror or "not a file"
    passed = bool(digest) and detail != "empty"
    return CheckEnded(
        iteration=iteration,
        check=name,
        kind="file",
        passed=passed,
        detail=detail,
        sha256=digest,
        grade="verified" if passed else "",
    )


def frozen_check(
    evaluation: Evaluation, files: Files, *, iteration: int, before: tuple[str, ...] = ()
) -> CheckEnded | None:
    """Whether the frozen files are what they were, now and by what was seen `before`; None when none is. For
    a thread."""
    if not evaluation.frozen:
        return None
    changes = tuple(dict.fromkeys((*before, *frozen_changes(evaluation, files))))
    return CheckEnded(
        iteration=iteration,
        check=f"frozen: {', '.join(evaluation.frozen)}"[:_MAX_NAME],
        kind="file",
        passed=not changes,
        detail=f"changed, and must not be: {'; '.join(changes)}" if changes else "as they were",
        grade="" if changes else "verified",
    )


def failing_text(check: CheckEnded, output: bytes) -> str:
    """What the agent is told about a check that failed."""
    text = output.decode("utf-8", "replace").strip()
    cut = f"…\n{text[-_SHOWN:]}" if len(text) > _SHOWN else text
    return f"{check.check} ({check.detail})" + (f"\n{cut}" if cut else "")
