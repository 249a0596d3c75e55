"""`chat`, which is also `mainspring` without a command. What runs it is loaded once it is wanted."""

from __future__ import annotations

import asyncio
from importlib import import_module
from pathlib import Path
from typing import get_args

import click
from msgspec.structs import replace

from mainspring.app.policies import MODE_NAMES, RUNG_NAMES
from mainspring.cli.config import NO_GATEWAY, load_config
from mainspring.cli.options import POSITIVE
from mainspring.events import Effort

_CHAT = "mainspring.chat.start"


@click.command("chat")
@click.argument("text", default="")
@click.option("--resume", "session", default="", help="Go on with this session.")
@click.option("--model", "models", multiple=True, help="Model or tier. Given again: a fallback.")
@NO_GATEWAY
@click.option("--effort", type=click.Choice(get_args(Effort)), help="Reasoning effort of the model.")
@click.option("--mode", type=click.Choice(MODE_NAMES), default=None, help="What needs approval.")
@click.option("--sandbox", type=click.Choice(RUNG_NAMES), default=None, help="How to confine commands.")
@click.option("--max-cost-usd", type=POSITIVE, help="Maximum cost of the whole session, in US dollars.")
@click.option("--allow-unpriced", is_flag=True, help="Accept a model of unknown price under a cost limit.")
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
    allow_unpriced: bool,
) -> None:
    """Talk with an agent in this folder; TEXT is said first. `mainspring` alone does the same."""
    chat = import_module(_CHAT)
    options = chat.ChatOptions(
        folder=folder,
        session=session,
        models=models,
        effort=effort,
        mode=mode or "",
        sandbox=sandbox or "",
        max_cost_usd=max_cost_usd,
        allow_unpriced=allow_unpriced,
        text=text,
    )
    config = load_config()
    origin = replace(config.origin, face="chat")
    asyncio.run(chat.run_chat(replace(config, origin=origin), options))
