"""Runs tests of the project by itself: in the sandbox, only what the policy lets run without asking, within a
time limit, on record before and after.

Tests that were too slow, or that cannot run here, are not run again in the same session; the journal says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Literal

import msgspec

from mainspring.errors import PathRefused, SandboxError
from mainspring.events import (
    TESTS_SOURCE,
    AssistantSaid,
    CallAsked,
    Event,
    FilesChanged,
    NoteAdded,
    SuiteEnded,
    SuiteStarted,
    UserSaid,
)
from mainspring.patterns import lazy_pattern
from mainspring.sandbox import TIMED_OUT, Command, CommandResult
from mainspring.sandbox.files import Files
from mainspring.secrets.injection import suspicions
from mainspring.tools.text import whole_characters
from mainspring.tools.walk import walked
from mainspring.turns.calls import startable
from mainspring.turns.runtime import Runtime, time_left
from mainspring.turns.small import after_tests, tell_untested
from mainspring.workspace.affected import affected_command
from mainspring.workspace.project import Project, asked_test, look_at

_SHELL = "shell"
_SHOWN_LINES = 15
_SHOWN_CHARS = 1_600
_MAX_LISTED = 5_000
_MAX_TEST_BYTES = 256 * 1024
_NOT_FOUND = (126, 127)
_NO_RUNNER = lazy_pattern(rb"No module named '?(?:pytest|nose|tox|nox)'?\s*$")
_NOTHING_COLLECTED = 5
_VARYING = lazy_pattern(r"\d+(?:\.\d+)?\s*(?:ms|s|seconds?)\b|0x[0-9a-fA-F]+|=+|-{3,}")
# Results as short as runners can make them, and no caches left in the workspace.
_ENVIRONMENT = {"PYTHONDONTWRITEBYTECODE": "1", "PYTEST_ADDOPTS": "-q --tb=short -p no:cacheprovider"}


async def project_of(runtime: Runtime, task: str) -> Project:
    """What is known of the project; the test command that a task gives comes before its own."""
    return asked_test(await asyncio.to_thread(look_at, runtime.state.workspace), task)


async def check_changes(runtime: Runtime) -> None:
    """After calls that changed files, runs the tests that may notice, and tells the model their result when
    it is another one than before."""
    state, work = runtime.state, runtime.workbench.work
    if not state.last_reply.calls or not work.is_testing_changes(state.prompt.profile):
        return
    last = await runtime.journal.last("AssistantSaid", "SuiteStarted", "SuiteEnded")
    since = await runtime.journal.read(after=last.seq if last else 0, kinds=("FilesChanged", "NoteAdded"))
    changes = [each for item in since if isinstance(item.event, FilesChanged) for each in item.event.changes]
    changed = list(dict.fromkeys(change.path for change in changes))
    is_told = any(isinstance(item.event, NoteAdded) and item.event.source == TESTS_SOURCE for item in since)
    if not changed or is_told:
        return
    said = await runtime.journal.last("UserSaid")
    task = said.event.text if said and isinstance(said.event, UserSaid) else ""
    project = await project_of(runtime, runtime.recorder.vault.expand(task))
    command = await asyncio.to_thread(_affected, runtime.workbench.files, project, changed)
    before = await runtime.journal.last("SuiteEnded")
    ended = await run_suite(runtime, command, "change", timeout_s=work.test_timeout_s)
    known = before.event if before else None
    if ended is None or ended.outcome not in ("passed", "failed"):
        await tell_untested(runtime)
    elif not _is_same(known, ended):
        text = ended.summary + after_tests(runtime, changes, is_passed=ended.outcome == "passed")
        await runtime.record(
            NoteAdded(text=text, source=TESTS_SOURCE, suspicious=suspicions(text)), is_durable=False
        )


async def run_suite(
    runtime: Runtime, command: str, cause: Literal["task", "change"], *, timeout_s: float
) -> SuiteEnded | None:
    """The result on record; None when nothing was run."""
    left = time_left(runtime)
    timeout_s = min(timeout_s, left.time_s) if left else timeout_s
    if not command or timeout_s <= 0 or not await may_run(runtime, command):
        return None
    call = f"tests:{runtime.last_seq}"
    await runtime.record(SuiteStarted(command=command, cause=cause, timeout_s=timeout_s))
    machine, keep = runtime.workbench.time_machine, runtime.recorder.put_blobs
    await machine.begin(call)
    try:
        finished = await _run(runtime, command, timeout_s)
    finally:
        if changed := await machine.end([call], keep):
            await runtime.record(changed, is_durable=False)
    if finished is None:
        return None
    ended = _ended(command, finished, runtime.recorder.vault.redact(_output(finished)))
    await runtime.record(ended, is_durable=False)
    return ended


async def may_run(runtime: Runtime, command: str) -> bool:
    """Whether the agent could run it without a question, and no earlier run says that it is of no use."""
    last = await runtime.journal.last("SuiteEnded")
    if last and isinstance(last.event, SuiteEnded) and last.event.outcome in ("slow", "unusable"):
        return False
    if runtime.workbench.toolbox.tool(_SHELL) is None:
        return False
    try:
        await runtime.sandbox()
    except SandboxError:
        return False  # a call of the agent would be told so
    arguments = msgspec.json.encode({"command": command}).decode()
    asked = CallAsked(call=f"tests:{runtime.last_seq}", name=_SHELL, arguments=arguments)
    return bool(await startable(runtime, AssistantSaid(step=runtime.state.step, parts=(asked,))))


async def _run(runtime: Runtime, command: str, timeout_s: float) -> CommandResult | None:
    sandbox = await runtime.sandbox()
    try:
        return await sandbox.run(
            Command(
                argv=("bash", "-c", command),
                cwd=runtime.state.workspace,
                timeout_s=timeout_s,
                env=_ENVIRONMENT,
                is_whole=True,
            )
        )
    except SandboxError:
        return None


def _ended(command: str, finished: CommandResult, output: str) -> SuiteEnded:
    code = finished.exit_code
    is_unusable = code in _NOT_FOUND or bool(_NO_RUNNER.search(finished.stderr.rstrip()))
    is_empty = "pytest" in command and code == _NOTHING_COLLECTED
    outcome: Literal["passed", "failed", "slow", "unusable"] = "failed" if code else "passed"
    if finished.stopped.startswith(TIMED_OUT):
        outcome = "slow"
    elif is_unusable or is_empty:
        outcome = "unusable"
    return SuiteEnded(
        command=command,
        outcome=outcome,
        exit_code=code,
        duration_s=round(finished.duration_s, 3),
        summary=_summary(command, code, output),
    )


def _summary(command: str, code: int, output: str) -> str:
    """The end of what tests said: of those that passed a line."""
    lines = [line for line in output.splitlines() if line.strip()][-(_SHOWN_LINES if code else 1) :]
    shown = whole_characters("\n".join(lines))[-_SHOWN_CHARS:]
    return f"`{command}` was run for you: exit code {code}" + (f"\n{shown}" if shown else "")


def _output(finished: CommandResult) -> str:
    return "\n".join(part.decode("utf-8", "replace") for part in (finished.stdout, finished.stderr) if part)


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
