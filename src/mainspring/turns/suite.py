"""Runs tests of the project by itself: in the sandbox, only what the policy lets run without asking, within a
time limit, on record before and after.

Tests that were too slow, or that cannot run here, are not run again in the same session; the journal says so.
Whether a result is worse than before is decided by the guard of `Upkeep`, where there is one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from mainspring.context.history import read_all
from mainspring.errors import PathRefused, SandboxError
from mainspring.events import (
    TESTS_SOURCE,
    AssistantSaid,
    CallAsked,
    Event,
    FilesChanged,
    NoteAdded,
    SuiteCause,
    SuiteEnded,
    SuiteStarted,
)
from mainspring.events.escaping import whole_characters
from mainspring.patterns import lazy_pattern
from mainspring.sandbox import TIMED_OUT, Command, CommandResult
from mainspring.sandbox.files import Files
from mainspring.secrets.injection import suspicions
from mainspring.tools.walk import walked
from mainspring.turns.calls import startable
from mainspring.turns.runtime import Runtime, time_left
from mainspring.turns.small import after_tests, tell_untested
from mainspring.turns.task_project import project_of_turn
from mainspring.workspace.affected import affected_command
from mainspring.workspace.coverage import Coverage, measured, read_measured
from mainspring.workspace.project import Project, project_below
from mainspring.workspace.test_results import ENVIRONMENT, TestResults, read_results, verbose

_SHELL, _WRITE = "shell", "write"
_SHOWN_LINES = 15
_SHOWN_CHARS = 1_600
_MAX_LISTED = 5_000
_MAX_TEST_BYTES = 256 * 1024
_NOT_FOUND = (126, 127)
_NO_RUNNER = lazy_pattern(rb"No module named '?(?:pytest|nose|tox|nox)'?\s*$")
_NOTHING_COLLECTED = 5
_NAMES_PASSED = ("PASSED ", "XPASS ")
_VARYING = lazy_pattern(r"\d+(?:\.\d+)?\s*(?:ms|s|seconds?)\b|0x[0-9a-fA-F]+|=+|-{3,}")
_MOST_SLOW = 2
_ROOM = 4.0
_ENDLESS = (
    "`{command}` was run for you and stopped: it had not ended after {duration:.0f} s. Before the change it"
    " took {usual:.1f} s, so something in it probably never ends."
)
CALL_PREFIX = "tests:"
"""How the calls begin under which the time machine records what tests did to files."""


class SuiteRun(msgspec.Struct, frozen=True):
    """A run of tests that is on record, with what single ones said, and all that was printed."""

    ended: SuiteEnded
    results: TestResults = TestResults()
    output: str = ""


Compare = Callable[[SuiteEnded, TestResults], SuiteEnded]
"""Adds to a result what it means, before it is recorded."""


async def check_changes(runtime: Runtime) -> None:
    """After calls that changed files, runs the tests that may notice. Tests that passed before the turn are
    told by the guard; where every change is tested, the result is told when it is another one than before."""
    state, work, guard = runtime.state, runtime.workbench.work, runtime.upkeep.guard
    is_testing = work.is_testing_changes(state.prompt.profile)
    if not (is_testing or (guard and work.after_change != "off")):
        return
    last = await runtime.journal.last("AssistantSaid", "SuiteStarted", "SuiteEnded")
    since = await runtime.journal.read(after=last.seq if last else 0, kinds=("FilesChanged", "NoteAdded"))
    changes = [each for item in since if isinstance(item.event, FilesChanged) for each in item.event.changes]
    changed = list(dict.fromkeys(change.path for change in changes))
    is_told = any(isinstance(item.event, NoteAdded) and item.event.source == TESTS_SOURCE for item in since)
    if not changed or is_told:
        return
    compare = await guard.comparison(runtime) if guard else None
    if not (is_testing or compare):
        return
    project = await project_of_turn(runtime)
    if not project.test:
        project = await asyncio.to_thread(project_below, state.workspace, changed)
    command = await asyncio.to_thread(_affected, runtime.workbench.files, project, changed)
    before = await runtime.journal.last("SuiteEnded")
    is_measured = bool(guard and guard.is_measuring and command == project.test)
    ran = await run_suite(
        runtime,
        command,
        "change",
        timeout_s=work.test_timeout_s,
        compare=compare,
        is_measured=is_measured,
    )
    known = before.event if before else None
    if guard and ran and await guard.tell_broken(runtime, ran, project):
        return
    if not is_testing:
        return
    if ran is None or ran.ended.outcome not in ("passed", "failed"):
        await tell_untested(runtime)
    elif not _is_same(known, ran.ended):
        text = ran.ended.summary + after_tests(runtime, changes, is_passed=ran.ended.outcome == "passed")
        await runtime.record(
            NoteAdded(text=text, source=TESTS_SOURCE, suspicious=suspicions(text)), is_durable=False
        )


async def run_suite(
    runtime: Runtime,
    command: str,
    cause: SuiteCause,
    *,
    timeout_s: float,
    compare: Compare | None = None,
    is_measured: bool = False,
) -> SuiteRun | None:
    """The result on record; None when nothing was run. What a task names, and all tests before a change and
    before the end, are not run again on a content of which their result is known. A measured run also tells
    which lines it reached."""
    left = time_left(runtime)
    timeout_s = min(timeout_s, left.time_s) if left else timeout_s
    if not command or timeout_s <= 0 or not await may_run(runtime, command):
        return None
    usual_s = await _usual_s(runtime, command) if cause == "change" else None
    timeout_s = max(timeout_s, _ROOM * (usual_s or 0.0))
    call = f"{CALL_PREFIX}{runtime.last_seq}"
    machine, keep = runtime.workbench.time_machine, runtime.recorder.put_blobs
    await machine.begin(call)
    argv, mark = measured(verbose(command)) if is_measured else (("bash", "-c", verbose(command)), "")
    finished: CommandResult | None = None
    try:
        content = await machine.content_id()
        if cause in ("task", "baseline", "done") and (known := await _known(runtime, command, content)):
            known = msgspec.structs.replace(known, cause=cause)
            results = await results_of(runtime, known)
            known = _compared(known, results if known.results else None, compare)
            await runtime.record(known, is_durable=False)
            return SuiteRun(known, results)
        await runtime.record(SuiteStarted(command=command, cause=cause, timeout_s=timeout_s))
        finished = await _run(runtime, argv, timeout_s)
    finally:
        if changed := await machine.end([call], keep):
            await runtime.record(changed, is_durable=False)
    if finished is None:
        return None
    said, reached = read_measured(_text(finished.stdout), mark, command)
    output = runtime.recorder.vault.redact("\n".join(filter(None, (said, _text(finished.stderr)))))
    # Of an output that was cut nobody knows which tests are missing from it.
    results = read_results(output) if not finished.dropped_bytes else TestResults()
    ended = msgspec.structs.replace(
        _ended(command, cause, finished, output, usual_s),
        content=content,
        results=await runtime.recorder.put_blob(msgspec.json.encode(results)) if results else None,
        passed=len(results.passed),
        failed=len(results.failed),
    )
    if ended.outcome in ("passed", "failed") and not finished.stopped:
        ended = await _with_coverage(runtime, ended, reached)
        ended = _compared(ended, None if finished.dropped_bytes else results, compare)
    await runtime.record(ended, is_durable=False)
    return SuiteRun(ended, results, output)


def _compared(ended: SuiteEnded, results: TestResults | None, compare: Compare | None) -> SuiteEnded:
    """Where nobody knows what single tests said, nobody knows which are missing."""
    found = compare(ended, results or TestResults()) if compare else ended
    return found if results is not None else msgspec.structs.replace(found, missing=())


async def _with_coverage(runtime: Runtime, ended: SuiteEnded, reached: Coverage | str) -> SuiteEnded:
    if isinstance(reached, str):
        return msgspec.structs.replace(ended, not_covered=reached)
    return msgspec.structs.replace(
        ended,
        coverage=await runtime.recorder.put_blob(msgspec.json.encode(reached)),
        lines=reached.lines,
        reached=reached.reached,
    )


async def coverage_of(runtime: Runtime, ended: SuiteEnded) -> Coverage | None:
    """Which lines a run that is on record reached; None where that was not measured."""
    if ended.coverage is None:
        return None
    return msgspec.json.decode(await runtime.recorder.get_blob(ended.coverage), type=Coverage)


async def results_of(runtime: Runtime, ended: SuiteEnded) -> TestResults:
    """What single tests said in a run that is on record."""
    if ended.results is None:
        return TestResults()
    return msgspec.json.decode(await runtime.recorder.get_blob(ended.results), type=TestResults)


async def _known(runtime: Runtime, command: str, content: str) -> SuiteEnded | None:
    """What the same command said of the same content in this session."""
    for item in reversed(await read_all(runtime.journal, kinds=("SuiteEnded",))):
        ended = item.event
        if (
            isinstance(ended, SuiteEnded)
            and content
            and (ended.command, ended.content) == (command, content)
            and ended.outcome in ("passed", "failed")
        ):
            return msgspec.structs.replace(
                ended, is_known=True, regressions=(), flaky=(), missing=(), duration_s=0.0
            )
    return None


async def _usual_s(runtime: Runtime, command: str) -> float | None:
    """How long a command took at least that came to its end; None where it never did."""
    ran = [item.event for item in await read_all(runtime.journal, kinds=("SuiteEnded",))]
    ended = (each for each in ran if isinstance(each, SuiteEnded) and each.command == command)
    took = (each.duration_s for each in ended if each.outcome in ("passed", "failed") and not each.is_known)
    return min(took, default=None)


async def may_run(runtime: Runtime, command: str) -> bool:
    """Whether the agent could run it without a question, and no earlier run says that it is of no use."""
    ran = [item.event for item in await read_all(runtime.journal, kinds=("SuiteEnded",))]
    slow = {each.command for each in ran if isinstance(each, SuiteEnded) and each.outcome == "slow"}
    is_unusable = any(isinstance(each, SuiteEnded) and each.outcome == "unusable" for each in ran)
    if is_unusable or command in slow or len(slow) >= _MOST_SLOW:
        return False
    if runtime.workbench.toolbox.tool(_SHELL) is None:
        return False
    try:
        await runtime.sandbox()
    except SandboxError:
        return False  # a call of the agent would be told so
    return await is_unasked(runtime, _SHELL, command=command)


async def may_write(runtime: Runtime) -> bool:
    """Whether the agent could make a file without a question."""
    return await is_unasked(runtime, _WRITE, path="new.txt", content="")


async def is_unasked(runtime: Runtime, tool: str, **arguments: str) -> bool:
    """Whether the agent could make a call without a question."""
    text = msgspec.json.encode(arguments).decode()
    asked = CallAsked(call=f"{CALL_PREFIX}{runtime.last_seq}", name=tool, arguments=text)
    return bool(await startable(runtime, AssistantSaid(step=runtime.state.step, parts=(asked,))))


async def _run(runtime: Runtime, argv: tuple[str, ...], timeout_s: float) -> CommandResult | None:
    sandbox = await runtime.sandbox()
    try:
        return await sandbox.run(
            Command(
                argv=argv,
                cwd=runtime.state.workspace,
                timeout_s=timeout_s,
                env=ENVIRONMENT,
                is_whole=True,
            )
        )
    except SandboxError:
        return None


def _ended(
    command: str, cause: SuiteCause, finished: CommandResult, output: str, usual_s: float | None
) -> SuiteEnded:
    code = finished.exit_code
    is_unusable = code in _NOT_FOUND or bool(_NO_RUNNER.search(finished.stderr.rstrip()))
    is_empty = "pytest" in command and code == _NOTHING_COLLECTED
    outcome: Literal["passed", "failed", "slow", "unusable"] = "failed" if code else "passed"
    if is_empty and cause == "baseline":  # there may be tests after the change
        is_empty, outcome = False, "passed"
    is_endless = finished.stopped.startswith(TIMED_OUT) and usual_s is not None
    if is_endless:
        outcome = "failed"  # they came to an end before the change
    elif finished.stopped.startswith(TIMED_OUT):
        outcome = "slow"
    elif (is_unusable or is_empty) and usual_s is None:
        outcome = "unusable"
    return SuiteEnded(
        command=command,
        outcome=outcome,
        exit_code=code,
        duration_s=round(finished.duration_s, 3),
        summary=_ENDLESS.format(command=command, duration=finished.duration_s, usual=usual_s)
        if is_endless
        else _summary(command, code, output),
        cause=cause,
    )


def _summary(command: str, code: int, output: str) -> str:
    """The end of what tests said: of those that passed a line."""
    said = (line for line in output.splitlines() if line.strip() and not line.startswith(_NAMES_PASSED))
    lines = list(said)[-(_SHOWN_LINES if code else 1) :]
    shown = whole_characters("\n".join(lines))[-_SHOWN_CHARS:]
    return f"`{command}` was run for you: exit code {code}" + (f"\n{shown}" if shown else "")


def _text(stream: bytes) -> str:
    return stream.decode("utf-8", "replace")


def _is_same(before: Event | None, now: SuiteEnded) -> bool:
    return (
        isinstance(before, SuiteEnded)
        and before.command == now.command
        and _VARYING.sub("", before.summary) == _VARYING.sub("", now.summary)
    )


def _affected(files: Files, project: Project, changed: Sequence[str]) -> str:
    listing = walked(files, files.policy.workspace, lambda count: count > _MAX_LISTED)

    def read(path: str) -> str:
        try:
            return files.read(path, max_bytes=_MAX_TEST_BYTES).data.decode("utf-8", "replace")
        except (OSError, PathRefused):
            return ""

    return affected_command(project, listing.paths, changed, read)
