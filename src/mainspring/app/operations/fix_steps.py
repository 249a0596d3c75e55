"""The steps of a fix before and after its attempts, each on record: run the command, find out where its
output points to, end. What is not verified does not stay in the workspace.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from mainspring.app.operations.attempt_judges import run_commands
from mainspring.app.operations.attempt_sizes import diff_since
from mainspring.app.operations.branches import commit_branch
from mainspring.app.operations.fix_judge import suite_command
from mainspring.app.operations.fix_record import BEFORE, Fix, first_end, last_end
from mainspring.errors import WorkspaceConflict
from mainspring.events import CheckEnded, FaultReproduced, FixEnded
from mainspring.session.session import Session, runtime_of
from mainspring.settings import Config
from mainspring.turns.task_project import project_of
from mainspring.workspace.branches import tip_of
from mainspring.workspace.fault_places import fault_places
from mainspring.workspace.git import Git
from mainspring.workspace.test_results import read_results

_MAX_TESTS = 50
_MAX_RECENT = 8
_RECENT_COMMITS = "5"
_SHOWN_FILES = 6


async def reproduce(session: Session, fix: Fix) -> None:
    """Runs the command once more on the files as they are."""
    runtime, number = runtime_of(session), len(fix.runs) + 1
    started = fix.started
    runs = await run_commands(
        session, [started.command], f"reproduce-{number}", iteration=BEFORE, timeout_s=started.timeout_s
    )
    await runtime.record(*runs)


async def locate(session: Session, config: Config, fix: Fix) -> None:
    """Reads what the last run that failed said."""
    runtime, workspace = runtime_of(session), session.state.workspace
    last = failed_run(fix)
    output = await output_of(session, last)
    recent = await asyncio.to_thread(_recent, Git(workspace, config.environment))
    names = {name for _, files in recent for name in files}
    places = await asyncio.to_thread(
        fault_places, output, str(workspace), lambda path: (workspace / path).is_file(), names
    )
    await runtime.record(
        FaultReproduced(
            runs=len(fix.runs),
            failed=sum(not run.passed for run in fix.runs),
            exit_code=last.exit_code,
            tests=read_results(output).failed[:_MAX_TESTS],
            places=places,
            recent=tuple(_recent_line(*each) for each in recent)[:_MAX_RECENT],
        )
    )


def failed_run(fix: Fix) -> CheckEnded:
    return next(run for run in reversed(fix.runs) if not run.passed)


async def output_of(session: Session, run: CheckEnded) -> str:
    recorder = runtime_of(session).recorder
    return (await recorder.get_blob(run.output)).decode("utf-8", "replace") if run.output else ""


def _recent(git: Git) -> list[tuple[str, tuple[str, ...]]]:
    """What was changed lately, the newest first: what is not committed, the last commits. For a thread."""
    if not git.text("rev-parse", "--verify", "--quiet", "HEAD^{commit}", check=False):
        return []
    plain = ("--no-ext-diff", "--no-textconv", "--relative", "-z", "--name-only")
    changed = git.run("diff", *plain, "HEAD", "--", ".", check=False).decode("utf-8", "replace")
    found = [("not committed", tuple(name for name in changed.split("\0") if name))]
    log = git.run("log", "-n", _RECENT_COMMITS, *plain, "--format=%x01%h %s%x01", "--", ".", check=False)
    parts = log.decode("utf-8", "replace").split("\x01")
    for title, files in zip(parts[1::2], parts[2::2], strict=False):
        found.append((title, tuple(name for name in files.replace("\n", "\0").split("\0") if name)))
    return [each for each in found if each[1]]


def _recent_line(title: str, files: tuple[str, ...]) -> str:
    more = len(files) - _SHOWN_FILES
    return f"{title}: {', '.join(files[:_SHOWN_FILES])}" + (f" and {more} more" if more > 0 else "")


async def end_fix(session: Session, config: Config, fix: Fix) -> None:
    """Says how it ended, on record. After attempts in vain the files are as they were before them."""
    runtime = runtime_of(session)
    outcome, detail = first_end(fix) or last_end(fix)
    if outcome != "fixed":
        left = await _put_back(session, fix)
        await runtime.record(FixEnded(outcome=outcome, detail=detail, left=left))
        return
    files, lines = await diff_since(runtime, fix.attempts_seq)
    commit = ""
    if fix.started.branch:
        await commit_branch(config, session)
        git = Git(Path(fix.started.root), config.environment)
        commit = await asyncio.to_thread(tip_of, git, fix.started.branch)
    await runtime.record(
        FixEnded(
            outcome=outcome,
            detail=detail,
            attempt=fix.kept.kept if fix.kept else 0,
            files=files,
            changed_lines=lines,
            not_checked=await _not_checked(session, fix),
            commit=commit,
        )
    )


async def _put_back(session: Session, fix: Fix) -> tuple[str, ...]:
    if not fix.attempts_seq or fix.kept is None:
        return ()
    try:
        return (await session.rewind(fix.attempts_seq, "files")).left
    except WorkspaceConflict as error:
        return (error.message,)


async def _not_checked(session: Session, fix: Fix) -> tuple[str, ...]:
    """What nobody looked at, and what a person should look at."""
    runtime, before, found = runtime_of(session), fix.baseline, list[str]()
    command = await suite_command(runtime, fix)
    if fix.started.skips_suite:
        found.append("other tests: you wanted none run")
    elif not command and not (await project_of(runtime, "")).test:
        found.append("other tests: no file of the project says how to run them")
    elif command and before is None:
        found.append(f"other tests: {command} may not run without a question in this mode")
    elif command and before and before.outcome in ("slow", "unusable"):
        why = "took too long" if before.outcome == "slow" else "could not run here"
        found.append(f"other tests: {command} {why} before the change")
    for check in fix.attempts[-1].checks:
        if check.written:
            found.append(f"changed by the fix, and named by the command: {', '.join(check.written)}")
    return tuple(found)
