"""One task attempted in parallel, each attempt a session in a git worktree of its own: by other models, with
other hints, or sampled otherwise. Each is judged by the same checks in its own sandbox; the best is named,
and landed when asked.

All that a farm is stands in the journal of its session, which the attempts share a budget with: who they are
before they begin, and what came of each. A process that takes the farm over makes none of them twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing, suppress
from pathlib import Path

import msgspec

from mainspring.app.build import open as open_session
from mainspring.app.known import workspace_at
from mainspring.app.operations.attempts import TEMPERATURES, continue_attempts, take_attempts
from mainspring.app.operations.branches import NotAgreed, commit_branch
from mainspring.app.operations.farm_base import beginning_commit
from mainspring.app.operations.farm_choice import choose, is_unknown
from mainspring.app.operations.opened_work import WorkHow, begin_work, resume_work
from mainspring.app.operations.risk import risk_of_branch
from mainspring.app.operations.sessions import journal_of
from mainspring.app.private import worktree_folder
from mainspring.app.project_settings import in_project
from mainspring.app.records import recording, vault_of
from mainspring.app.stores import sessions_of
from mainspring.context.history import read_all
from mainspring.disk.ids import new_id
from mainspring.errors import MainspringError, UsageError
from mainspring.events import (
    MAX_ATTEMPTS,
    AttemptEnded,
    AttemptsEnded,
    AttemptsStarted,
    AttemptStarted,
    BranchMoved,
    Event,
    Limits,
    SamplingChosen,
    SessionStarted,
)
from mainspring.folds.caps import cap_of
from mainspring.journal import JournalReader, last_event
from mainspring.secrets.redaction import expanded
from mainspring.secrets.vault import Vault
from mainspring.session.child import ChildSession
from mainspring.session.session import Session, runtime_of
from mainspring.settings import Config
from mainspring.workspace.branches import PREFIX, current_branch, tip_of
from mainspring.workspace.git import Git
from mainspring.workspace.linked_worktrees import (
    add_worktree,
    drop_branch,
    drop_worktree,
    merge_branch,
    risks_between,
)

AGENT = "farm"
AT_ONCE = 4
_KINDS = ("AttemptsStarted", "AttemptStarted", "AttemptEnded", "AttemptsEnded", "BranchMoved")
_PAUSED = ("interrupted", "waiting")


class FarmPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What to attempt. Models and hints are taken in turn; the same again is sampled otherwise. `limits` hold
    for all attempts together. One that `is_landing` is refused where it could not."""

    task: str
    attempts: int = 2
    models: Sequence[str] = ()
    hints: Sequence[str] = ()
    checks: Sequence[str] = ()
    judge: str = ""
    limits: Limits = Limits()
    is_landing: bool = False


class FarmHow(WorkHow, frozen=True, kw_only=True):
    """How the sessions of a farm are opened, and who is told of each change."""

    at_once: int = AT_ONCE
    on_change: Callable[[AttemptStarted | AttemptEnded], None] = lambda _: None


class FarmAttempt(msgspec.Struct, frozen=True):
    started: AttemptStarted
    ended: AttemptEnded | None = None


class Farm(msgspec.Struct, frozen=True, kw_only=True):
    """What the journal says. `best` is the number of an attempt once they were compared, else 0."""

    session: str
    workspace: Path
    started: AttemptsStarted
    attempts: tuple[FarmAttempt, ...]
    best: int = 0
    reason: str = ""
    is_passed: bool = False
    is_landed: bool = False

    @property
    def open(self) -> tuple[AttemptStarted, ...]:
        return tuple(each.started for each in self.attempts if each.ended is None)

    def attempt(self, number: int) -> FarmAttempt:
        return next(each for each in self.attempts if each.started.attempt == number)


async def start_farm(config: Config, folder: Path, plan: FarmPlan, how: FarmHow) -> Farm:
    """Attempts a task, compares what came of it, and leaves a branch for each attempt."""
    if not plan.task.strip() or not 1 <= plan.attempts <= MAX_ATTEMPTS:
        raise UsageError("A farm needs a task, and 1 to 20 attempts.", remedy="mainspring farm -n 3 TASK")
    git = Git(workspace_at(folder), config.environment)
    commit = beginning_commit(git, is_landing=plan.is_landing)
    planned = _planned(config, git, plan, commit, is_unpriced=how.allow_unpriced)

    async def beginning() -> Sequence[Event]:
        return planned

    own = msgspec.structs.replace(how, model=next(iter(plan.models), ""))
    async with begin_work(config, git.folder, own, plan.limits, beginning) as parent:
        return await _work(parent, config, how)


async def resume_farm(config: Config, session: str, how: FarmHow) -> Farm:
    """Goes on with the attempts that have no end on record, and compares them if nobody has. What the farm
    may use, and whether a model of unknown price is accepted, was settled when it began."""
    async with journal_of(config, session) as journal:
        vault = vault_of(sessions_of(config), journal.session, config)
        farm = await load_farm(journal, vault)
    if farm.best:
        await _sweep(config, farm)
        return farm
    started = farm.started
    how = msgspec.structs.replace(how, allow_unpriced=how.allow_unpriced or started.is_unpriced)
    opened = resume_work(config, farm.session, how, started.cap, is_unpriced=started.is_unpriced)
    async with opened as parent:
        return await _work(parent, config, how)


async def load_farm(journal: JournalReader, vault: Vault) -> Farm:
    """What became of a farm so far; `UsageError` when the session is none."""
    farm: Farm | None = None
    began = await last_event(journal, SessionStarted)
    place = Path(vault.expand(began.workspace)) if began else Path()
    for item in await read_all(journal, kinds=_KINDS):
        match expanded(item.event, vault):
            case AttemptsStarted() as started if started.base:
                farm = Farm(session=journal.session, workspace=place, started=started, attempts=())
            case event if farm is not None:
                farm = _after(farm, event)
            case _:
                pass
    if farm is None:
        raise UsageError(f"Session {journal.session} is no farm.", remedy="mainspring farm TASK starts one.")
    return farm


def _after(farm: Farm, event: Event) -> Farm:
    replace = msgspec.structs.replace
    match event:
        case AttemptStarted():
            return replace(farm, attempts=(*farm.attempts, FarmAttempt(event)))
        case AttemptEnded(attempt=number):
            made = (
                replace(each, ended=event) if each.started.attempt == number else each
                for each in farm.attempts
            )
            return replace(farm, attempts=tuple(made))
        case AttemptsEnded():
            return replace(farm, best=event.kept, reason=event.reason, is_passed=event.is_passed)
        case BranchMoved(action="merged"):
            return replace(farm, is_landed=True)
        case _:
            return farm


async def land_farm(
    config: Config, session: str, *, drops: bool = False, is_agreed: bool = False
) -> BranchMoved:
    """Brings the best attempt into the branch that the farm began from. With `drops` the branches of the
    others are removed. Where its risk needs a person, it must be `is_agreed`: else `NotAgreed`."""
    async with recording(session, config) as recorder:
        farm = await load_farm(recorder.journal, recorder.vault)
        ended = farm.attempt(farm.best).ended if farm.best else None
        if ended is None or not ended.commit:
            why = "changed nothing" if ended else "is not over"
            raise UsageError(
                f"There is nothing to land: the farm {why}.", remedy=f"mainspring farm --resume {session}"
            )
        if not farm.started.base_branch:
            made = farm.attempt(farm.best).started.branch
            raise UsageError("HEAD was detached when the farm began.", remedy=f"Run: git merge {made}")
        if farm.is_landed:
            raise UsageError(f"Attempt {farm.best} has landed already.")
        git = Git(farm.workspace, config.environment)
        branch, base = farm.attempt(farm.best).started.branch, farm.started.base_branch
        told = await risk_of_branch(config, recorder, farm.workspace, farm.started.base, ended.commit)
        if told.why_ask and not is_agreed:
            raise NotAgreed(session, told, f"mainspring farm --resume {session} --land --yes", branch)
        commit = await asyncio.to_thread(merge_branch, git, branch, base)
        moved = BranchMoved(
            action="merged", branch=branch, base=base, commit=commit, files=ended.files, risk=told.risk.score
        )
        await recorder.record(moved)
        others = [each.started.branch for each in farm.attempts if each.started.branch != branch]
        for name in (branch, *(others if drops else ())):
            await asyncio.to_thread(drop_branch, git, name)
        return moved


def _planned(
    config: Config, git: Git, plan: FarmPlan, commit: str, *, is_unpriced: bool
) -> tuple[Event, ...]:
    """The farm and who works in it, as it is recorded before anything begins."""
    models, hints, tag = plan.models or ("",), plan.hints or ("",), new_id()
    cache = worktree_folder(config, "farms", tag)
    prefix = git.text("rev-parse", "--show-prefix")
    begun = AttemptsStarted(
        attempts=plan.attempts,
        checks=tuple(plan.checks),
        cap=cap_of(plan.limits, "session"),
        task=plan.task,
        base=commit,
        base_branch=current_branch(git),
        judge=plan.judge,
        judge_session=new_id() if plan.judge else "",
        is_unpriced=is_unpriced,
    )
    attempts = [
        AttemptStarted(
            attempt=number,
            session=new_id(),
            model=models[(number - 1) % len(models)],
            hint=hints[(number - 1) // len(models) % len(hints)],
            branch=f"{PREFIX}farm-{tag}-{number}",
            folder=str(cache / str(number) / prefix),
        )
        for number in range(1, plan.attempts + 1)
    ]
    return begun, *attempts


async def _work(parent: Session, config: Config, how: FarmHow) -> Farm:
    runtime = runtime_of(parent)
    config = in_project(config, parent.state.workspace)  # worktrees are no project of their own
    farm = await load_farm(runtime.journal, runtime.recorder.vault)
    turn = asyncio.Semaphore(how.at_once)

    async def attempt(started: AttemptStarted) -> None:
        async with turn:
            how.on_change(started)
            if ended := await _ended(parent, config, farm, started, how):
                await runtime.record(ended)
                how.on_change(ended)

    async with asyncio.TaskGroup() as group:
        for started in farm.open:
            group.create_task(attempt(started))
    farm = await load_farm(runtime.journal, runtime.recorder.vault)
    if not farm.open and not farm.best:
        git = Git(parent.state.workspace, config.environment)
        made = [(each.started, each.ended) for each in farm.attempts if each.ended]
        chosen = await choose(parent, config, git, farm.started, made, how)
        await runtime.record(
            AttemptsEnded(
                kept=chosen.attempt,
                reason=chosen.reason,
                is_passed=chosen.is_passed,
                ending=chosen.ending,
                end_seqs=(0,) * len(made),  # each ended in a journal of its own
            )
        )
        farm = await load_farm(runtime.journal, runtime.recorder.vault)
        await _sweep(config, farm)
    return farm


async def _sweep(config: Config, farm: Farm) -> None:
    """Removes the worktrees of a farm that is over; its branches stay."""
    git = Git(farm.workspace, config.environment)
    for each in farm.attempts:
        if (root := _root(each.started, git)).parent.exists():
            await asyncio.to_thread(drop_worktree, git, root)
            with suppress(OSError):
                root.parent.rmdir()


async def _ended(
    parent: Session, config: Config, farm: Farm, started: AttemptStarted, how: FarmHow
) -> AttemptEnded | None:
    """Makes an attempt, or goes on with it; None when it is paused. One that cannot be made has failed, and
    the others go on."""
    try:
        return await _attempted(parent, config, farm, started, how)
    except MainspringError as error:
        return AttemptEnded(
            attempt=started.attempt, ending="failed", detail=f"{error.message} {error.remedy}".strip()
        )


async def _attempted(
    parent: Session, config: Config, farm: Farm, started: AttemptStarted, how: FarmHow
) -> AttemptEnded | None:
    git = Git(parent.state.workspace, config.environment)
    root, is_new = _root(started, git), await is_unknown(config, started.session)
    base = farm.started.base
    if is_new:
        await asyncio.to_thread(add_worktree, git, root, started.branch, base)
    began = BranchMoved(
        action="started", branch=started.branch, base=farm.started.base_branch or base, commit=base
    )
    again = sum(
        (each.started.model, each.started.hint) == (started.model, started.hint)
        for each in farm.attempts[: started.attempt - 1]
    )

    async def beginning() -> Sequence[Event]:
        heat = TEMPERATURES[min(again, len(TEMPERATURES)) - 1]
        other = SamplingChosen(temperature=heat, seed=started.attempt, reason=f"attempt {started.attempt}")
        return (began, other) if again else (began,)

    opened = open_session(
        Path(started.folder),
        session="" if is_new else started.session,
        model=started.model or parent.state.model,
        mode=parent.state.level or parent.state.mode,
        sandbox=how.sandbox,
        effort=how.effort,
        approver=how.approver,
        allow_unpriced=how.allow_unpriced,
        parent=ChildSession(parent, started.session, AGENT),
        beginning=beginning,
        config=config,
    )
    async with opened as session:
        is_begun = await session.journal.last("AttemptsStarted") is not None
        text = "\n\n".join(filter(None, (farm.started.task, started.hint)))
        events = (
            continue_attempts(session)
            if is_begun
            else take_attempts(session, text, attempts=1, checks=farm.started.checks)
        )
        async with aclosing(events):
            async for _ in events:
                pass
        ended = await last_event(session.journal, AttemptEnded) or _unjudged(session)
        if ended is None:
            return None
        await commit_branch(config, session)
        vault = runtime_of(session).recorder.vault
    tip = await asyncio.to_thread(tip_of, git, started.branch)
    return msgspec.structs.replace(
        expanded(ended, vault),
        attempt=started.attempt,
        commit=tip if tip != base else "",
        risks=await asyncio.to_thread(risks_between, git, base, tip),
    )


def _unjudged(session: Session) -> AttemptEnded | None:
    """What is said of an attempt whose turn needs a person; None when it can simply go on later."""
    last = session.state.last_ending
    if last is None or last.ending in _PAUSED:
        return None
    return AttemptEnded(attempt=1, ending=last.ending, detail=last.detail)


def _root(started: AttemptStarted, git: Git) -> Path:
    """The worktree, of which the attempt may work in a folder only."""
    prefix = git.text("rev-parse", "--show-prefix")
    folder = Path(started.folder)
    return folder.parents[len(Path(prefix).parts) - 1] if prefix else folder
