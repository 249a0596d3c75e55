"""Builds a session from settings: the only place that names concrete classes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import partial
from pathlib import Path

import msgspec

from mainspring.app.engines import build_engine, engine_name, outside_choice, outside_engine
from mainspring.app.model_choice import Choice, choose
from mainspring.app.models import build_compactor, check_context, priced, ready, ready_later
from mainspring.app.policies import (
    DEFAULT_MODE,
    build_mode,
    build_policy,
    confine,
    confinement_of,
    outside,
    parse_mode,
)
from mainspring.app.records import create_recorder, open_recorder
from mainspring.app.steps import Runner
from mainspring.app.steps import run_step as take_step
from mainspring.app.stores import sessions_of, steps_of
from mainspring.approvals import Mode
from mainspring.approvals.grants import GrantFile
from mainspring.approvals.inbox import Inbox
from mainspring.catalog import Sessions
from mainspring.context.prompt import prompt_parts, system_prompt
from mainspring.engines import builtin
from mainspring.errors import UsageError
from mainspring.events import (
    CommandAsked,
    Effort,
    EngineChosen,
    Event,
    Limits,
    ModeChosen,
    ModelChosen,
    Origin,
    PromptPart,
    SessionResumed,
    SessionStarted,
    SpendReserved,
    TurnStarted,
)
from mainspring.folds.caps import is_money_capped, lasting
from mainspring.folds.processes import FOLDER as PROCESSES
from mainspring.journal import JournalReader
from mainspring.models import Model
from mainspring.sandbox import MIB, OnOutput, Sandbox
from mainspring.sandbox.files import Files
from mainspring.sandbox.policy import is_hidden_name
from mainspring.secrets.redaction import expanded
from mainspring.secrets.vault import Vault
from mainspring.session.parts import Approver, Parts
from mainspring.session.recorder import Recorder
from mainspring.session.session import Session
from mainspring.settings import Config, Template, load_config, with_caps
from mainspring.system import this_system
from mainspring.tools import Tool
from mainspring.tools.ask import TOOL as ASK
from mainspring.tools.edit import TOOL as EDIT
from mainspring.tools.fetch import TOOL as FETCH
from mainspring.tools.find import TOOL as FIND
from mainspring.tools.finish import TOOL as FINISH
from mainspring.tools.grep import TOOL as GREP
from mainspring.tools.note import TOOL as NOTE
from mainspring.tools.patch import TOOL as PATCH
from mainspring.tools.plan import TOOL as PLAN
from mainspring.tools.process import TOOL as PROCESS
from mainspring.tools.read import TOOL as READ
from mainspring.tools.shell import TOOL as SHELL
from mainspring.tools.toolbox import Toolbox
from mainspring.tools.wait import TOOL as WAIT
from mainspring.tools.write import TOOL as WRITE
from mainspring.turns.runtime import Engine, lineage
from mainspring.waits.reach import Reach
from mainspring.workspace.instructions import NestedInstructions, find_instructions, repository_root
from mainspring.workspace.memory import ProjectMemory
from mainspring.workspace.project import look_at
from mainspring.workspace.skills import Broken, Skill, find_skills
from mainspring.workspace.snapshots import Snapshots

_RUNNING = (SHELL, PROCESS) if this_system().has_custody else ()
DEFAULT_TOOLS = (READ, WRITE, EDIT, PATCH, FIND, GREP, *_RUNNING, WAIT, FETCH, PLAN, NOTE, ASK, FINISH)


@asynccontextmanager
async def open(  # noqa: A001 - `mainspring.open` is how a program begins
    workspace: Path | str = ".",
    *,
    session: str = "",
    engine: Engine | str = "",
    model: Model | str = "",
    fallback: Sequence[Model | str] = (),
    effort: Effort | None = None,
    mode: str = "",
    limits: Limits | None = None,
    tools: Sequence[Tool] = DEFAULT_TOOLS,
    sandbox: Sandbox | str = "",
    approver: Approver | None = None,
    allow_unpriced: bool = False,
    parent: Session | None = None,
    beginning: Callable[[], Awaitable[Sequence[Event]]] | None = None,
    config: Config | None = None,
    sessions: Sessions | None = None,
    origin: Origin | None = None,
) -> AsyncGenerator[Session]:
    """A new session in a workspace, or with `session` an earlier one, going on where it was. When the model
    fails, those in `fallback` follow in order. An outside `engine` (`codex`, `exec:COMMAND`, ...) has its own
    names for models. With a `parent` the session spends from the caps of that one too. `sessions` is where
    sessions are kept, by default the data folder; `origin` is who gives the commands, for the journal.
    What is not given is taken from the session's journal, then from the settings."""
    config = config or load_config()
    store = sessions or sessions_of(config)
    recorder = await open_recorder(await store.find(session), store, config, origin) if session else None
    chosen: Model | None = None
    try:
        known = await (recall(recorder.journal, recorder.vault) if recorder else _beginning_in(workspace))
        limits = with_caps(lasting(given_limits := limits or Limits(), known.limits), config.settings.caps)
        capping, named = _capping(limits, parent), (engine, model, fallback)
        allow_unpriced = allow_unpriced or (known.is_unpriced and not is_money_capped(given_limits))
        models, takes, name = _choose(*named, known, config, capping, allow_unpriced)
        chosen = models["model"] = await ready(models["model"], config.environment)
        chosen_mode, level = parse_mode(mode or known.mode or config.settings.mode or DEFAULT_MODE)
        toolbox = Toolbox(tools)
        compactor = build_compactor(config)
        prompt = () if recorder else compose_prompt(known.place, chosen_mode, config)
        system = system_prompt(prompt)
        for each in (chosen, *models["fallbacks"], *models["tiers"].values()):
            check_context(each, system, toolbox.specs)
        confinement = confinement_of(known.place, chosen_mode, config)
        parts = Parts(
            **models,
            ready=partial(ready_later, environment=config.environment),
            effort=effort or (None if known.model else config.settings.effort),
            toolbox=toolbox,
            policy=build_policy(build_mode(chosen_mode, level, capping), known.place, config),
            sandbox=partial(confine, sandbox, confinement, config),
            files=Files(confinement),
            engine=takes,
            engine_name=name,
            workspace=str(known.place),
            mode=chosen_mode,
            level=level,
            system=system,
            prompt=tuple(part for part, _ in prompt),
            nested=NestedInstructions(known.place),
            memory=memory_of(known.place, config),
            limits=limits,
            told=given_limits,
            beginning=beginning,
            approver=approver,
            parent=parent,
            compactor=compactor,
            compact_at=config.settings.compact_at,
            idle_steps=config.settings.idle_steps,
            reach=Reach(store, partial(outside, confinement, config), config.settings.waits),
            approval_timeout_s=config.settings.approval_timeout_s,
        )
        recorder = recorder or await create_recorder(store, config, origin)
        parts = _with_folder(parts, store, recorder, config)
    except BaseException:
        for each in filter(None, (chosen, recorder)):
            await each.close()
        raise
    async with aclosing(compactor), Session(recorder, parts) as running:
        yield running


def _capping(limits: Limits, parent: Session | None) -> Limits:
    """The limits of a session, or of one above it, that cap money; its own when none does."""
    above = (each.limits for each in lineage(parent)) if parent else ()
    return next(filter(is_money_capped, (limits, *above)), limits)


def _choose(
    engine: Engine | str,
    model: Model | str,
    fallback: Sequence[Model | str],
    known: KnownSession,
    config: Config,
    limits: Limits,
    allow_unpriced: bool,  # noqa: FBT001 - one of many that are passed on
) -> tuple[Choice, Engine, str]:
    """The models of a session, and who takes its turns, with their name."""
    name = engine_name(engine if isinstance(engine, str) else builtin.NAME, known.engine, config)
    if name != builtin.NAME:
        outside = outside_engine(
            name, model, known=known.model, config=config, limits=limits, allow_unpriced=allow_unpriced
        )
        return outside_choice(outside), build_engine(outside), name
    is_ours = known.engine is None or known.engine.engine == builtin.NAME
    before = known.model if is_ours else None
    connected = partial(priced, config=config, limits=limits, allow_unpriced=allow_unpriced)
    models = choose(model, fallback, known=before, config=config, connect=connected)
    return models, builtin.take_turn if isinstance(engine, str) else engine, name


async def run_step(
    argv: Sequence[str],
    *,
    folder: Path | str = ".",
    template: str = "",
    timeout_s: float | None = None,
    cpu_s: int | None = None,
    memory_bytes: int | None = None,
    mode: str = "",
    sandbox: Sandbox | str = "",
    approver: Approver | None = None,
    on_output: OnOutput | None = None,
    config: Config | None = None,
) -> str:
    """Runs one command without an agent; gives the id of its record. What is not given is the template's."""
    config = config or load_config()
    place = workspace_at(Path(folder))
    chosen = template_of(template, config)
    chosen_mode, level = parse_mode(mode or chosen.mode or config.settings.mode or DEFAULT_MODE)
    asked = CommandAsked(
        argv=tuple(argv),
        cwd=str(place),
        template=template,
        timeout_s=timeout_s or chosen.timeout_s,
        cpu_s=cpu_s or chosen.cpu_s,
        memory_bytes=memory_bytes or chosen.memory_mb * MIB,
    )
    runner = Runner(
        policy=build_policy(build_mode(chosen_mode, level, Limits()), place, config),
        sandbox=partial(confine, sandbox, confinement_of(place, chosen_mode, config), config),
        template=chosen,
        grants=GrantFile(config.home),
        approver=approver,
        approval_timeout_s=config.settings.approval_timeout_s,
        on_output=on_output,
    )
    recorder = await create_recorder(steps_of(config), config)
    try:
        await take_step(recorder, asked, runner)
    finally:
        await recorder.close()
    return recorder.session


def template_of(name: str, config: Config) -> Template:
    """What `[steps.NAME]` of `config.toml` says; without a name what every step gets."""
    known = config.settings.steps
    if name and name not in known:
        names = ", ".join(sorted(known)) or "none yet"
        raise UsageError(f"There is no template {name!r}.", remedy=f"config.toml has: {names}.")
    return known.get(name, Template())


def _with_folder(parts: Parts, store: Sessions, recorder: Recorder, config: Config) -> Parts:
    """The parts that keep something in the data folder or the session's own, or must know its secrets."""
    policy, folder = parts.files.policy, store.directory(recorder.session)
    time_machine = Snapshots(
        policy.workspace,
        config.home / "contents",
        environment=config.environment,
        left_out=(config.home,),
        is_secret=lambda name: is_hidden_name(name, policy),
        holds_secrets=recorder.vault.holds_secrets,
        hide=recorder.vault.redact,
        expand=recorder.vault.expand,
    )
    return msgspec.structs.replace(
        parts,
        grants=GrantFile(config.home),
        day=store.today(),
        time_machine=time_machine,
        processes=folder / PROCESSES,
        inbox=Inbox(folder),
    )


class KnownSession(msgspec.Struct, frozen=True):
    """What a session is known to work with before anybody chooses. `limits` are what it was told to spend in
    its whole life; `is_unpriced` says that a person let it work under them without a price."""

    place: Path
    limits: Limits = Limits()
    is_unpriced: bool = False
    model: ModelChosen | None = None
    mode: str = ""
    engine: EngineChosen | None = None


async def _beginning_in(workspace: Path | str) -> KnownSession:
    return KnownSession(place=workspace_at(Path(workspace)))


async def recall(journal: JournalReader, vault: Vault) -> KnownSession:
    """What a session works with, as its journal says, with the names and paths as they are."""
    started = await journal.last("SessionStarted")
    model, mode = await journal.last("ModelChosen"), await journal.last("ModeChosen")
    engine, spend = await journal.last("EngineChosen"), await journal.last("SpendReserved")
    if started is None or not isinstance(started.event, SessionStarted):
        raise UsageError("This session has no beginning: nothing was recorded in it.")
    limits = await _limits_given_before(journal)
    is_unpriced = spend is not None and isinstance(spend.event, SpendReserved) and not spend.event.priced
    return KnownSession(
        limits=limits,
        is_unpriced=is_unpriced and is_money_capped(limits),
        place=workspace_at(
            Path(vault.expand(started.event.workspace)),
            remedy=f"Go on in another one: mainspring fork {started.event.session} -C FOLDER",
        ),
        model=expanded(model.event, vault) if model and isinstance(model.event, ModelChosen) else None,
        mode=mode.event.level or mode.event.mode if mode and isinstance(mode.event, ModeChosen) else "",
        engine=expanded(engine.event, vault) if engine and isinstance(engine.event, EngineChosen) else None,
    )


async def _limits_given_before(journal: JournalReader) -> Limits:
    """The limits that a person gave a session: with its last turn, or when that was resumed."""
    turn = await journal.last("TurnStarted")
    if turn is None or not isinstance(turn.event, TurnStarted):
        return Limits()
    given = turn.event.limits
    for resumed in await journal.read(after=turn.seq, kinds=("SessionResumed",)):
        if isinstance(resumed.event, SessionResumed) and resumed.event.limits:
            session = resumed.event.limits.session
            given = Limits(max_cost_usd=session.usd, max_tokens=session.tokens)
    return given


def compose_prompt(workspace: Path, mode: Mode, config: Config) -> list[tuple[PromptPart, str]]:
    """The system prompt of a new session, with what people wrote down for agents."""
    skills, _ = skills_of(workspace, config)
    return prompt_parts(
        workspace=workspace,
        mode=mode,
        instructions=find_instructions(workspace, config.folder),
        skills=skills,
        project=look_at(workspace),
        memory=memory_of(workspace, config).load(),
    )


def skills_of(workspace: Path, config: Config) -> tuple[list[Skill], list[Broken]]:
    """The skills for work in a folder: the project's and the user's; and those that cannot be used."""
    home = Path(config.variable("HOME") or "/")
    shelves = (workspace / "skills", workspace / ".agents" / "skills", config.folder / "skills")
    return find_skills(*shelves, home / ".agents" / "skills")


def memory_of(workspace: Path, config: Config) -> ProjectMemory:
    """What is remembered about the project that a folder belongs to."""
    return ProjectMemory(config.home, repository_root(workspace))


def workspace_at(path: Path, *, remedy: str = "Choose one with -C.") -> Path:
    """A folder to work in; `UsageError` when it is not there."""
    place = path.expanduser().resolve()
    if not place.is_dir():
        raise UsageError(f"The workspace {place} is not a folder.", remedy=remedy)
    return place
