"""Builds a session from settings: the only place that names concrete classes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from mainspring.app.agents_beside import agents_beside, agents_of
from mainspring.app.arguments import check_instructions, check_open
from mainspring.app.beside import opened_beside
from mainspring.app.checks import SessionChecks, regression_guard
from mainspring.app.engines import build_engine, engine_name, outside_engine
from mainspring.app.extensions import Extensions, elsewhere_beside, extensions_beside, extensions_of
from mainspring.app.imported import check_addresses, imported_events
from mainspring.app.known import KnownSession, project_folder_of, recall, workspace_at
from mainspring.app.model_choice import choose
from mainspring.app.models import (
    LateCompactor,
    build_compactor,
    check_context,
    own_models,
    priced,
    ready_for,
    ready_later,
)
from mainspring.app.policies import (
    DEFAULT_MODE,
    build_mode,
    build_own_policy,
    confine,
    confinement_of,
    load_for_commands,
    outside,
    permissions_of,
)
from mainspring.app.private import private_config
from mainspring.app.project_settings import settle
from mainspring.app.prompt import memory_of, new_prompt
from mainspring.app.records import create_recorder, open_recorder
from mainspring.app.stores import sessions_of
from mainspring.app.team_guard import TeamHold, hold_in
from mainspring.app.toolset import DEFAULT_TOOLS, ToolChoice, build_toolbox
from mainspring.app.workspaces import AllowHome
from mainspring.approvals import Policy
from mainspring.approvals.questions import Approver
from mainspring.catalog import Sessions
from mainspring.context.prompt import context_message
from mainspring.context.prompt import system_prompt as join_prompt
from mainspring.disk.files import output_files
from mainspring.engines import builtin
from mainspring.events import Effort, Event, Limits, Origin, Profile
from mainspring.folds import CHECKPOINT_FILE
from mainspring.folds.caps import is_money_capped, lasting
from mainspring.folds.processes import FOLDER as PROCESSES
from mainspring.models import Model
from mainspring.sandbox import Sandbox
from mainspring.sandbox.files import Files
from mainspring.sandbox.notice import hidden_notice
from mainspring.sandbox.policy import is_hidden_name
from mainspring.secrets.recorder import Recorder
from mainspring.session.child import ChildSession
from mainspring.session.opening import Opening, SessionModels, output_type
from mainspring.session.session import Session, runtime_of
from mainspring.settings import Config, with_caps
from mainspring.tools.toolbox import Toolbox
from mainspring.turns.runtime import Engine, Runtime, Upkeep, Workbench, lineage
from mainspring.waits.reach import Reach
from mainspring.workspace.contents import MEGABYTE
from mainspring.workspace.instructions import NestedInstructions
from mainspring.workspace.snapshots import Snapshots

if TYPE_CHECKING:
    from mainspring.turns.router import Router

_MOVED = "mainspring.app.moved_workspaces"
"""What only sessions of a shared store need."""

__all__ = ["DEFAULT_TOOLS", "KnownSession", "open"]


@asynccontextmanager
async def open(  # noqa: A001 - `mainspring.open` is how a program begins
    workspace: Path | str = ".",
    *,
    session: str = "",
    engine: Engine | str = "",
    model: Model | str = "",
    fallback: Sequence[Model | str] = (),
    effort: Effort | None = None,
    profile: Profile | None = None,
    mode: str = "",
    limits: Limits | None = None,
    instructions: str = "",
    system_prompt: str | None = None,
    tools: Sequence[ToolChoice] = DEFAULT_TOOLS,
    output: Any = None,
    sandbox: Sandbox | str = "",
    policy: Policy | None = None,
    approver: Approver | None = None,
    allow_unpriced: bool = False,
    allow_home: AllowHome = False,
    parent: Session | ChildSession | None = None,
    beginning: Callable[[], Awaitable[Sequence[Event]]] | None = None,
    config: Config | None = None,
    sessions: Sessions | None = None,
    origin: Origin | None = None,
) -> AsyncGenerator[Session]:
    """A new session in a workspace, or with `session` an earlier one, going on where it was. When the model
    fails, the session goes on with those in `fallback`, in their order. With an outside `engine` (`codex`,
    `exec:COMMAND`, ...) the model is named as that engine does. With a `parent` the session spends from the
    caps of that one as well. `sessions` is where sessions are kept, by default the data folder;
    `origin` is who gives the commands, for the journal.

    `instructions` are added to the system prompt; `system_prompt` stands in its place. `tools` are names of
    built-in tools, `Tool`s, or async functions as `tool` takes them. A `policy` decides in the place of mode,
    rules and grants; an `approver` answers what needs a person. `output` is the type that `session.ask` gives
    a value of, unless it is given another: a msgspec struct, a dataclass, a TypedDict, a pydantic model, or a
    JSON schema. A workspace that holds the home folder, the settings or the data of mainspring needs
    `allow_home`: True, or a function that asks a person.

    What is not given is taken from the session's journal, then from the settings.
    """
    check_open(locals())
    config = private_config(config)
    check_instructions(session, instructions, system_prompt)
    store = sessions or sessions_of(config)
    recorder = await open_recorder(await store.find(session), store, config, origin) if session else None
    chosen: Model | None = None
    child, parent = (parent, parent.parent) if isinstance(parent, ChildSession) else (None, parent)
    try:
        known = await _known(recorder, workspace, config, store if sessions is None else None, child)
        config, allows_home = settle(config, known.place, allow_home=known.allows_home or allow_home)
        hold = await hold_in(config, known.project_folder, is_new=not session, owner=known.owner)
        chosen_mode, level = hold.mode(mode, known.mode_or(config.settings.mode or DEFAULT_MODE))
        limits = with_caps(lasting(given := limits or Limits(), known.told(config)), config.settings.caps)
        capping, named = hold.capped(_capping(limits, parent)), (engine, model, fallback)
        allow_unpriced = allow_unpriced or (known.is_unpriced and not is_money_capped(given))
        models, takes, name = _choose(*named, known, config, capping, allow_unpriced, effort, hold)
        chosen, profile = await ready_for(models.model, name, config, profile, known.profile)
        models = msgspec.structs.replace(models, model=chosen)
        extensions = extensions_of(tools, name, known, chosen_mode, sandbox, config, child, profile)
        used, wanted = extensions.plugins, output_type(output, name)
        agents = None if parent else agents_of(tools, name, known.place, profile, config, used)
        more = [agents, extensions] if agents else [extensions]
        has_notify, compactor = config.settings.notify.tool, build_compactor(config)
        toolbox = build_toolbox(tools, profile, more, chosen, extensions.shell, has_notify=has_notify)
        prompt, warnings = new_prompt(
            known.place, chosen_mode, config, instructions, system_prompt, profile, used, is_new=not session
        )
        system, context = join_prompt(prompt), context_message(prompt)
        for each in models.all:
            check_context(each, system + context, toolbox.specs)
        files = Files(confinement_of(known.place, chosen_mode, config, child.readable if child else ()))
        opening = Opening(
            models=models,
            workspace=str(known.place),
            mode=chosen_mode,
            level=level,
            system=system,
            context=context,
            prompt=tuple(part for part, _ in prompt),
            profile=profile,
            engine_name=name,
            effort=effort or (None if known.model or name != builtin.NAME else config.settings.effort),
            given_limits=given,
            warnings=(*warnings, *extensions.warnings, *_hidden(files, session)),
            allows_home=allows_home,
            parent=child.parent.id if child else "",
            agent=child.agent if child else "",
            beginning=beginning,
        )
        own = policy or build_own_policy(build_mode(chosen_mode, level, capping), known.place, config)
        policy = hold.laid_over(own)
        recorder = recorder or await _made(store, config, origin, child and child.session, engine=name)
        runtime = Runtime(
            recorder,
            models=models.pool(partial(ready_later, config=config, wanted=known.profile or profile)),
            workbench=_workbench(recorder, toolbox, sandbox, files, policy, store, config, extensions),
            permissions=permissions_of(recorder, policy, approver, store, config, parent),
            budget=hold.budget(limits, parent and runtime_of(parent), store),
            upkeep=_upkeep(recorder, compactor, models.router, store, config, extensions.checks),
        )
    except BaseException:
        for each in filter(None, (chosen, recorder)):
            await each.close()
        raise
    begun = _with_workspace(opening, runtime, config, known)
    made = Session(runtime, engine=takes, opening=begun, output=wanted)
    kept = opened_beside(made, config if sessions is None else None, extensions.hooks)
    children = agents_beside(agents, made, config, store, sandbox, origin, allow_home=allows_home)
    beside, jobs = extensions_beside(extensions, runtime), elsewhere_beside(extensions, runtime)
    async with aclosing(compactor), beside, kept as running, children, jobs:
        yield running


def _capping(limits: Limits, parent: Session | None) -> Limits:
    """The limits of a session, or of one above it, that cap money; its own when none does."""
    above = (each.limits for each in lineage(runtime_of(parent))) if parent else ()
    return next(filter(is_money_capped, (limits, *above)), limits)


async def _made(
    store: Sessions, config: Config, origin: Origin | None, session: str | None, *, engine: str
) -> Recorder:
    """The recorder of a new session. While its journal is made, what takes its turns is loaded."""
    making = create_recorder(store, config, origin, session)
    if engine != builtin.NAME:
        return await making
    recorder, _ = await asyncio.gather(making, asyncio.to_thread(builtin.load))
    return recorder


def _with_workspace(opening: Opening, runtime: Runtime, config: Config, known: KnownSession) -> Opening:
    project = str(known.project or "")
    opening = msgspec.structs.replace(opening, project=project, imported=known.imported)
    if known.store is None:
        return opening
    return import_module(_MOVED).with_workspace(opening, runtime, config, known)


def _choose(
    engine: Engine | str,
    model: Model | str,
    fallback: Sequence[Model | str],
    known: KnownSession,
    config: Config,
    limits: Limits,
    allow_unpriced: bool,  # noqa: FBT001 - one of many that are passed on
    effort: Effort | None,
    hold: TeamHold,
) -> tuple[SessionModels, Engine, str]:
    """The models of a session, and who takes its turns, with their name."""
    name = engine_name(engine if isinstance(engine, str) else builtin.NAME, known.engine, config)
    hold.check_engine(name)
    if name != builtin.NAME:
        outside = outside_engine(
            name,
            model,
            known=known.model,
            config=config,
            limits=limits,
            allow_unpriced=allow_unpriced,
            effort=effort,
        )
        hold.check_model(outside.model.name)
        return SessionModels(model=outside.model), build_engine(outside), name
    is_ours = known.engine is None or known.engine.engine == builtin.NAME
    before = known.model if is_ours else None
    if before and known.is_model_imported:
        own = own_models(config)
        check_addresses(before, own, is_model_named=bool(model), is_line_named=bool(fallback))
    connected = partial(priced, config=config, limits=limits, allow_unpriced=allow_unpriced)
    connect = hold.connecting(connected)
    models = choose(model, fallback, known=before, config=config, connect=connect)
    return models, builtin.take_turn if isinstance(engine, str) else engine, name


def _workbench(
    recorder: Recorder,
    toolbox: Toolbox,
    sandbox: Sandbox | str,
    files: Files,
    policy: Policy,
    store: Sessions,
    config: Config,
    extensions: Extensions,
) -> Workbench:
    """What calls work with in a workspace, confined to it."""
    confinement, vault = files.policy, recorder.vault
    place = confinement.workspace
    time_machine = Snapshots(
        place,
        config.home / "contents",
        environment=config.environment,
        scan=files.scan,
        left_out=(*confinement.hidden_paths, *output_files()),
        is_secret=lambda name: is_hidden_name(name, confinement),
        holds_secrets=vault.holds_secrets,
        hide=vault.redact,
        expand=vault.expand,
        max_bytes=config.settings.retention.contents_mb * MEGABYTE,
    )
    return Workbench(
        toolbox=toolbox,
        files=files,
        choose_sandbox=partial(confine, sandbox, confinement, config, files.scan),
        load_for_commands=partial(load_for_commands, policy),
        time_machine=time_machine,
        processes=store.directory(recorder.session) / PROCESSES,
        nested=NestedInstructions(place),
        memory=memory_of(place, config, vault),
        reach=Reach(store, partial(outside, confinement, config), extensions.look, config.settings.waits),
        work=config.settings.work,
    )


def _upkeep(
    recorder: Recorder,
    compactor: LateCompactor,
    router: Router | None,
    store: Sessions,
    config: Config,
    checks: SessionChecks | None,
) -> Upkeep:
    return Upkeep(
        compactor=compactor,
        compact_at=config.settings.compact_at,
        idle_steps=config.settings.idle_steps,
        router=router,
        checkpoint=store.directory(recorder.session) / CHECKPOINT_FILE,
        checks=checks,
        guard=regression_guard(config),
    )


def _hidden(files: Files, session: str) -> list[str]:
    """What a new session is told of files that it cannot see."""
    notice = "" if session else hidden_notice(files.policy, files.scan)
    return [notice] if notice else []


async def _known(
    recorder: Recorder | None,
    workspace: Path | str,
    config: Config,
    store: Sessions | None,
    child: ChildSession | None,
) -> KnownSession:
    """What is known of a session, whose workspace is brought here first when it is on a shared `store`."""
    shared = store if config.store_url else None
    if recorder is None:
        place = workspace_at(Path(workspace))
        of = await project_folder_of(child.parent) if child else config.copied or place
        return KnownSession(place=place, store=shared, project=None if of == place else of)
    journal = recorder.journal
    imported = await imported_events(store.files(journal.session), journal) if store else 0
    moved = ()
    if shared and not imported:
        moved = await import_module(_MOVED).bring_workspace(recorder, config, shared)
    known = await recall(journal, recorder.vault, imported=imported)
    return msgspec.structs.replace(known, moved=moved, store=shared)
