"""Builds a session from settings: the only place that names concrete classes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import cast, get_args

import msgspec

from mainspring.approvals import ByMode, Mode
from mainspring.config import Config, load_config, with_caps
from mainspring.context.history import estimated_tokens
from mainspring.context.prompt import system_prompt
from mainspring.engines import builtin
from mainspring.errors import UsageError
from mainspring.events import Limits, ModeChosen, ModelChosen, SessionStarted, ToolSpec
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
from mainspring.parts import Approver, Parts
from mainspring.sandbox import Policy as Confinement
from mainspring.sandbox import Sandbox
from mainspring.sandbox.companion import Companion, start_companion
from mainspring.sandbox.files import Files
from mainspring.sandbox.ladder import choose
from mainspring.sandbox.policy import policy as confined
from mainspring.session import Session
from mainspring.tools import Tool
from mainspring.tools.ask import TOOL as ASK
from mainspring.tools.edit import TOOL as EDIT
from mainspring.tools.find import TOOL as FIND
from mainspring.tools.finish import TOOL as FINISH
from mainspring.tools.grep import TOOL as GREP
from mainspring.tools.note import TOOL as NOTE
from mainspring.tools.patch import TOOL as PATCH
from mainspring.tools.plan import TOOL as PLAN
from mainspring.tools.read import TOOL as READ
from mainspring.tools.shell import TOOL as SHELL
from mainspring.tools.toolbox import Toolbox
from mainspring.tools.write import TOOL as WRITE

DEFAULT_TOOLS = (READ, WRITE, EDIT, PATCH, FIND, GREP, SHELL, PLAN, NOTE, ASK, FINISH)
DEFAULT_MODE: Mode = "auto"
_LOADED_WITHIN_S = 600.0
_LEAST_ROOM_TOKENS = 1024


@asynccontextmanager
async def open(  # noqa: A001 - `mainspring.open` is how a program begins
    workspace: Path | str = ".",
    *,
    session: str = "",
    model: Model | str = "",
    mode: str = "",
    limits: Limits | None = None,
    tools: Sequence[Tool] = DEFAULT_TOOLS,
    sandbox: Sandbox | str = "",
    approver: Approver | None = None,
    allow_unpriced: bool = False,
    config: Config | None = None,
) -> AsyncGenerator[Session]:
    """A new session in a workspace, or with `session` an earlier one, going on where it was.

    What is not given is taken from the session's journal, then from the settings.
    """
    config = config or load_config()
    store = Store(config.home)
    limits = with_caps(limits or Limits(), config.settings.caps)
    journal = await store.open(store.find(session)) if session else None
    chosen: Model | None = None
    try:
        known = await _recall(journal) if journal else _Known(place=_folder(Path(workspace)))
        named = model or known.model or config.model
        chosen = build_model(named, config) if isinstance(named, str) else named
        if isinstance(chosen, LocalModel):
            await chosen.start()
            chosen = Retried(chosen)
        check_price(chosen, limits, allow_unpriced=allow_unpriced)
        chosen_mode = parse_mode(mode or known.mode or config.settings.mode or DEFAULT_MODE)
        toolbox = Toolbox(tools)
        system = system_prompt(workspace=known.place, mode=chosen_mode)
        check_context(chosen, system, toolbox.specs)
        confinement = confinement_of(known.place, chosen_mode, config)
        parts = Parts(
            model=chosen,
            toolbox=toolbox,
            policy=ByMode(chosen_mode, max_cost_usd=limits.max_cost_usd),
            sandbox=partial(_confine, sandbox, confinement, config),
            files=Files(confinement),
            engine=builtin.take_turn,
            workspace=str(known.place),
            mode=chosen_mode,
            system=system,
            limits=limits,
            approver=approver,
            day=Today(store),
        )
        journal = journal or await store.create()
    except BaseException:
        if chosen is not None:
            await chosen.close()
        if journal:
            await journal.close()
        raise
    async with Session(journal, parts) as running:
        yield running


class _Known(msgspec.Struct, frozen=True):
    """What a session is known to work with before anybody chooses."""

    place: Path
    model: str = ""
    mode: str = ""


async def _recall(journal: Journal) -> _Known:
    started = await journal.last("SessionStarted")
    model, mode = await journal.last("ModelChosen"), await journal.last("ModeChosen")
    if started is None or not isinstance(started.event, SessionStarted):
        raise UsageError("This session has no beginning: nothing was recorded in it.")
    return _Known(
        place=_folder(Path(started.event.workspace)),
        model=model.event.model if model and isinstance(model.event, ModelChosen) else "",
        mode=mode.event.mode if mode and isinstance(mode.event, ModeChosen) else "",
    )


def _folder(path: Path) -> Path:
    place = path.expanduser().resolve()
    if not place.is_dir():
        raise UsageError(f"The workspace {place} is not a folder.", remedy="Choose one with -C.")
    return place


def build_model(spec: str, config: Config) -> Model:
    """The model that a user named: a provider's, `openai-compatible@URL#NAME`, `scripted@FILE`, or
    `local` and `local/FILE.gguf`, which are on this machine."""
    if not spec:
        raise UsageError("No model was chosen.", remedy="Name one with --model, or set MAINSPRING_MODEL.")
    if spec == "local" or spec.startswith("local/"):
        return build_local(spec, config)
    if spec.startswith("scripted@"):
        return ScriptedModel(load_script(Path(spec.removeprefix("scripted@"))), name=spec)
    prices = PriceBook(config.settings.prices, kept=config.home / "prices.json")
    return connect(spec, config.environment, prices=prices)


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


def check_price(model: Model, limits: Limits, *, allow_unpriced: bool) -> None:
    """A capped run needs a price: a cap that cannot be kept is not given."""
    if model.price is None and is_money_capped(limits) and not allow_unpriced:
        raise UsageError(
            f"The price of {model.name} is unknown, so the cost limit cannot be kept.",
            remedy=f'Set it in config.toml ([prices."{model.name}"] input = …, output = …, in USD per million'
            " tokens), or run with --allow-unpriced.",
        )


async def _confine(sandbox: Sandbox | str, policy: Confinement, config: Config) -> Sandbox:
    return await choose(policy, config.environment, name=sandbox) if isinstance(sandbox, str) else sandbox


def confinement_of(workspace: Path, mode: Mode, config: Config) -> Confinement:
    """What file tools and commands may touch in a workspace."""
    home = Path(config.variable("HOME") or "/")
    access = "read-only" if mode == "plan" else "workspace-write"
    return confined(workspace, home=home, data=config.home, mode=access)


def parse_mode(mode: str) -> Mode:
    if mode not in get_args(Mode):
        raise UsageError(f"There is no mode {mode!r}.", remedy=f"The modes are {', '.join(get_args(Mode))}.")
    return cast("Mode", mode)
