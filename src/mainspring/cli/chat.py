"""`chat`, which is also `mainspring` without a command. What runs it is loaded once it is wanted."""

from __future__ import annotations

import asyncio
from importlib import import_module
from pathlib import Path
from typing import get_args

import click
from msgspec.structs import replace

from mainspring.app.modes import MODE_NAMES, RUNG_NAMES
from mainspring.app.operations.sessions import newest_session
from mainspring.app.workspaces import AllowHome, check_workspace
from mainspring.cli.allow_home import ALLOW_HOME
from mainspring.cli.config import NO_GATEWAY, load_config, offer_setup, refuse_no_gateway
from mainspring.cli.options import POSITIVE
from mainspring.events import Effort

_CHAT = "mainspring.chat.start"


@click.command("chat")
@click.argument("text", default="")
@click.option("--resume", "session", default="", help="Go on with this session.")
@click.option("-c", "--continue", "is_last", is_flag=True, help="Go on with the last session of this folder.")
@click.option("--model", "models", multiple=True, help="Model or tier. Given again: a fallback.")
@NO_GATEWAY
@click.option("--effort", type=click.Choice(get_args(Effort)), help="Reasoning effort of the model.")
@click.option("--mode", type=click.Choice(MODE_NAMES), default=None, help="What needs approval.")
@click.option("--sandbox", type=click.Choice(RUNG_NAMES), default=None, help="How to confine commands.")
@click.option("--max-cost-usd", type=POSITIVE, help="Maximum cost of the whole session, in US dollars.")
@click.option("--allow-unpriced", is_flag=True, help="Accept a model of unknown price under a cost limit.")
@ALLOW_HOME
@click.option("--plain", "is_plain", is_flag=True, help="Lines only: for screen readers and pipes.")
@click.option("--vi", "is_vi", is_flag=True, help="Keys of vi in the input line.")
@click.option("--keep-going", "keeps_going", is_flag=True, help="The daemon goes on if the terminal closes.")
@click.option("-C", "folder", type=click.Path(path_type=Path), default=Path(), help="The workspace.")
def chat_command(
    text: str,
    session: str,
    models: tuple[str, ...],
    effort: Effort | None,
    mode: str | None,
    sandbox: str | None,
    max_cost_usd: float | None,
    folder: Path,
    *,
    is_last: bool,
    allow_unpriced: bool,
    allow_home: AllowHome,
    is_plain: bool,
    is_vi: bool,
    keeps_going: bool,
) -> None:
    """Talk with an agent in this folder; TEXT is said first. `mainspring` alone does the same."""
    if is_last and session:
        raise click.UsageError("--continue and --resume name a session each; give one of them.")
    if keeps_going:
        refuse_no_gateway()
    if not (models or session or is_last):
        offer_setup()
    chat = import_module(_CHAT)
    config = load_config()
    session = asyncio.run(newest_session(config, folder)) if is_last else session
    is_allowed = not session and check_workspace(folder.resolve(), config, allow_home=allow_home)
    options = chat.ChatOptions(
        folder=folder,
        session=session,
        models=models,
        effort=effort,
        mode=mode or "",
        sandbox=sandbox or "",
        max_cost_usd=max_cost_usd,
        allow_unpriced=allow_unpriced,
        allow_home=is_allowed,
        text=text,
    )
    origin = replace(config.origin, face="chat")
    how = {"is_vi": is_vi, "is_plain": is_plain, "keeps_going": keeps_going}
    asyncio.run(chat.run_chat(replace(config, origin=origin), options, **how))
