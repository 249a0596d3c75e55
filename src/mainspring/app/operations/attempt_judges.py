"""Who says whether an attempt passed: command lines of the user, or whoever asks for attempts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from mainspring.context.history import read_all
from mainspring.events import CheckEnded, Event
from mainspring.evidence.checks import TIMEOUT_S, failing_text, run_check
from mainspring.session.session import Session, runtime_of
from mainspring.turns.runtime import Runtime

_MAX_TOLD = 2000
_TAKEN_BACK = (
    "Another attempt at the task that follows was made from the same files, and was taken back. It failed:"
)

Judge = Callable[[Session, int], Awaitable[Sequence[Event]]]
"""Looks at what an attempt left, and gives what to record of it. Each `CheckEnded` counts."""


def command_judge(checks: Sequence[str], *, iteration: int | None = None) -> Judge:
    """Runs command lines of the user in the workspace, confined."""

    async def judge(session: Session, attempt: int) -> list[CheckEnded]:
        return await run_commands(session, checks, f"checks-{attempt}", iteration=iteration or attempt)

    return judge


async def run_commands(
    session: Session,
    lines: Sequence[str],
    name: str,
    *,
    iteration: int,
    timeout_s: float = TIMEOUT_S,
    is_enough: Callable[[CheckEnded], bool] = lambda _: False,
) -> list[CheckEnded]:
    """Runs command lines one after another, until one of them is enough; gives what to record. What they do
    to files is on record under a name."""
    runtime = runtime_of(session)
    machine = runtime.workbench.time_machine
    found: list[CheckEnded] = []
    if not lines:
        return found
    await machine.begin(name)
    try:
        for line in lines:
            sandbox, files, keep = await runtime.sandbox(), runtime.workbench.files, runtime.recorder.put_blob
            ran = await run_check(line, sandbox, files, keep, iteration=iteration, timeout_s=timeout_s)
            found.append(ran)
            if is_enough(ran):
                break
    finally:
        changed = await machine.end([name], runtime.recorder.put_blobs)
        await runtime.record(*([changed] if changed else []))
    return found


async def failure_of(runtime: Runtime, started_seq: int) -> str:
    """What the next attempt is told about the checks that the one which began there failed."""
    looked = await read_all(runtime.journal, kinds=("CheckEnded",), after=started_seq)
    failed = [item.event for item in looked if isinstance(item.event, CheckEnded) and not item.event.passed]
    texts = [
        failing_text(check, await runtime.recorder.get_blob(check.output) if check.output else b"")
        for check in failed
    ]
    told = "\n\n".join(text if len(text) <= _MAX_TOLD else f"…{text[-_MAX_TOLD:]}" for text in texts)
    return f"{_TAKEN_BACK}\n\n{told}" if told else ""
