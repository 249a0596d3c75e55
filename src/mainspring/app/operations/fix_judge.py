"""Whether an attempt fixed something, by our own runs and looks: the command passes, tests are as strong as
they were, nothing else that passed fails now. What the agent suspected is judged with it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

import msgspec

from mainspring.app.operations.attempt_judges import run_commands
from mainspring.app.operations.attempt_sizes import diff_since
from mainspring.app.operations.fix_hypotheses import read_hypotheses, told_hypotheses, without_repeats
from mainspring.app.operations.fix_record import Fix, load_fix
from mainspring.checks.regressions import Baseline, compared_with, run_again
from mainspring.checks.weakened import weakened_since
from mainspring.context.history import read_all
from mainspring.documents.findings import line_of
from mainspring.events import AssistantSaid, CheckEnded, Event, NoteAdded, SuiteEnded
from mainspring.events.counts import plural
from mainspring.session.session import Session, runtime_of
from mainspring.turns.runtime import Runtime
from mainspring.turns.suite import results_of, run_suite
from mainspring.turns.task_project import project_of
from mainspring.workspace.affected import command_for
from mainspring.workspace.test_results import names_tests

TESTS_CHECK = "tests are as strong as they were"
_NOTE = "mainspring:fix"
_SHOWN = 5


async def judge_fix(session: Session, attempt: int) -> Sequence[Event]:
    """What is found of an attempt; the dearer looks only when the cheaper ones found nothing."""
    runtime = runtime_of(session)
    fix = await load_fix(runtime.journal, runtime.recorder.vault)
    began = fix.attempts[-1].seq
    checks = [await _command_check(session, fix, attempt, began)]
    if checks[0].passed:
        checks += await run_commands(
            session,
            fix.started.checks,
            f"checks-{attempt}",
            iteration=attempt,
            timeout_s=fix.started.timeout_s,
        )
        checks.append(await _tests_check(runtime, fix, attempt, began, checks[0]))
    if all(check.passed for check in checks) and (suite := await _suite_check(runtime, fix, attempt)):
        checks.append(suite)
    said = await read_all(runtime.journal, kinds=("AssistantSaid",), after=began)
    texts = [item.event.text for item in said if isinstance(item.event, AssistantSaid)]
    is_passed = all(check.passed for check in checks)
    return (*checks, *read_hypotheses(texts, attempt=attempt, is_passed=is_passed))


async def between_attempts(session: Session) -> Sequence[Event]:
    """What the next attempt is told of what the others suspected; after enough of them, a stronger model."""
    runtime = runtime_of(session)
    fix = await load_fix(runtime.journal, runtime.recorder.vault)
    events: list[Event] = []
    failed = 0
    for each in reversed(fix.attempts):
        if each.model != fix.model:
            break
        failed += 1
    router = runtime.upkeep.router
    if router and (chosen := router.after_attempts(runtime.state, failed)):
        events.append(chosen)
    if told := told_hypotheses(without_repeats(fix.hypotheses)):
        events.append(NoteAdded(text=told, source=_NOTE))
    return events


async def _command_check(session: Session, fix: Fix, attempt: int, began: int) -> CheckEnded:
    """Runs the command as often as it must pass, or until it fails."""
    runs = await run_commands(
        session,
        [fix.started.command] * fix.started.repeat,
        f"verify-{attempt}",
        iteration=attempt,
        timeout_s=fix.started.timeout_s,
        is_enough=lambda run: not run.passed,
    )
    last, passed = runs[-1], sum(run.passed for run in runs)
    often = f"; {passed} of {plural(len(runs), 'run')} passed" if fix.started.repeat > 1 else ""
    changed, _ = await diff_since(runtime_of(session), began)
    words = _words(fix.started.command)
    return msgspec.structs.replace(
        last, detail=f"{last.detail}{often}", written=tuple(path for path in changed if path in words)
    )


def _words(command: str) -> set[str]:
    """The words of a command line that may be paths, without a test that follows `::`."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    return {re.sub(r"^\./|::.*$", "", word) for word in words}


async def _tests_check(
    runtime: Runtime, fix: Fix, attempt: int, began: int, passed: CheckEnded
) -> CheckEnded:
    found = await weakened_since(runtime, began)
    lines = [line_of(path, each) for path, findings in found.items() for each in findings]
    more = f" and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
    told = "; ".join(lines[:_SHOWN]) + more
    failing, silent = await _unproven_tests(runtime, fix, passed)
    told = "; ".join(filter(None, (told, failing)))
    is_allowed = fix.started.allows_weaker
    allowed = f"made weaker, as you allowed: {told}" if told else f"nothing was taken from them{silent}"
    return CheckEnded(
        iteration=attempt,
        check=TESTS_CHECK,
        kind="file",
        passed=is_allowed or not told,
        detail=allowed if is_allowed or not told else f"made weaker: {told}",
    )


async def _unproven_tests(runtime: Runtime, fix: Fix, passed: CheckEnded) -> tuple[str, str]:
    """Where the command named tests that failed, and now passes without a word of any: which of them still
    fail when they are run by themselves, or that nobody knows. It may run something else now."""
    tests = fix.fault.tests if fix.fault else ()
    output = (
        (await runtime.recorder.get_blob(passed.output)).decode("utf-8", "replace") if passed.output else ""
    )
    if not tests or names_tests(output):
        return "", ""
    failed: list[str] = []
    if all("::" in name for name in tests):
        project = await project_of(runtime, "")
        if "pytest" not in project.test:
            project = msgspec.structs.replace(project, test="python3 -m pytest")
        command = command_for(project, tests)
        ran = await run_suite(runtime, command, "task", timeout_s=fix.started.timeout_s)
        failed = [name for name in tests if ran and name in ran.results.failed]
        if ran and not failed and ran.ended.outcome == "passed":
            return "", ""
    if failed:
        return (
            f"the command names no test any more, and by itself still fails: {', '.join(failed[:_SHOWN])}",
            "",
        )
    return "", "; the command names no test any more, so whether what failed was run is not known"


async def suite_command(runtime: Runtime, fix: Fix) -> str:
    """The command of all tests of the project; empty when there is none besides the one to be fixed."""
    test = (await project_of(runtime, "")).test
    return "" if fix.started.skips_suite or test == fix.started.command else test


async def run_baseline(runtime: Runtime, fix: Fix) -> None:
    """What all tests say before the first attempt, on record; not run again on the same content."""
    if command := await suite_command(runtime, fix):
        await run_suite(runtime, command, "baseline", timeout_s=fix.started.timeout_s)


async def _suite_check(runtime: Runtime, fix: Fix, attempt: int) -> CheckEnded | None:
    """Whether all that passed before still does; None when it cannot be told."""
    command, before = await suite_command(runtime, fix), fix.baseline
    if not command or before is None:
        return None
    baseline = Baseline(0, before, await results_of(runtime, before))
    if not baseline.is_usable:
        return None
    limit_s = fix.started.timeout_s
    ran = await run_suite(runtime, command, "done", timeout_s=limit_s, compare=compared_with(baseline))
    if ran is None:
        return None
    ended = ran.ended
    if ended.regressions:
        ended = await run_again(runtime, ran, await project_of(runtime, ""), limit_s)
    is_compared = ended.outcome in ("passed", "failed")
    return CheckEnded(
        iteration=attempt,
        check=command,
        kind="command",
        passed=is_compared and not ended.regressions,
        exit_code=ended.exit_code,
        detail=_suite_words(ended, limit_s, is_compared=is_compared),
        duration_s=ended.duration_s,
    )


def _suite_words(ended: SuiteEnded, limit_s: float, *, is_compared: bool) -> str:
    if not is_compared:
        why = f"takes longer than {limit_s:g} s" if ended.outcome == "slow" else "cannot run any more"
        return f"ran before the change, and now {why}"
    flaky = f"; flaky: {', '.join(ended.flaky[:_SHOWN])}" if ended.flaky else ""
    if ended.regressions:
        names = ", ".join(ended.regressions[:_SHOWN])
        return f"passed before the change, and fail now: {names}{flaky}"
    return f"nothing that passed before fails now{flaky}"
