"""Builds a session from settings: the only place that names concrete classes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import cast, get_args

import msgspec

from mainspring.approvals import ByMode, Mode
from mainspring.config import Config, load_config
from mainspring.context.prompt import system_prompt
from mainspring.engines import builtin
from mainspring.errors import UsageError
from mainspring.events import Event, Limits, ModeChosen, ModelChosen, SessionStarted
from mainspring.journal import Journal
from mainspring.journal.store import Store
from mainspring.models import Model
from mainspring.models.connect import connect
from mainspring.models.prices import PriceBook
from mainspring.models.scripted import ScriptedModel, load_script
from mainspring.parts import Approver, Parts
from mainspring.sandbox import Policy as Confinement
from mainspring.sandbox import Sandbox
from mainspring.sandbox.files import Files
from mainspring.sandbox.ladder import choose
from mainspring.sandbox.policy import is_hidden_name
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
from mainspring.workspace.snapshots import Snapshots

DEFAULT_TOOLS = (READ, WRITE, EDIT, PATCH, FIND, GREP, SHELL, PLAN, NOTE, ASK, FINISH)
DEFAULT_MODE: Mode = "auto"


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
    beginning: Callable[[], Awaitable[Sequence[Event]]] | None = None,
    config: Config | None = None,
) -> AsyncGenerator[Session]:
    """A new session in a workspace, or with `session` an earlier one, going on where it was.

    What is not given is taken from the session's journal, then from the settings.
    """
    config = config or load_config()
    store = Store(config.home)
    limits = limits or Limits()
    journal = await store.open(store.find(session)) if session else None
    try:
        known = await _recall(journal) if journal else _Known(place=_folder(Path(workspace)))
        named = model or known.model or config.model
        chosen = build_model(named, config) if isinstance(named, str) else named
        check_price(chosen, limits, allow_unpriced=allow_unpriced)
        chosen_mode = parse_mode(mode or known.mode or config.settings.mode or DEFAULT_MODE)
        confinement = confinement_of(known.place, chosen_mode, config)
        files = Files(confinement)
        parts = Parts(
            model=chosen,
            toolbox=Toolbox(tools),
            policy=ByMode(chosen_mode, max_cost_usd=limits.max_cost_usd),
            sandbox=partial(_confine, sandbox, confinement, config),
            files=files,
            engine=builtin.take_turn,
            workspace=str(known.place),
            mode=chosen_mode,
            system=system_prompt(workspace=known.place, mode=chosen_mode),
            limits=limits,
            time_machine=Snapshots(
                known.place,
                config.home / "contents",
                environment=config.environment,
                left_out=(config.home,),
                is_secret=lambda name: is_hidden_name(name, files.policy),
            ),
            beginning=beginning,
            approver=approver,
        )
        journal = journal or await store.create()
    except BaseException:
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
    """The model that a user named: a provider's, `openai-compatible@URL#NAME`, or `scripted@FILE`."""
    if not spec:
        raise UsageError("No model was chosen.", remedy="Name one with --model, or set MAINSPRING_MODEL.")
    if spec.startswith("scripted@"):
        return ScriptedModel(load_script(Path(spec.removeprefix("scripted@"))), name=spec)
    prices = PriceBook(config.settings.prices, kept=config.home / "prices.json")
    return connect(spec, config.environment, prices=prices)


def check_price(model: Model, limits: Limits, *, allow_unpriced: bool) -> None:
    """A capped run needs a price: a cap that cannot be kept is not given."""
    if model.price is None and limits.max_cost_usd is not None and not allow_unpriced:
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
