"""Builds a session from settings: the only place that names concrete classes."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import msgspec

from mainspring.approvals import LEVELS, MODES, ByMode, Mode, Policy, Proposed, Verdict, by_level
from mainspring.approvals.grants import GrantFile
from mainspring.approvals.inbox import Inbox
from mainspring.approvals.secrets import Vault, open_vault
from mainspring.choice import choose
from mainspring.compactor import Compactor
from mainspring.config import Config, Template, load_config, with_caps
from mainspring.context.history import estimated_tokens
from mainspring.context.prompt import prompt_parts, system_prompt
from mainspring.engines import builtin
from mainspring.errors import UsageError
from mainspring.events import (
    CommandAsked,
    Effort,
    Event,
    Limits,
    ModeChosen,
    ModelChosen,
    PromptPart,
    SessionStarted,
    ToolSpec,
)
from mainspring.journal import Journal
from mainspring.journal.day import Today
from mainspring.journal.store import Store
from mainspring.ledger import is_money_capped
from mainspring.models import Model
from mainspring.models.connect import connect
from mainspring.models.local.model import MODULE as LOCAL_SERVER
from mainspring.models.local.model import LocalModel
from mainspring.models.local.weights import find_weights
from mainspring.models.prices import PriceBook
from mainspring.models.retry import Retried
from mainspring.models.scripted import ScriptedModel, load_script
from mainspring.models.tiers import model_of
from mainspring.parts import Approver, Parts
from mainspring.processes import FOLDER as PROCESSES
from mainspring.sandbox import MIB, OnOutput, Sandbox
from mainspring.sandbox import Policy as Confinement
from mainspring.sandbox.companion import Companion, start_companion
from mainspring.sandbox.files import Files
from mainspring.sandbox.policy import is_hidden_name
from mainspring.sandbox.policy import policy as confined
from mainspring.session import Session
from mainspring.steps import Runner, steps_home
from mainspring.steps import run_step as take_step
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
from mainspring.tools.write import TOOL as WRITE
from mainspring.workspace.instructions import NestedInstructions, find_instructions, repository_root
from mainspring.workspace.memory import Memory
from mainspring.workspace.project import look_at
from mainspring.workspace.skills import find_skills
from mainspring.workspace.snapshots import Snapshots

DEFAULT_TOOLS = (READ, WRITE, EDIT, PATCH, FIND, GREP, SHELL, PROCESS, FETCH, PLAN, NOTE, ASK, FINISH)
DEFAULT_MODE: Mode = "auto"
_LOADED_WITHIN_S = 600.0
_LEAST_ROOM_TOKENS = 1024
RULES_FILE = "approvals.toml"
SECRETS_FILE = "secrets.json"


@asynccontextmanager
async def open(  # noqa: A001 - `mainspring.open` is how a program begins
    workspace: Path | str = ".",
    *,
    session: str = "",
    model: Model | str = "",
    fallback: Sequence[Model | str] = (),
    effort: Effort | None = None,
    mode: str = "",
    limits: Limits | None = None,
    tools: Sequence[Tool] = DEFAULT_TOOLS,
    sandbox: Sandbox | str = "",
    approver: Approver | None = None,
    allow_unpriced: bool = False,
    beginning: Callable[[], Awaitable[Sequence[Event]]] | None = None,
    config: Config | None = None,
) -> AsyncGenerator[Session]:
    """A new session in a workspace, or with `session` an earlier one, going on where it was. When the model
    fails, the session goes on with those in `fallback`, in their order.

    What is not given is taken from the session's journal, then from the settings.
    """
    config = config or load_config()
    store = Store(config.home)
    limits = with_caps(limits or Limits(), config.settings.caps)
    journal = await store.open(store.find(session)) if session else None
    chosen: Model | None = None
    try:
        known = await _recall(journal) if journal else _Known(place=_folder(Path(workspace)))
        connected = partial(_priced, config=config, limits=limits, allow_unpriced=allow_unpriced)
        models = choose(model, fallback, known=known.model, config=config, connect=connected)
        chosen = models["model"] = await _ready(models["model"])
        chosen_mode, level = parse_mode(mode or known.mode or config.settings.mode or DEFAULT_MODE)
        by_mode = build_mode(chosen_mode, level, limits)
        toolbox = Toolbox(tools)
        compactor = build_compactor(config)
        prompt = () if journal else compose_prompt(known.place, chosen_mode, config)
        system = system_prompt(prompt)
        check_context(chosen, system, toolbox.specs)
        confinement = confinement_of(known.place, chosen_mode, config)
        parts = Parts(
            **models,
            effort=effort or (None if known.model else config.settings.effort),
            toolbox=toolbox,
            policy=build_policy(by_mode, known.place, config),
            sandbox=partial(_confine, sandbox, confinement, config),
            files=Files(confinement),
            engine=builtin.take_turn,
            workspace=str(known.place),
            mode=chosen_mode,
            level=level,
            system=system,
            prompt=tuple(part for part, _ in prompt),
            nested=NestedInstructions(known.place),
            memory=memory_of(known.place, config),
            limits=limits,
            beginning=beginning,
            grants=GrantFile(config.home),
            approver=approver,
            day=Today(store),
            compactor=compactor,
            compact_at=config.settings.compact_at,
            approval_timeout_s=config.settings.approval_timeout_s,
        )
        journal = journal or await store.create()
        parts = _with_folder(parts, store, journal.session, config)
    except BaseException:
        if chosen is not None:
            await chosen.close()
        if journal:
            await journal.close()
        raise
    async with aclosing(compactor), Session(journal, parts) as running:
        yield running


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
    place = _folder(Path(folder))
    chosen = _template(template, config)
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
        sandbox=partial(_confine, sandbox, confinement_of(place, chosen_mode, config), config),
        template=chosen,
        grants=GrantFile(config.home),
        approver=approver,
        on_output=on_output,
    )
    store = Store(steps_home(config.home))
    journal = await store.create()
    try:
        vault = vault_of(store, journal.session, config)
        await take_step(journal, asked, msgspec.structs.replace(runner, vault=vault))
    finally:
        await journal.close()
    return journal.session


def _template(name: str, config: Config) -> Template:
    known = config.settings.steps
    if name and name not in known:
        names = ", ".join(sorted(known)) or "none yet"
        raise UsageError(f"There is no template {name!r}.", remedy=f"config.toml has: {names}.")
    return known.get(name, Template())


def vault_of(store: Store, session: str, config: Config) -> Vault:
    """The secrets of a session, and what stands in for them."""
    return open_vault(store.directory(session) / SECRETS_FILE, config.environment)


def _with_folder(parts: Parts, store: Store, session: str, config: Config) -> Parts:
    """The parts that keep something in the session's own folder, or must know its secrets."""
    policy, vault = parts.files.policy, vault_of(store, session, config)
    time_machine = Snapshots(
        policy.workspace,
        config.home / "contents",
        environment=config.environment,
        left_out=(config.home,),
        is_secret=lambda name: is_hidden_name(name, policy),
        holds_secrets=vault.holds_secrets,
    )
    return msgspec.structs.replace(
        parts,
        vault=vault,
        time_machine=time_machine,
        processes=store.directory(session) / PROCESSES,
        inbox=Inbox(store.directory(session)),
    )


class _Known(msgspec.Struct, frozen=True):
    """What a session is known to work with before anybody chooses."""

    place: Path
    model: ModelChosen | None = None
    mode: str = ""


async def _recall(journal: Journal) -> _Known:
    started = await journal.last("SessionStarted")
    model, mode = await journal.last("ModelChosen"), await journal.last("ModeChosen")
    if started is None or not isinstance(started.event, SessionStarted):
        raise UsageError("This session has no beginning: nothing was recorded in it.")
    return _Known(
        place=_folder(Path(started.event.workspace)),
        model=model.event if model and isinstance(model.event, ModelChosen) else None,
        mode=mode.event.level or mode.event.mode if mode and isinstance(mode.event, ModeChosen) else "",
    )


def compose_prompt(workspace: Path, mode: Mode, config: Config) -> list[tuple[PromptPart, str]]:
    """The system prompt of a new session, with what people wrote down for agents."""
    home = Path(config.variable("HOME") or "/")
    shelves = (workspace / "skills", workspace / ".agents" / "skills", config.folder / "skills")
    skills, _ = find_skills(*shelves, home / ".agents" / "skills")
    return prompt_parts(
        workspace=workspace,
        mode=mode,
        instructions=find_instructions(workspace, config.folder),
        skills=skills,
        project=look_at(workspace),
        memory=memory_of(workspace, config).load(),
    )


def memory_of(workspace: Path, config: Config) -> Memory:
    """What is remembered about the project that a folder belongs to."""
    return Memory(config.home, repository_root(workspace))


def _folder(path: Path) -> Path:
    place = path.expanduser().resolve()
    if not place.is_dir():
        raise UsageError(f"The workspace {place} is not a folder.", remedy="Choose one with -C.")
    return place


def _priced(named: Model | str, *, config: Config, limits: Limits, allow_unpriced: bool) -> Model:
    model = build_model(named, config) if isinstance(named, str) else named
    check_price(model, limits, allow_unpriced=allow_unpriced)
    return model


def build_model(spec: str, config: Config) -> Model:
    """The model that a user named: a provider's, `openai-compatible@URL#NAME`, `scripted@FILE`, or
    `local` and `local/FILE.gguf`, which are on this machine."""
    if not spec:
        raise UsageError("No model was chosen.", remedy="Name one with --model, or set MAINSPRING_MODEL.")
    spec = model_of(spec, config.settings.tiers, config.environment, usual=config.model)
    if spec == "local" or spec.startswith("local/"):
        return build_local(spec, config)
    if spec.startswith("scripted@"):
        return ScriptedModel(load_script(Path(spec.removeprefix("scripted@"))), name=spec)
    settings = config.settings
    kept = config.home / "prices.json"
    prices = PriceBook(settings.prices, windows=settings.context_tokens, kept=kept)
    return connect(spec, config.environment, prices=prices, policy=settings.retry)


async def _ready(model: Model) -> Model:
    """A model of which it is known what it takes: one on this machine is loaded for that."""
    if not isinstance(model, LocalModel):
        return model
    await model.start()
    return Retried(model)


def build_local(spec: str, config: Config) -> LocalModel:
    """The model in a file on this machine; named by its whole path, so that a session finds it again."""
    path = find_weights(spec, config.home)

    async def start(line: bytes) -> Companion:
        if find_spec("xllamacpp") is None:
            raise UsageError(
                "Local models need llama.cpp, which is not installed.",
                remedy='Install it: pip install "mainspring[local]".',
            )
        return await start_companion(
            LOCAL_SERVER, line, environment=config.environment, timeout_s=_LOADED_WITHIN_S
        )

    name = f"local/{path}" if spec.endswith(".gguf") else spec
    return LocalModel(name, path, start, context_tokens=config.settings.local_context_tokens)


def check_context(model: Model, system: str, tools: Sequence[ToolSpec]) -> None:
    """A model that cannot take the prompt before anything was said is of no use."""
    if model.context_tokens is None:
        return
    needed = estimated_tokens(len(system) + len(msgspec.json.encode(tools)))
    if needed + _LEAST_ROOM_TOKENS > model.context_tokens:
        raise UsageError(
            f"{model.name} takes {model.context_tokens:,} tokens. The instructions and the tools need about"
            f" {needed:,}, and a task needs {_LEAST_ROOM_TOKENS:,} more.",
            remedy="Use a model that takes more.",
        )


def build_compactor(config: Config) -> Compactor:
    writer = config.settings.compaction_model
    return Compactor(build_model(writer, config) if writer else None)


def check_price(model: Model, limits: Limits, *, allow_unpriced: bool) -> None:
    """A capped run needs a price: a cap that cannot be kept is not given."""
    if model.price is None and is_money_capped(limits) and not allow_unpriced:
        raise UsageError(
            f"The price of {model.name} is unknown, so the cost limit cannot be kept.",
            remedy=f'Set it in config.toml ([prices."{model.name}"] input = …, output = …, in USD per million'
            " tokens), or run with --allow-unpriced.",
        )


async def _confine(sandbox: Sandbox | str, policy: Confinement, config: Config) -> Sandbox:
    if not isinstance(sandbox, str):
        return sandbox
    from mainspring.sandbox.ladder import choose  # noqa: PLC0415 - needed by the first command, not by a start

    return await choose(policy, config.environment, name=sandbox)


class _Late:
    """A policy that is loaded when the first call is judged."""

    def __init__(self, load: Callable[[], Policy]) -> None:
        self._load = load
        self._loaded: Policy | None = None

    def judge(self, proposed: Proposed) -> Verdict:
        self._loaded = self._loaded or self._load()
        return self._loaded.judge(proposed)


def build_mode(mode: Mode, level: str, limits: Limits) -> ByMode:
    cap_usd = limits.max_cost_usd
    return by_level(level, max_cost_usd=cap_usd) if level else ByMode(mode, max_cost_usd=cap_usd)


def build_policy(mode: ByMode, workspace: Path, config: Config) -> Policy:
    """The rules of the user and of the project, the grants, and the mode. Rules that are wrong are an error
    here; without any rules, the shell parser is loaded only when a call is judged."""
    late = _Late(lambda: _layered(mode, workspace, config))
    return _layered(mode, workspace, config) if any(map(Path.exists, rule_files(workspace, config))) else late


def rule_files(workspace: Path, config: Config) -> tuple[Path, Path]:
    """Where the rules of the user and of the project are written."""
    return config.folder / RULES_FILE, workspace / ".mainspring" / RULES_FILE


def _layered(mode: ByMode, workspace: Path, config: Config) -> Policy:
    from mainspring.approvals import policy, rules  # noqa: PLC0415 - loads a shell parser, see `build_policy`

    home = config.variable("HOME") or "/"
    file = GrantFile(config.home)
    user, project = rule_files(workspace, config)
    return policy.Layered(
        mode,
        home=home,
        user=rules.load(user, source="user", home=home),
        project=rules.load(project, source="project", home=home),
        grants=lambda proposed: file.live(
            session=proposed.session, workspace=proposed.workspace, now_us=time.time_ns() // 1000
        ),
    )


def confinement_of(workspace: Path, mode: Mode, config: Config) -> Confinement:
    """What file tools and commands may touch in a workspace."""
    home = Path(config.variable("HOME") or "/")
    access = "read-only" if mode == "plan" else "workspace-write"
    policy = confined(workspace, home=home, data=config.home, mode=access)
    names = ("sessions", "steps", "grants.json", "contents")
    private = tuple(config.home.resolve() / name for name in names)
    return msgspec.structs.replace(policy, hidden_paths=(*policy.hidden_paths, *private))


def parse_mode(name: str) -> tuple[Mode, str]:
    """The mode of a name, and the level of autonomy when the name is one."""
    if name in LEVELS:
        return LEVELS[name], name
    if name not in MODES:
        names = ", ".join((*MODES, *LEVELS))
        raise UsageError(f"There is no mode {name!r}.", remedy=f"The modes are {names}.")
    return name, ""
