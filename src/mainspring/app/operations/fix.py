"""Makes a command pass that fails: reproduce it, find out where it points to, have the cause removed in
attempts, and verify each by running the command, and all tests of the project, ourselves.

All that a fix is stands in the journal of its session. Each round does the next thing that the journal lacks,
so a process that takes it over runs nothing again of which the result is on record. Attempts are those of
`attempts`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from pathlib import Path

import msgspec

from mainspring.app.known import workspace_at
from mainspring.app.operations.attempts import are_attempts_open, continue_attempts, take_attempts
from mainspring.app.operations.fix_judge import between_attempts, judge_fix, run_baseline, suite_command
from mainspring.app.operations.fix_prompt import fix_task
from mainspring.app.operations.fix_record import Fix, load_fix, next_move
from mainspring.app.operations.fix_report import FixReport, report_of
from mainspring.app.operations.fix_steps import end_fix, failed_run, locate, output_of, reproduce
from mainspring.app.operations.fix_worktree import land_fix, make_worktree, sweep, worktree_of
from mainspring.app.operations.opened_work import WorkHow, begin_work, resume_work
from mainspring.app.operations.sessions import journal_of
from mainspring.app.project_settings import in_project
from mainspring.app.records import vault_of
from mainspring.app.stores import sessions_of
from mainspring.errors import UsageError
from mainspring.events import MAX_ATTEMPTS, BranchMoved, Event, FixStarted, Limits, Recorded
from mainspring.folds.caps import cap_of
from mainspring.session.session import Session, runtime_of
from mainspring.settings import Config

ATTEMPTS = 4
TIMEOUT_S = 600.0
MAX_REPEAT = 100


class FixPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What to fix, as `FixStarted` says it. `limits` hold for all attempts together; `is_agreed` says that a
    person agrees to what lands, whatever its risk."""

    command: str
    attempts: int = ATTEMPTS
    checks: Sequence[str] = ()
    repeat: int = 1
    timeout_s: float = TIMEOUT_S
    hint: str = ""
    allows_weaker: bool = False
    skips_suite: bool = False
    in_worktree: bool = False
    is_landing: bool = False
    is_agreed: bool = False
    limits: Limits = Limits()


class FixHow(WorkHow, frozen=True, kw_only=True):
    """How the session is opened, and who is told of it and of what happens."""

    on_begin: Callable[[Session], None] = lambda _: None
    on_event: Callable[[Recorded], None] = lambda _: None


async def start_fix(config: Config, folder: Path, plan: FixPlan, how: FixHow) -> FixReport:
    """Makes a command pass, in a session of its own."""
    _check(plan)
    place = workspace_at(folder)
    started = FixStarted(
        command=plan.command.strip(),
        attempts=plan.attempts,
        checks=tuple(plan.checks),
        repeat=plan.repeat,
        timeout_s=plan.timeout_s,
        hint=plan.hint.strip(),
        allows_weaker=plan.allows_weaker,
        skips_suite=plan.skips_suite,
        cap=cap_of(plan.limits, "session"),
        is_unpriced=how.allow_unpriced,
    )
    if plan.in_worktree:
        started = worktree_of(config, place, started, is_landing=plan.is_landing)
        await make_worktree(config, started)
        config = msgspec.structs.replace(in_project(config, place), copied=place)
        place = Path(started.folder)

    async def beginning() -> Sequence[Event]:
        branch = BranchMoved(
            action="started",
            branch=started.branch,
            base=started.base_branch or started.base,
            commit=started.base,
        )
        return (branch, started) if started.branch else (started,)

    async with begin_work(config, place, how, plan.limits, beginning) as session:
        await _work(session, config, how)
        name = session.id
    return await _finish(config, name, is_landing=plan.is_landing, is_agreed=plan.is_agreed)


async def resume_fix(
    config: Config, session: str, how: FixHow, *, is_landing: bool = False, is_agreed: bool = False
) -> FixReport:
    """Goes on with a fix that is not over; one that is, is shown, and landed when asked. What it may use, and
    whether a model of unknown price is accepted, was settled when it began."""
    fix = await _load(config, session)
    if fix.ended is None:
        at = in_project(config, Path(fix.started.root)) if fix.started.root else config
        opened = resume_work(at, fix.session, how, fix.started.cap, is_unpriced=fix.started.is_unpriced)
        async with opened as running:
            await _work(running, at, how)
    return await _finish(config, fix.session, is_landing=is_landing, is_agreed=is_agreed)


async def show_fix(config: Config, session: str) -> FixReport:
    """Where a fix stands, also while another process works on it."""
    async with journal_of(config, session) as journal:
        vault = vault_of(sessions_of(config), journal.session, config)
        return await report_of(journal, await load_fix(journal, vault))


async def take_fix(session: Session, config: Config) -> AsyncGenerator[Recorded]:
    """Does what is left to do, and gives what happens, until it is over or a person is needed."""
    runtime, shown = runtime_of(session), session.opened_seq
    while (fix := await load_fix(runtime.journal, runtime.recorder.vault)).ended is None:
        move = next_move(fix)
        if move == "attempt" and (not fix.attempts_seq or await are_attempts_open(session)):
            async with aclosing(await _attempts(session, fix)) as events:
                async for item in events:
                    if not item.seq or item.seq > shown:
                        shown = max(shown, item.seq)
                        yield item
            if await are_attempts_open(session):
                return
        elif move == "run":
            await reproduce(session, fix)
        elif move == "locate":
            await locate(session, config, fix)
        else:
            await end_fix(session, config, fix)
        for item in await runtime.journal.read(after=shown):
            shown = item.seq
            yield item


async def _attempts(session: Session, fix: Fix) -> AsyncGenerator[Recorded]:
    runtime = runtime_of(session)
    if fix.attempts_seq or fix.fault is None:
        return continue_attempts(session, judge_fix, between_attempts)
    await run_baseline(runtime, fix)
    has_suite = bool(await suite_command(runtime, fix))
    output = await output_of(session, failed_run(fix))
    return take_attempts(
        session,
        fix_task(fix.started, fix.fault, output, has_suite=has_suite),
        attempts=fix.started.attempts,
        checks=(fix.started.command, *fix.started.checks),
        judge=judge_fix,
        between=between_attempts,
    )


async def _work(session: Session, config: Config, how: FixHow) -> None:
    how.on_begin(session)
    async with aclosing(take_fix(session, config)) as events:
        async for item in events:
            how.on_event(item)


async def _finish(config: Config, session: str, *, is_landing: bool, is_agreed: bool) -> FixReport:
    """What a worktree needs after the end, and the report, which says why a branch did not land."""
    fix, refused = await _load(config, session), None
    if fix.started.branch and fix.ended:
        await sweep(config, fix)
        if is_landing and fix.ended.outcome == "fixed" and not fix.is_landed:
            try:
                await land_fix(config, fix, is_agreed=is_agreed)
            except UsageError as error:
                refused = error
    report = await show_fix(config, session)
    if refused is None:
        return report
    why = f"{refused.message} {refused.remedy}".strip()
    return msgspec.structs.replace(report, not_landed=why, exit_code=refused.exit_code)


async def _load(config: Config, session: str) -> Fix:
    async with journal_of(config, session) as journal:
        return await load_fix(journal, vault_of(sessions_of(config), journal.session, config))


def _check(plan: FixPlan) -> None:
    if not plan.command.strip():
        raise UsageError(
            "There is no command to fix.",
            remedy='Name one that fails: mainspring fix "pytest -q tests/test_x.py"',
        )
    if not 1 <= plan.attempts <= MAX_ATTEMPTS or not 1 <= plan.repeat <= MAX_REPEAT:
        raise UsageError(
            "The number of attempts or repeats is out of range.",
            remedy=f"1 to {MAX_ATTEMPTS} attempts, 1 to {MAX_REPEAT} repeats.",
        )
    if plan.is_landing and not plan.in_worktree:
        raise UsageError("--land is for a fix in a worktree.", remedy="Add --worktree, or leave --land out.")
