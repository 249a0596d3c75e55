"""Builds a goal and works on it: the one way in for `goal`, `exploop`, `drvloop` and programs.

A goal is kept in the journal of its session. Starting the same goal again in the same folder goes on with it.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from mainspring.app import build as app
from mainspring.app.arguments import check_goal
from mainspring.app.engines import engine_name, outside_engine
from mainspring.app.imported import check_goal_is_ours
from mainspring.app.known import recall
from mainspring.app.models import build_model
from mainspring.app.operations.goal_attempts import GoalAttempts
from mainspring.app.plugins import plugin_checks
from mainspring.app.policies import DEFAULT_MODE, confinement_of
from mainspring.app.private import own_config
from mainspring.app.records import recording, vault_of, workspace_of
from mainspring.app.stores import sessions_of
from mainspring.app.workspaces import AllowHome
from mainspring.approvals.questions import Approver
from mainspring.catalog import Sessions, reading
from mainspring.disk.untrusted import read_untrusted_text
from mainspring.engines.builtin import NAME as BUILTIN
from mainspring.errors import JournalOwned, UsageError, require_type
from mainspring.events import (
    Cap,
    Effort,
    Evaluation,
    Event,
    GoalChecks,
    GoalEnded,
    GoalPaused,
    GoalSet,
    Limits,
    NoteAdded,
    Origin,
)
from mainspring.evidence.evaluation import merged, with_hashes
from mainspring.goals.control import GivenOrder, Order, end_left, record_order, send_order
from mainspring.goals.fold import load_goal
from mainspring.goals.instructions import write_instructions
from mainspring.goals.lock import workspace_held
from mainspring.goals.loop import Pursuit
from mainspring.goals.profiles import Profile, load_profile
from mainspring.sandbox.files import Files
from mainspring.secrets.injection import suspicions
from mainspring.secrets.vault import Vault
from mainspring.session.session import Session, runtime_of
from mainspring.settings import Config
from mainspring.turns.runtime import Runtime

_UNFINISHED = ("running", "interrupted", "paused", "stopped", "blocked")
_MAX_PATH = 4096
_FILE_NAME = re.compile(r"\S*/\S*|\S+\.[A-Za-z][A-Za-z0-9]{0,7}")
"""One word that can only be meant as the name of a file."""
_MAX_GOAL_BYTES = 1 << 20
DEFAULT_PROFILE = "goal"
_INSTRUCTIONS = "instructions"
"""Named where a call would be: nobody asked for these changes but us."""


class GoalOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a goal is started or resumed with. What is not given is the profile's, or as it was. What a
    schedule begins (`by`) is a new goal each time."""

    folder: Path = Path()
    profile: str = ""
    engine: str = ""
    checks: GoalChecks = GoalChecks()
    rules: dict[str, Any] = {}
    evaluation: Evaluation = Evaluation()
    memory: str = ""
    model: str = ""
    fallback: tuple[str, ...] = ()
    effort: Effort | None = None
    mode: str = ""
    sandbox: str = ""
    machine: str = ""
    allow_unpriced: bool = False
    allow_home: AllowHome = False
    notify: tuple[str, ...] = ()
    by: str = "user"
    set_by: Origin | None = None
    """Whose goal it is, where whoever begins it only said that its time has come."""


def with_longest_wait(rules: dict[str, Any]) -> dict[str, Any]:
    """The rules as they are recorded, where a longest wait of 0 means none and not one without a limit."""
    if "max_wait_s" not in rules:
        return rules
    others = {name: value for name, value in rules.items() if name != "max_wait_s" or value}
    return {**others, "no_waits": not rules["max_wait_s"]}


def made_folder(folder: Path) -> Path:
    """The folder of a classic loop, which is made when it is not there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"The folder {folder} cannot be made: {error.strerror}.", remedy="Name another with -C."
        ) from error
    return folder


def goal_text(given: str) -> tuple[str, str]:
    """The goal, and the file that it was read from when the argument names one."""
    if not given.strip():
        raise UsageError("The goal is empty.", remedy="Give a text, or the name of a file that holds it.")
    path = Path(given).expanduser()
    if len(given) >= _MAX_PATH or "\n" in given or not os.path.lexists(path):
        if _FILE_NAME.fullmatch(given.strip()):
            raise UsageError(
                f"There is no file {given.strip()}.",
                remedy="Check its name, or give the goal as a text of more than one word.",
            )
        return given, ""
    try:
        text = read_untrusted_text(path, max_bytes=_MAX_GOAL_BYTES, root=Path())
    except OSError as error:
        raise UsageError(
            f"The goal in {given} cannot be read: {error.strerror}.",
            remedy="Check the file, or give the goal as text.",
        ) from error
    if not text.strip():
        raise UsageError(f"The file {given} is empty.", remedy="Write the goal into it.")
    return text, given


def profile_name(given: str) -> str:
    """How a profile is recorded: one that is a file by its whole path, so that it is found from anywhere."""
    return str(Path(given).expanduser().absolute()) if given.endswith(".toml") else given or DEFAULT_PROFILE


async def find_unfinished(text: str, profile: str, folder: Path, store: Sessions, config: Config) -> str:
    """The session that worked towards this very goal here and has not ended; empty when there is none."""
    place = str(await asyncio.to_thread(folder.resolve))
    for row in await store.rows():
        if workspace_of(row, store, config) == place and row.goal and row.goal_state in _UNFINISHED:
            vault = vault_of(store, row.id, config)
            goal = await load_goal(store, row.id, vault)
            if (vault.expand(goal.now.text), goal.now.profile) == (text, profile):
                return row.id
    return ""


@asynccontextmanager
async def start_goal(
    given: str,
    options: GoalOptions,
    *,
    approver: Approver | None = None,
    config: Config | None = None,
    sessions: Sessions | None = None,
) -> AsyncGenerator[Pursuit]:
    """A new goal, ready to be worked on; the same goal in the same folder goes on where it was."""
    require_type(given, str, "given")
    require_type(options, GoalOptions, "options")
    check_goal(locals(), msgspec.structs.asdict(options))
    config = config or own_config()
    store = sessions or sessions_of(config)
    is_new = options.by != "user"
    text, source = (given, "") if is_new else goal_text(given)
    name = profile_name(options.profile)
    profile = load_profile(name, config.folder)
    if not is_new and (session := await find_unfinished(text, name, options.folder, store, config)):
        resumed = resume_goal(session, options, approver=approver, config=config, sessions=sessions)
        async with resumed as pursuit:
            yield pursuit
        return
    wanted = _goal_set(text, source, profile, with_plugin_checks(options, config))

    async def beginning() -> list[Event]:
        return [await _frozen(wanted, options.folder, config)]

    async with workspace_held(store, config.home, options.folder) as held:
        begun = partial(_open, folder=options.folder, beginning=beginning, approver=approver)
        opened = begun(options, wanted, config, sessions)
        async with opened as session:
            held.name(session.id)
            yield _pursuit(session, profile, wanted, config)


@asynccontextmanager
async def resume_goal(
    session: str,
    options: GoalOptions,
    *,
    approver: Approver | None = None,
    config: Config | None = None,
    sessions: Sessions | None = None,
) -> AsyncGenerator[Pursuit]:
    """An earlier goal, with other limits where they are given."""
    require_type(session, str, "session")
    require_type(options, GoalOptions, "options")
    check_goal(locals(), msgspec.structs.asdict(options))
    config = config or own_config()
    store = sessions or sessions_of(config)
    session = await store.find(session)
    vault = vault_of(store, session, config)
    async with reading(store, session) as reader:
        await check_goal_is_ours(store.files(session), reader)
    goal = await load_goal(store, session, vault)
    if goal.ended is not None and goal.ended.ending == "done":
        raise UsageError(f"The goal {session} is done.", remedy=f"See mainspring goal report {session}.")
    profile = load_profile(profile_name(options.profile or goal.now.profile), config.folder)
    started = await _workspace_of(store, session, vault)
    async with workspace_held(store, config.home, started) as held:
        held.name(session)
        changed = _changed(goal.now, with_plugin_checks(options, config))
        wanted = await _frozen(changed, started, config, before=goal.now.evaluation)
        async with _open(options, wanted, config, sessions, session=session, approver=approver) as opened:
            if goal.ended or goal.paused or wanted != goal.now:
                await runtime_of(opened).record(msgspec.structs.replace(wanted, origin=None))
            yield _pursuit(opened, profile, wanted, config)


async def is_priced(options: GoalOptions, config: Config) -> bool:
    """Whether the work on such a goal is known to cost money."""
    name = engine_name(options.engine, None, config)
    if name != BUILTIN:
        outside = outside_engine(
            name, options.model, known=None, config=config, limits=Limits(), allow_unpriced=True
        )
        return outside.facts.reports_cost or outside.model.price is not None
    model = build_model(options.model or config.model, config)
    try:
        return model.price is not None and (model.price.input > 0 or model.price.output > 0)
    finally:
        await model.close()


async def change_goal(session: str, text: str, config: Config) -> None:
    """Puts another text in the place of a goal that nobody works on, on record."""
    store = sessions_of(config)
    session = await store.find(session)
    vault = vault_of(store, session, config)
    goal = await load_goal(store, session, vault)
    async with _open(GoalOptions(), goal.now, config, None, session=session) as opened:
        await runtime_of(opened).record(
            msgspec.structs.replace(goal.now, text=text, by="user", origin=None),
            GoalPaused(reason="Changed."),
        )


async def tell_goal(session: str, order: Order, event: GoalPaused | GoalEnded, config: Config) -> str:
    """Pauses or stops a goal, and returns when that is on record; says what was done."""
    store = sessions_of(config)
    session = await store.find(session)
    try:
        async with recording(session, config, store) as recorder:
            return await record_order(recorder, order, event)
    except JournalOwned:
        return await send_order(store, session, GivenOrder(order=order, origin=config.origin))


async def end_processes_of(session: str, config: Config) -> int:
    """Ends what a goal that has ended left running; gives how many processes there were."""
    async with recording(session, config, sessions_of(config)) as recorder:
        return (await end_left(recorder))[0]


def _goal_set(text: str, source: str, profile: Profile, options: GoalOptions) -> GoalSet:
    checks, given = profile.checks, options.checks
    return GoalSet(
        text=text,
        source=source,
        suspicious=suspicions(text) if source else (),
        profile=profile_name(options.profile),
        engine=options.engine or "builtin",
        memory=options.memory or profile.memory,
        checks=GoalChecks(
            commands=(*checks.commands, *given.commands),
            files=(*checks.files, *given.files),
            targets=(*checks.targets, *given.targets),
            needs_claims=checks.needs_claims or given.needs_claims,
        ),
        rules=msgspec.structs.replace(profile.rules, **options.rules),
        evaluation=merged(profile.evaluation, options.evaluation),
        by=options.by,
        origin=options.set_by,
        sandbox=options.sandbox,
        allow_unpriced=options.allow_unpriced,
    )


def with_plugin_checks(options: GoalOptions, config: Config) -> GoalOptions:
    """With the command lines that names of plugins' checks stand for."""
    lines = plugin_checks(options.checks.commands, config)
    return msgspec.structs.replace(options, checks=msgspec.structs.replace(options.checks, commands=lines))


def _changed(now: GoalSet, options: GoalOptions) -> GoalSet:
    checks, given = now.checks, options.checks
    return msgspec.structs.replace(
        now,
        engine=options.engine or now.engine,
        memory=options.memory or now.memory,
        rules=msgspec.structs.replace(now.rules, **options.rules),
        checks=msgspec.structs.replace(
            checks,
            commands=tuple(dict.fromkeys((*checks.commands, *given.commands))),
            files=tuple(dict.fromkeys((*checks.files, *given.files))),
            targets=tuple(dict.fromkeys((*checks.targets, *given.targets))),
        ),
        evaluation=merged(now.evaluation, options.evaluation),
        sandbox=options.sandbox or now.sandbox,
        allow_unpriced=options.allow_unpriced or now.allow_unpriced,
    )


async def _frozen(
    wanted: GoalSet, folder: Path, config: Config, *, before: Evaluation | None = None
) -> GoalSet:
    """The goal with the hashes of its frozen files; those that were frozen before keep theirs."""
    place = await asyncio.to_thread(folder.resolve)
    files = Files(confinement_of(place, DEFAULT_MODE, config))
    evaluation = await with_hashes(wanted.evaluation, files, before=before)
    return msgspec.structs.replace(wanted, evaluation=evaluation)


def _open(
    options: GoalOptions,
    goal: GoalSet,
    config: Config,
    sessions: Sessions | None,
    *,
    folder: Path | str = ".",
    session: str = "",
    beginning: Callable[[], Awaitable[Sequence[Event]]] | None = None,
    approver: Approver | None = None,
) -> AbstractAsyncContextManager[Session]:
    """Without `sessions` it is kept in the data folder, and people are told about it."""
    rules, named = goal.rules, config.settings.notify.named(options.notify)
    limits = Limits(
        max_steps=rules.iteration_steps,
        timeout_s=rules.iteration_time_s,
        turn=Cap(usd=rules.iteration_cost_usd),
        goal=Cap(usd=rules.max_cost_usd, tokens=rules.max_tokens),
    )
    return app.open(
        folder,
        session=session,
        model=options.model,
        fallback=options.fallback,
        engine=goal.engine,
        effort=options.effort,
        mode=options.mode,
        sandbox=goal.sandbox,
        limits=limits,
        allow_unpriced=goal.allow_unpriced,
        allow_home=options.allow_home,
        beginning=beginning,
        approver=approver,
        config=msgspec.structs.replace(config, notify=(*config.notify, *named), machine=options.machine),
        sessions=sessions,
    )


def _pursuit(session: Session, profile: Profile, goal: GoalSet, config: Config) -> Pursuit:
    runtime = runtime_of(session)
    is_instructed = goal.engine != "builtin" and runtime.workbench.files.policy.mode != "read-only"
    prepare = partial(_instruct, runtime, profile.prompt) if is_instructed else None
    return Pursuit(
        session, profile, cache=config.home / "artifacts", prepare=prepare, attempting=GoalAttempts()
    )


async def _instruct(runtime: Runtime, prompt: str) -> None:
    """Writes what an outside engine reads by itself, on record like the work of a call: it is shown with the
    changes and can be taken back."""
    time_machine = runtime.workbench.time_machine
    await time_machine.begin(_INSTRUCTIONS)
    problems = await asyncio.to_thread(write_instructions, runtime.workbench.files, prompt)
    changed = await time_machine.end([_INSTRUCTIONS], runtime.recorder.put_blobs)
    if changed:
        await runtime.record(changed)
    for problem in problems:
        await runtime.record(NoteAdded(text=problem, source="mainspring"))


async def _workspace_of(store: Sessions, session: str, vault: Vault) -> Path:
    async with reading(store, session) as reader:
        return (await recall(reader, vault)).place
