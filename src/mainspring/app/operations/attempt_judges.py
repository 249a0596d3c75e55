"""Who says whether an attempt passed: command lines of the user, or whoever asks for attempts."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Sequence

from mainspring.app.operations.attempt_sizes import left_of
from mainspring.context.history import read_all
from mainspring.documents.findings import line_of
from mainspring.events import AttemptsStarted, CallEnded, ChangesChecked, CheckEnded, Event, SuiteEnded
from mainspring.evidence.checks import TIMEOUT_S, failing_text, run_check
from mainspring.sandbox import TIMED_OUT
from mainspring.session.session import Session, runtime_of
from mainspring.turns.runtime import Runtime
from mainspring.workspace.test_results import shortened

_MAX_TOLD = 2000
_LEAST_S, _LAST_S, _UNKNOWN_S = 60.0, 10.0, 300.0
_ROOM = 10.0
_TAKEN_BACK = (
    "Another attempt at the task that follows was made from the same files, and was taken back. It failed:"
)

Judge = Callable[[Session, int], Awaitable[Sequence[Event]]]
"""Looks at what an attempt left, and gives what to record of it. Each `CheckEnded` counts."""


def command_judge(checks: Sequence[str], *, iteration: int | None = None) -> Judge:
    """Runs command lines of the user in the workspace, confined."""

    async def judge(session: Session, attempt: int) -> list[CheckEnded]:
        number = iteration or attempt
        if await _cannot_run(session):
            return []
        if len(checks) == 1 and (known := await _known_failure(session, checks[0], number)):
            return [known]
        limit_s = await _time_limit_s(session, checks)
        return await run_commands(session, checks, f"checks-{attempt}", iteration=number, timeout_s=limit_s)

    return judge


async def _cannot_run(session: Session) -> bool:
    """Whether nobody asked for these attempts, and the tests that should judge them have no runner here."""
    found = await session.journal.last("AttemptsStarted")
    if found is None or not isinstance(found.event, AttemptsStarted) or not found.event.is_usual:
        return False
    ran = [item.event for item in await read_all(session.journal, kinds=("SuiteEnded",), after=found.seq)]
    return any(isinstance(each, SuiteEnded) and each.outcome == "unusable" for each in ran)


async def _known_failure(session: Session, check: str, iteration: int) -> CheckEnded | None:
    """What is known of a check without running it: a part of its tests failed already, by themselves, on the
    files as they are."""
    ran = await session.journal.last("SuiteEnded", "AttemptStarted")
    changed = await session.journal.last("FilesChanged")
    if ran is None or not isinstance(ran.event, SuiteEnded) or (changed and changed.seq > ran.seq):
        return None
    ended = ran.event
    if (
        ended.outcome != "failed"
        or ended.cause != "change"
        or not f"{ended.command} ".startswith(f"{check} ")
    ):
        return None
    said = ended.summary.partition("\n")[2] or ended.summary
    return CheckEnded(
        iteration=iteration,
        check=check,
        kind="command",
        passed=False,
        exit_code=ended.exit_code,
        detail=f"exit code {ended.exit_code}",
        output=await runtime_of(session).recorder.put_blob(said.encode()),
        sha256=hashlib.sha256(said.encode()).hexdigest(),
        duration_s=ended.duration_s,
    )


async def _time_limit_s(session: Session, checks: Sequence[str]) -> float:
    """How long a check may take: what is left of the time of all attempts, and no longer than is usual for
    it. What an attempt wrote may never end."""
    found = await session.journal.last("AttemptsStarted")
    if found is None or not isinstance(found.event, AttemptsStarted):
        return TIMEOUT_S
    left = left_of(found.event, runtime_of(session)).time_s
    most = _UNKNOWN_S if found.event.is_usual else TIMEOUT_S
    if len(checks) == 1 and (took := await _took(session, checks[0])):
        most = min(most, max(_LEAST_S, _ROOM * max(took)))
    return most if left is None else max(min(most, left), _LAST_S)


async def _took(session: Session, check: str) -> list[float]:
    """How long it took each time that it came to its end."""
    took: list[float] = []
    for item in await read_all(session.journal, kinds=("SuiteEnded", "CheckEnded")):
        match item.event:
            case SuiteEnded(outcome="passed" | "failed", is_known=False, command=command, duration_s=spent):
                took += [spent] if command == check else []
            case CheckEnded(check=line, detail=detail, duration_s=spent):
                took += [spent] if line == check and not detail.startswith(TIMED_OUT) else []
            case _:
                pass
    return took


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
    """What the next attempt is told about the checks that the one which began there failed; without any, why
    what it wrote cannot be read, or what its last call failed with."""
    kinds = ("CheckEnded", "ChangesChecked", "CallEnded")
    looked = await read_all(runtime.journal, kinds=kinds, after=started_seq)
    failed = [item.event for item in looked if isinstance(item.event, CheckEnded) and not item.event.passed]
    texts = [
        failing_text(check, await runtime.recorder.get_blob(check.output) if check.output else b"")
        for check in failed
    ]
    last = [item.event for item in looked if isinstance(item.event, ChangesChecked)][-1:]
    texts = texts or [line_of(path, each) for checked in last for path, each in checked.unreadable]
    ended = [item.event for item in looked if isinstance(item.event, CallEnded)][-1:]
    texts = texts or [call.output for call in ended if call.is_error]
    texts = [shortened(text) for text in texts]
    told = "\n\n".join(text if len(text) <= _MAX_TOLD else f"…{text[-_MAX_TOLD:]}" for text in texts)
    return f"{_TAKEN_BACK}\n\n{told}" if told else ""
